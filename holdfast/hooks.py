"""For a hook that your package offers by name: its `BuiltinHook` as an entry point of `holdfast.hooks`."""

from app.policy.contract import Handler, HookConfig, HookContext, Point
from app.policy.kind import BuiltinHook

__all__ = ["BuiltinHook", "Handler", "HookConfig", "HookContext", "Point"]
