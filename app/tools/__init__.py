"""The only way to touch the world. Authors of Python tools import from `holdfast`."""

from app.tools.contract import ToolContext, ToolError

__all__ = ["ToolContext", "ToolError"]
