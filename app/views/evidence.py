"""What a log proves about its runs: who approved what and when, which models and tools were called, what was made.

A fold of events with everything that an evidence pack shows apart from the events themselves. It is deterministic, so
that whoever verifies a pack makes the same records from its events and compares them byte by byte.
"""

from collections import Counter
from collections.abc import Iterator
from html import escape
from typing import Any, Final

from app.core import json
from app.events.blobs import digests_inside, references_of
from app.events.catalog import artifact, interrupt, model, request, tool
from app.events.envelope import Event, iso_at

Record = dict[str, Any]

MAX_SHOWN: Final = 1000
"""Rows of each table of the page; the files have all of them."""
_ENDS: Final = {
    request.RequestCompleted.type: "completed",
    request.RequestFailed.type: "failed",
    request.RequestCancelled.type: "cancelled",
}


class EvidenceFold:
    def __init__(self) -> None:
        self.first: Event | None = None
        self.last: Event | None = None
        self.counts: Counter[str] = Counter()
        self.runs: dict[str, Record] = {}
        self.approvals: dict[str, Record] = {}
        self.calls: dict[str, Record] = {}
        self.artifacts: dict[str, Record] = {}
        self._blobs: dict[str, None] = {}

    def apply(self, event: Event) -> None:
        self.first = self.first or event
        self.last = event
        self.counts[event.type] += 1
        self._blobs.update(dict.fromkeys(reference["sha256"] for reference in references_of(event)))
        note = _NOTES.get(event.type)
        if note is not None:
            note(self, event)

    @property
    def workspaces(self) -> list[str]:
        """The digests of the workspaces that the runs used."""
        return list(dict.fromkeys(run["workspaceDigest"] for run in self.runs.values() if run.get("workspaceDigest")))

    def blobs(self) -> Iterator[str]:
        """Hashes of the content that the events refer to, in their order. Content that `look_inside` was given
        meanwhile adds what it refers to."""
        place = 0
        while place < len(self._blobs):
            waiting = list(self._blobs)[place:]
            place += len(waiting)
            yield from waiting

    def look_inside(self, content: bytes | bytearray) -> None:
        self._blobs.update(dict.fromkeys(digests_inside(content)))

    def records(self) -> dict[str, bytes]:
        """Each file that follows from the events alone."""
        return {
            "runs.json": json.pretty(list(self.runs.values())),
            "approvals.json": json.pretty(list(self.approvals.values())),
            "calls.jsonl": b"".join(json.canonical(call) + b"\n" for call in self.calls.values()),
            "artifacts.json": json.pretty(list(self.artifacts.values())),
        }

    # -- what the events say -------------------------------------------------------------------------

    def _queued(self, event: Event) -> None:
        payload = event.payload
        kept = ("agent", "tool", "workflow", "workspaceDigest", "code", "parentRunId", "rerunOf")
        found = {name: payload[name] for name in kept if payload.get(name) is not None}
        self.runs[event.run_id or ""] = {
            "id": event.run_id,
            "status": "unfinished",
            "submittedBy": event.actor,
            "submittedAt": iso_at(event.at),
            **found,
        }

    def _ended(self, event: Event) -> None:
        run = self.runs.setdefault(event.run_id or "", {"id": event.run_id})
        run |= {"status": _ENDS[event.type], "finishedAt": iso_at(event.at)}
        if (error := event.payload.get("error")) is not None:
            run["error"] = error["code"]

    def _raised(self, event: Event) -> None:
        payload = event.payload
        kept = ("kind", "title", "tool", "callId", "argumentHash", "approver", "expiresAt")
        found = {name: payload[name] for name in kept if payload.get(name) is not None}
        asked = {"id": payload["interruptId"], "runId": event.run_id, "askedAt": iso_at(event.at), "status": "open"}
        self.approvals[payload["interruptId"]] = asked | found

    def _resolved(self, event: Event) -> None:
        payload = event.payload
        found = self.approvals.setdefault(payload["interruptId"], {"id": payload["interruptId"]})
        found |= {"status": "resolved", "answeredBy": payload["answeredBy"], "answeredAt": iso_at(event.at)}
        found["decision"] = payload["answer"].get("decision") or "answered"
        if (reason := payload["answer"].get("reason")) is not None:
            found["reason"] = reason

    def _expired(self, event: Event) -> None:
        found = self.approvals.setdefault(event.payload["interruptId"], {"id": event.payload["interruptId"]})
        found |= {"status": "expired", "expiredAt": iso_at(event.at)}

    def _asked(self, event: Event) -> None:
        payload = event.payload
        kept = ("model", "provider", "providerModel", "attempt", "requestHash", "role")
        found = {name: payload[name] for name in kept if payload.get(name) is not None}
        self._call("model", payload["messageId"], event, found)

    def _answered(self, event: Event) -> None:
        payload = event.payload
        ok = event.type == model.ModelCompleted.type
        ended: Record = {"ok": ok, "finishedAt": iso_at(event.at)}
        ended |= {"usage": payload["usage"]} if payload.get("usage") is not None else {}
        ended |= {} if ok else {"error": payload["error"]["code"]}
        self._end("model", payload["messageId"], event, ended)

    def _invoked(self, event: Event) -> None:
        payload = event.payload
        kept = ("tool", "effect", "attempt", "argumentHash", "approvalId", "idempotencyKey")
        found = {name: payload[name] for name in kept if payload.get(name) is not None}
        self._call("tool", payload["callId"], event, found)

    def _resulted(self, event: Event) -> None:
        payload = event.payload
        ended: Record = {"ok": payload["ok"], "tool": payload["tool"], "finishedAt": iso_at(event.at)}
        ended |= {"error": payload["error"]["code"]} if payload.get("error") is not None else {}
        self._end("tool", payload["callId"], event, ended)

    def _call(self, kind: str, id: str, event: Event, found: Record) -> None:
        known = self.calls.get(f"{kind}:{id}")
        begun = {"kind": kind, "id": id, "runId": event.run_id, "seq": event.seq, "startedAt": iso_at(event.at)}
        self.calls[f"{kind}:{id}"] = (begun if known is None else known) | found

    def _end(self, kind: str, id: str, event: Event, ended: Record) -> None:
        # A call that was refused has no beginning.
        known = self.calls.get(f"{kind}:{id}", {"kind": kind, "id": id, "runId": event.run_id, "seq": event.seq})
        self.calls[f"{kind}:{id}"] = known | ended

    def _made(self, event: Event) -> None:
        made = event.payload["artifact"]
        self.artifacts.setdefault(made["id"], made | {"runId": event.run_id, "createdAt": iso_at(event.at)})
        if isinstance(digest := made.get("sha256"), str):
            self._blobs[digest] = None


_NOTES: Final = {
    request.RequestQueued.type: EvidenceFold._queued,
    **dict.fromkeys(_ENDS, EvidenceFold._ended),
    interrupt.InterruptRaised.type: EvidenceFold._raised,
    interrupt.InterruptResolved.type: EvidenceFold._resolved,
    interrupt.InterruptExpired.type: EvidenceFold._expired,
    model.ModelRequested.type: EvidenceFold._asked,
    model.ModelCompleted.type: EvidenceFold._answered,
    model.ModelFailed.type: EvidenceFold._answered,
    tool.ToolInvoked.type: EvidenceFold._invoked,
    tool.ToolResulted.type: EvidenceFold._resulted,
    artifact.ArtifactCreated.type: EvidenceFold._made,
}


# -- the page -----------------------------------------------------------------------------------------

_STYLE: Final = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:70em;margin:2em auto;padding:0 1em}"
    "table{border-collapse:collapse;width:100%;margin:0 0 2em}td,th{border-bottom:1px solid #ccc;padding:.3em .6em;"
    "text-align:left;vertical-align:top;overflow-wrap:anywhere}code{font-size:.85em}"
)
_TABLES: Final = (
    ("Runs", "runs", ("id", "agent", "status", "submittedBy", "submittedAt", "finishedAt", "error")),
    ("Decisions of people", "approvals", ("title", "kind", "tool", "status", "decision", "answeredBy", "answeredAt")),
    ("Calls", "calls", ("kind", "tool", "model", "ok", "error", "startedAt", "finishedAt", "approvalId")),
    ("Artifacts", "artifacts", ("name", "mime", "size", "sha256", "createdAt")),
)


def summary_page(fold: EvidenceFold, verification: Record) -> bytes:
    """For people: needs no server, no script and no network."""
    head, title = verification["head"], f"Evidence of {verification['scope']}"
    rows = [
        ("Thread", verification["threadId"]),
        ("Events", str(sum(fold.counts.values()))),
        ("Chain", verification["chain"]),
        ("Head", f"{head['seq']}:{head['hash']}"),
    ]
    facts = "".join(f"<tr><th>{escape(name)}</th><td><code>{escape(value)}</code></td></tr>" for name, value in rows)
    tables = "".join(_table(name, list(getattr(fold, of).values()), columns) for name, of, columns in _TABLES)
    counted = [{"type": name, "count": count} for name, count in sorted(fold.counts.items())]
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title><style>{_STYLE}</style>'
        f"<h1>{escape(title)}</h1><table>{facts}</table>{tables}{_table('Events', counted, ('type', 'count'))}</html>\n"
    ).encode()


def _table(name: str, records: list[Record], columns: tuple[str, ...]) -> str:
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    rows = "".join(
        "<tr>" + "".join(f"<td>{escape(str(record.get(column, '')))}</td>" for column in columns) + "</tr>"
        for record in records[:MAX_SHOWN]
    )
    more = f"<p>{len(records) - MAX_SHOWN} more are in the files.</p>" if len(records) > MAX_SHOWN else ""
    return f"<h2>{escape(name)}</h2><table><tr>{head}</tr>{rows}</table>{more}"
