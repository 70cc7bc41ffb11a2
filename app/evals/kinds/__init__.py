"""The kinds of evaluators that ship. Only wiring names them."""
