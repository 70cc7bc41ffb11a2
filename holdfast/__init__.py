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

The server itself is the package `app`, which may change at any time; what is here does not without notice.
"""

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
