"""What you import when you write tools, hooks and kinds of your own for Holdfast.

    from holdfast import ToolError, tool                 a tool of a workspace
    from holdfast import Allow, Deny, Transform          a hook of a workspace
    from holdfast.backends import BackendKind            a backend of a package
    from holdfast.providers import ProviderKind          a provider of a package
    from holdfast.tools import ToolKind                  a kind of tool of a package
    from holdfast.hooks import BuiltinHook               a hook of a package
    from holdfast.evaluators import EvaluatorKind        a kind of evaluator of a package
    from holdfast.buses import BusKind                   a bus of a package
    from holdfast.memories import MemoryKind             a kind of memory of a package
    from holdfast.client import Client                   the client of a server
    from holdfast.testing import running_server          a server in your own tests

The server itself is the package `app`, which may change at any time; what is here does not without notice.
"""

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from app.core.decisions import Allow, Decision, Deny, Transform
    from app.core.errors import Failure
    from app.policy.contract import HookContext
    from app.tools.contract import BytesResult, FileResult, JsonResult, TextResult, ToolContext, ToolError
    from app.tools.decorator import tool
    from app.workspace.catalog import AnyConfig, NoConfig
    from app.workspace.specs.base import Spec as Config

__all__ = [
    "Allow",
    "AnyConfig",
    "BytesResult",
    "Config",
    "Decision",
    "Deny",
    "Failure",
    "FileResult",
    "HookContext",
    "JsonResult",
    "NoConfig",
    "TextResult",
    "ToolContext",
    "ToolError",
    "Transform",
    "tool",
]

_PLACES: Final = {
    "Allow": ("app.core.decisions", "Allow"),
    "AnyConfig": ("app.workspace.catalog", "AnyConfig"),
    "BytesResult": ("app.tools.contract", "BytesResult"),
    "Config": ("app.workspace.specs.base", "Spec"),
    "Decision": ("app.core.decisions", "Decision"),
    "Deny": ("app.core.decisions", "Deny"),
    "Failure": ("app.core.errors", "Failure"),
    "FileResult": ("app.tools.contract", "FileResult"),
    "HookContext": ("app.policy.contract", "HookContext"),
    "JsonResult": ("app.tools.contract", "JsonResult"),
    "NoConfig": ("app.workspace.catalog", "NoConfig"),
    "TextResult": ("app.tools.contract", "TextResult"),
    "ToolContext": ("app.tools.contract", "ToolContext"),
    "ToolError": ("app.tools.contract", "ToolError"),
    "Transform": ("app.core.decisions", "Transform"),
    "tool": ("app.tools.decorator", "tool"),
}
"""Where each name is; loaded when it is first used, so that the client can be imported without the server."""


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, attribute = _PLACES[name]
    return getattr(importlib.import_module(module), attribute)
