"""The OpenAI-compatible edge: agents as models, chat completions and responses over the same runs."""
