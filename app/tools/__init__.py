"""The only way to touch the world. For authors of Python tools: `from app.tools import ToolError`."""

from app.tools.contract import ToolContext, ToolError

__all__ = ["ToolContext", "ToolError"]
