"""Agent runtimes behind one contract."""
