"""The read side: pure folds over events."""
