"""What every backend with a loop of its own must do, whoever wrote the loop."""
