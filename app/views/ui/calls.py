"""Tool calls, folded from UI events: one record a call, whatever happened to it last."""

from typing import Any, Final

from app.views.ui.fields import UiFields, present
from app.views.ui.standard import DELTA_CLASSES

Call = dict[str, Any]

_RUNNING: Final = frozenset({"running", "pending"})
_FAILED: Final = frozenset({"failed", "blocked"})
_PREVIEWS: Final = ("inputPreview", "outputPreview", "errorPreview")
_FAMILIES: Final = frozenset({"webSearch", "webFetch", "mcp", "skill", "command", "browser", "file", "tool"})


class ToolCallLane:
    def __init__(self, calls: list[Call] | None = None) -> None:
        self.calls: list[Call] = calls or []
        self._by_id = {call["id"]: call for call in self.calls}

    def apply(self, event: UiFields) -> None:
        call_id = event.text("toolCallId")
        if call_id is None or event.is_of("action"):
            return
        call = self._by_id.get(call_id)
        if call is None:
            if not event.is_of("tool") and event.kind not in ("tool", "permission"):
                return
            call = _new(call_id)
            self.calls.append(call)
            self._by_id[call_id] = call
        self._update(call, event)

    def _update(self, call: Call, event: UiFields) -> None:
        if event.name not in DELTA_CLASSES:
            call["eventIds"].append(event.id)
        tool = event.said("toolName", "tool")
        if tool is not None:
            call["toolName"] = call["displayName"] = tool
        if event.is_of("tool") or event.status in _FAILED:
            call["status"], call["title"] = event.status, event.title
        family, server = event.said("family"), event.said("mcpServerId")
        if family in _FAMILIES:
            call["family"] = family
        for key in _PREVIEWS:
            if (preview := event.said(key)) is not None:
                call[key] = preview
        call |= present(mcpServerId=server, detail=event.text("detail"), phase=event.text("phase"))
        for name in ("artifactRefs", "evidenceRefs"):
            if refs := event.refs(name):
                call[name] = list(dict.fromkeys((*call[name], *refs)))
        if event.name == "tool.started" and event.created_at is not None:
            call.setdefault("startedAt", event.created_at)
        if event.name in ("tool.result", "tool.failed"):
            call |= present(completedAt=event.text("completedAt") or event.created_at)

    def to_json(self) -> dict[str, Any]:
        by_family: dict[str, list[str]] = {}
        for call in self.calls:
            by_family.setdefault(call["family"], []).append(call["id"])
        return {
            "calls": self.calls,
            "activeCallIds": [call["id"] for call in self.calls if call["status"] in _RUNNING],
            "failedCallIds": [call["id"] for call in self.calls if call["status"] in _FAILED],
            "completedCallIds": [call["id"] for call in self.calls if call["status"] == "completed"],
            "byFamily": by_family,
        }

    def mcp(self) -> dict[str, Any]:
        servers: dict[str, list[str]] = {}
        for call in self.calls:
            if "mcpServerId" in call:
                servers.setdefault(call["mcpServerId"], []).append(call["id"])
        return {"servers": [{"id": name, "callIds": calls} for name, calls in servers.items()]}


def _new(call_id: str) -> Call:
    return {
        "id": call_id,
        "toolCallId": call_id,
        "family": "tool",
        "status": "pending",
        "title": "Tool call",
        "artifactRefs": [],
        "evidenceRefs": [],
        "eventIds": [],
    }
