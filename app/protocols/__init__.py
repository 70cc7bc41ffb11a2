"""Outside shapes to commands, and events to frames. The only room that knows the web framework."""

from pydantic import BaseModel

# The framework's models of the OpenAPI document are built when they are first used, for a quicker start.
BaseModel.model_config["defer_build"] = True
import fastapi  # noqa: E402, F401

del BaseModel.model_config["defer_build"]
