"""The blocking twin of the module for asyncio.

Generated from it by `make generate`.
"""

from collections.abc import Iterator
from typing import Literal, Unpack, cast

from holdfast.client import types
from holdfast.client.request import Content, Sender, new_key, path_of


class AgentsRoutes:
    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def extensions(self) -> types.ExtensionList:
        """The extensions in use."""
        return cast(types.ExtensionList, self._sender.json("GET", "/api/agents/extensions"))

    def extensions_reload(self) -> types.ExtensionsReloadedAnswer:
        """Load the extensions again: all of them, or none."""
        return cast(types.ExtensionsReloadedAnswer, self._sender.json("POST", "/api/agents/extensions/reload"))

    def get(self, name: str) -> types.Agent:
        """One agent."""
        return cast(types.Agent, self._sender.json("GET", path_of("/api/agents/{name}", name=name)))

    def iterate(self, *, after: str | int | None = None, limit: int | None = None) -> Iterator[types.Agent]:
        """The agents: every item, page after page."""
        while True:
            page = self.list(after=after, limit=limit)
            yield from page["items"]
            after = page["nextCursor"]
            if after is None:
                return

    def list(self, *, after: str | int | None = None, limit: int | None = None) -> types.AgentPage:
        """The agents."""
        return cast(types.AgentPage, self._sender.json("GET", "/api/agents", query={"after": after, "limit": limit}))


class ArtifactsRoutes:
    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def get(self, artifact_id: str) -> types.Artifact:
        """What is known about it."""
        return cast(
            types.Artifact,
            self._sender.json("GET", path_of("/api/artifacts/{artifact_id}", artifact_id=artifact_id)),
        )

    def content(self, artifact_id: str) -> bytes:
        """Its content."""
        return self._sender.content("GET", path_of("/api/artifacts/{artifact_id}/content", artifact_id=artifact_id))

    def diff(self, artifact_id: str, *, against: str | None = None) -> bytes:
        """What changed since another version."""
        return self._sender.content(
            "GET", path_of("/api/artifacts/{artifact_id}/diff", artifact_id=artifact_id), query={"against": against}
        )


class DatasetsRoutes:
    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def create(self, **body: Unpack[types.CreateDataset]) -> types.Dataset:
        """Create the next version of a dataset."""
        return cast(types.Dataset, self._sender.json("POST", "/api/datasets", body=body))

    def get(self, name: str, *, version: int | None = None) -> types.Dataset:
        """One version of a dataset."""
        return cast(
            types.Dataset,
            self._sender.json("GET", path_of("/api/datasets/{name}", name=name), query={"version": version}),
        )

    def iterate_cases(
        self, name: str, *, version: int | None = None, after: str | int | None = None, limit: int | None = None
    ) -> Iterator[types.Case]:
        """Its cases, by id: every item, page after page."""
        while True:
            page = self.cases(name, version=version, after=after, limit=limit)
            yield from page["items"]
            after = page["nextCursor"]
            if after is None:
                return

    def cases(
        self, name: str, *, version: int | None = None, after: str | int | None = None, limit: int | None = None
    ) -> types.CasePage:
        """Its cases, by id."""
        return cast(
            types.CasePage,
            self._sender.json(
                "GET",
                path_of("/api/datasets/{name}/cases", name=name),
                query={"version": version, "after": after, "limit": limit},
            ),
        )

    def export(self, name: str, *, version: int | None = None, format: Literal["jsonl", "yaml"] | None = None) -> bytes:
        """A version as a file."""
        return self._sender.content(
            "GET", path_of("/api/datasets/{name}/export", name=name), query={"version": version, "format": format}
        )

    def import_cases(
        self, name: str, content: Content, *, format: Literal["jsonl", "yaml"] | None = None
    ) -> types.Dataset:
        """Create the next version from a file."""
        return cast(
            types.Dataset,
            self._sender.json(
                "POST",
                path_of("/api/datasets/{name}/import", name=name),
                query={"format": format},
                content=content,
                content_type="application/x-ndjson",
            ),
        )

    def sample(self, name: str, **body: Unpack[types.SampleDataset]) -> types.Sample:
        """A sample: the same seed and the same cases give the same one."""
        return cast(
            types.Sample, self._sender.json("POST", path_of("/api/datasets/{name}/sample", name=name), body=body)
        )

    def iterate(self, *, after: str | int | None = None, limit: int | None = None) -> Iterator[types.Dataset]:
        """The newest version of each dataset, by name: every item, page after page."""
        while True:
            page = self.list(after=after, limit=limit)
            yield from page["items"]
            after = page["nextCursor"]
            if after is None:
                return

    def list(self, *, after: str | int | None = None, limit: int | None = None) -> types.DatasetPage:
        """The newest version of each dataset, by name."""
        return cast(
            types.DatasetPage, self._sender.json("GET", "/api/datasets", query={"after": after, "limit": limit})
        )


class DoctorRoutes:
    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def get(self) -> types.DoctorReport:
        """Check everything that this server needs."""
        return cast(types.DoctorReport, self._sender.json("GET", "/api/doctor"))


class EvalsRoutes:
    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def create(self, **body: Unpack[types.StartEvaluation]) -> types.Evaluation:
        """Start an evaluation."""
        return cast(types.Evaluation, self._sender.json("POST", "/api/evals", body=body))

    def get(self, evaluation_id: str) -> types.Evaluation:
        """How far it is, and its scores."""
        return cast(
            types.Evaluation,
            self._sender.json("GET", path_of("/api/evals/{evaluation_id}", evaluation_id=evaluation_id)),
        )

    def cancel(self, evaluation_id: str) -> types.Evaluation:
        """End it before its last case."""
        return cast(
            types.Evaluation,
            self._sender.json("POST", path_of("/api/evals/{evaluation_id}/cancel", evaluation_id=evaluation_id)),
        )

    def report(self, evaluation_id: str) -> bytes:
        """The results as a page with plots that needs nothing else."""
        return self._sender.content("GET", path_of("/api/evals/{evaluation_id}/report", evaluation_id=evaluation_id))

    def results(self, evaluation_id: str) -> types.EvaluationReport:
        """The results of every case."""
        return cast(
            types.EvaluationReport,
            self._sender.json("GET", path_of("/api/evals/{evaluation_id}/results", evaluation_id=evaluation_id)),
        )

    def iterate(self, *, after: str | int | None = None, limit: int | None = None) -> Iterator[types.Evaluation]:
        """The evaluations, newest first: every item, page after page."""
        while True:
            page = self.list(after=after, limit=limit)
            yield from page["items"]
            after = page["nextCursor"]
            if after is None:
                return

    def list(self, *, after: str | int | None = None, limit: int | None = None) -> types.EvaluationPage:
        """The evaluations, newest first."""
        return cast(
            types.EvaluationPage, self._sender.json("GET", "/api/evals", query={"after": after, "limit": limit})
        )


class FilesRoutes:
    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def upload(self, content: Content, *, name: str | None = None) -> types.File:
        """Upload a file."""
        return cast(
            types.File,
            self._sender.json(
                "POST", "/api/files", query={"name": name}, content=content, content_type="application/octet-stream"
            ),
        )

    def delete(self, file_id: str) -> None:
        """Delete the file."""
        self._sender.nothing("DELETE", path_of("/api/files/{file_id}", file_id=file_id))

    def get(self, file_id: str) -> types.File:
        """What is known about it."""
        return cast(types.File, self._sender.json("GET", path_of("/api/files/{file_id}", file_id=file_id)))

    def content(self, file_id: str) -> bytes:
        """Its content."""
        return self._sender.content("GET", path_of("/api/files/{file_id}/content", file_id=file_id))

    def iterate(self, *, after: str | int | None = None, limit: int | None = None) -> Iterator[types.File]:
        """The files, oldest first: every item, page after page."""
        while True:
            page = self.list(after=after, limit=limit)
            yield from page["items"]
            after = page["nextCursor"]
            if after is None:
                return

    def list(self, *, after: str | int | None = None, limit: int | None = None) -> types.FilePage:
        """The files, oldest first."""
        return cast(types.FilePage, self._sender.json("GET", "/api/files", query={"after": after, "limit": limit}))


class GatesRoutes:
    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def report(self, *, agent: str | None = None, since: str | None = None) -> bytes:
        """The same as one HTML page."""
        return self._sender.content("GET", "/api/gates/report", query={"agent": agent, "since": since})

    def list(self, *, agent: str | None = None, since: str | None = None) -> types.GateRatePage:
        """How often each gate was passed, by agent and mode."""
        return cast(types.GateRatePage, self._sender.json("GET", "/api/gates", query={"agent": agent, "since": since}))


class InterruptsRoutes:
    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def get(self, interrupt_id: str) -> types.Interrupt:
        """One of them."""
        return cast(
            types.Interrupt,
            self._sender.json("GET", path_of("/api/interrupts/{interrupt_id}", interrupt_id=interrupt_id)),
        )

    def answer(self, interrupt_id: str, body: types.Answer) -> types.Interrupt:
        """Answer; the first one wins."""
        return cast(
            types.Interrupt,
            self._sender.json(
                "POST", path_of("/api/interrupts/{interrupt_id}/answer", interrupt_id=interrupt_id), body=body
            ),
        )

    def similar(self, interrupt_id: str) -> types.SimilarInterrupt:
        """The last one before it for the same tool."""
        return cast(
            types.SimilarInterrupt,
            self._sender.json("GET", path_of("/api/interrupts/{interrupt_id}/similar", interrupt_id=interrupt_id)),
        )

    def iterate(
        self,
        *,
        status: Literal["open", "resolved", "expired"] | None = None,
        threadId: str | None = None,
        after: str | int | None = None,
        limit: int | None = None,
    ) -> Iterator[types.Interrupt]:
        """What waits for an answer, or did: every item, page after page."""
        while True:
            page = self.list(status=status, threadId=threadId, after=after, limit=limit)
            yield from page["items"]
            after = page["nextCursor"]
            if after is None:
                return

    def list(
        self,
        *,
        status: Literal["open", "resolved", "expired"] | None = None,
        threadId: str | None = None,
        after: str | int | None = None,
        limit: int | None = None,
    ) -> types.InterruptPage:
        """What waits for an answer, or did."""
        return cast(
            types.InterruptPage,
            self._sender.json(
                "GET", "/api/interrupts", query={"status": status, "threadId": threadId, "after": after, "limit": limit}
            ),
        )


class JobsRoutes:
    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def get(self, job_id: str) -> types.Job:
        """The job with the history of its attempts."""
        return cast(types.Job, self._sender.json("GET", path_of("/api/jobs/{job_id}", job_id=job_id)))

    def cancel(self, job_id: str) -> types.Job:
        """Cancel the job."""
        return cast(types.Job, self._sender.json("POST", path_of("/api/jobs/{job_id}/cancel", job_id=job_id)))

    def iterate(
        self,
        *,
        status: Literal["queued", "running", "waiting", "completed", "failed", "cancelled"] | None = None,
        type: str | None = None,
        priority: Literal["interactive", "background"] | None = None,
        projectId: str | None = None,
        sourceSessionId: str | None = None,
        after: str | int | None = None,
        limit: int | None = None,
    ) -> Iterator[types.Job]:
        """The jobs, newest first: every item, page after page."""
        while True:
            page = self.list(
                status=status,
                type=type,
                priority=priority,
                projectId=projectId,
                sourceSessionId=sourceSessionId,
                after=after,
                limit=limit,
            )
            yield from page["items"]
            after = page["nextCursor"]
            if after is None:
                return

    def list(
        self,
        *,
        status: Literal["queued", "running", "waiting", "completed", "failed", "cancelled"] | None = None,
        type: str | None = None,
        priority: Literal["interactive", "background"] | None = None,
        projectId: str | None = None,
        sourceSessionId: str | None = None,
        after: str | int | None = None,
        limit: int | None = None,
    ) -> types.JobPage:
        """The jobs, newest first."""
        return cast(
            types.JobPage,
            self._sender.json(
                "GET",
                "/api/jobs",
                query={
                    "status": status,
                    "type": type,
                    "priority": priority,
                    "projectId": projectId,
                    "sourceSessionId": sourceSessionId,
                    "after": after,
                    "limit": limit,
                },
            ),
        )


class KeysRoutes:
    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def create(self, **body: Unpack[types.CreateKey]) -> types.NewKey:
        """Create a key; its secret is shown here and never again."""
        return cast(types.NewKey, self._sender.json("POST", "/api/keys", body=body))

    def revoke(self, key_id: str, *, tenant: str | None = None) -> types.Key:
        """Revoke a key; what it opened is closed."""
        return cast(
            types.Key,
            self._sender.json("DELETE", path_of("/api/keys/{key_id}", key_id=key_id), query={"tenant": tenant}),
        )

    def iterate(
        self, *, tenant: str | None = None, after: str | int | None = None, limit: int | None = None
    ) -> Iterator[types.Key]:
        """The keys, revoked ones included: every item, page after page."""
        while True:
            page = self.list(tenant=tenant, after=after, limit=limit)
            yield from page["items"]
            after = page["nextCursor"]
            if after is None:
                return

    def list(
        self, *, tenant: str | None = None, after: str | int | None = None, limit: int | None = None
    ) -> types.KeyPage:
        """The keys, revoked ones included."""
        return cast(
            types.KeyPage,
            self._sender.json("GET", "/api/keys", query={"tenant": tenant, "after": after, "limit": limit}),
        )


class LedgerRoutes:
    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def iterate(
        self, *, after: str | int | None = None, limit: int | None = None, type: str | None = None
    ) -> Iterator[types.Event]:
        """What was recorded about the tenant, newest first: every item, page after page."""
        while True:
            page = self.list(after=after, limit=limit, type=type)
            yield from page["items"]
            after = page["nextCursor"]
            if after is None:
                return

    def list(
        self, *, after: str | int | None = None, limit: int | None = None, type: str | None = None
    ) -> types.EventPage:
        """What was recorded about the tenant, newest first."""
        return cast(
            types.EventPage,
            self._sender.json("GET", "/api/ledger", query={"after": after, "limit": limit, "type": type}),
        )


class McpServersRoutes:
    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def delete_login(self, name: str) -> None:
        """Log out of a remote MCP server."""
        self._sender.nothing("DELETE", path_of("/api/mcp-servers/{name}/login", name=name))

    def login(self, name: str, **body: Unpack[types.BeginMcpLogin]) -> types.McpLoginBegun:
        """Begin a login to a remote MCP server."""
        return cast(
            types.McpLoginBegun,
            self._sender.json("POST", path_of("/api/mcp-servers/{name}/login", name=name), body=body),
        )

    def login_complete(self, name: str, **body: Unpack[types.FinishMcpLogin]) -> types.McpLogin:
        """Finish a login to a remote MCP server."""
        return cast(
            types.McpLogin,
            self._sender.json("POST", path_of("/api/mcp-servers/{name}/login/complete", name=name), body=body),
        )


class MeRoutes:
    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def get(self) -> types.Me:
        """Who the caller is, and what it may do."""
        return cast(types.Me, self._sender.json("GET", "/api/me"))


class MemoryRoutes:
    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def get(self) -> types.MemoryOverview:
        """The memories of the workspace, and how many records there are."""
        return cast(types.MemoryOverview, self._sender.json("GET", "/api/memory"))

    def iterate_export(
        self, *, user: str, after: str | int | None = None, limit: int | None = None
    ) -> Iterator[types.MemoryRecord]:
        """Everything about one user, with all texts: every item, page after page."""
        while True:
            page = self.export(user=user, after=after, limit=limit)
            yield from page["items"]
            after = page["nextCursor"]
            if after is None:
                return

    def export(self, *, user: str, after: str | int | None = None, limit: int | None = None) -> types.MemoryPage:
        """Everything about one user, with all texts."""
        return cast(
            types.MemoryPage,
            self._sender.json("GET", "/api/memory/export", query={"user": user, "after": after, "limit": limit}),
        )

    def forget(self, **body: Unpack[types.ForgetMemory]) -> types.Forgotten:
        """Forget records, a user, a namespace, or what a query finds."""
        return cast(types.Forgotten, self._sender.json("POST", "/api/memory/forget", body=body))

    def iterate_records(
        self,
        *,
        namespace: str | None = None,
        status: Literal["proposed", "accepted", "rejected", "superseded", "forgotten"] | None = None,
        kind: Literal["working", "episodic", "semantic"] | None = None,
        user: str | None = None,
        after: str | int | None = None,
        limit: int | None = None,
    ) -> Iterator[types.MemoryRecord]:
        """The records, oldest first: every item, page after page."""
        while True:
            page = self.records(namespace=namespace, status=status, kind=kind, user=user, after=after, limit=limit)
            yield from page["items"]
            after = page["nextCursor"]
            if after is None:
                return

    def records(
        self,
        *,
        namespace: str | None = None,
        status: Literal["proposed", "accepted", "rejected", "superseded", "forgotten"] | None = None,
        kind: Literal["working", "episodic", "semantic"] | None = None,
        user: str | None = None,
        after: str | int | None = None,
        limit: int | None = None,
    ) -> types.MemoryPage:
        """The records, oldest first."""
        return cast(
            types.MemoryPage,
            self._sender.json(
                "GET",
                "/api/memory/records",
                query={
                    "namespace": namespace,
                    "status": status,
                    "kind": kind,
                    "user": user,
                    "after": after,
                    "limit": limit,
                },
            ),
        )

    def create_record(self, **body: Unpack[types.PutMemory]) -> types.PutOutcome:
        """Store a record; the policy of the memory decides."""
        return cast(types.PutOutcome, self._sender.json("POST", "/api/memory/records", body=body))

    def delete_record(self, record_id: str) -> types.Forgotten:
        """Forget a record: its text is deleted, a tombstone stays."""
        return cast(
            types.Forgotten,
            self._sender.json("DELETE", path_of("/api/memory/records/{record_id}", record_id=record_id)),
        )

    def get_record(self, record_id: str) -> types.MemoryRecord:
        """One of them."""
        return cast(
            types.MemoryRecord,
            self._sender.json("GET", path_of("/api/memory/records/{record_id}", record_id=record_id)),
        )

    def update_record(self, record_id: str, **body: Unpack[types.ChangeMemory]) -> types.MemoryRecord:
        """Change the text, confidence or expiry."""
        return cast(
            types.MemoryRecord,
            self._sender.json("PATCH", path_of("/api/memory/records/{record_id}", record_id=record_id), body=body),
        )

    def decide_record(self, record_id: str, **body: Unpack[types.DecideMemory]) -> types.MemoryRecord:
        """Accept or reject a candidate; the first answer wins."""
        return cast(
            types.MemoryRecord,
            self._sender.json(
                "POST", path_of("/api/memory/records/{record_id}/decide", record_id=record_id), body=body
            ),
        )

    def reindex(self) -> types.Reindexed:
        """Rebuild the search index."""
        return cast(types.Reindexed, self._sender.json("POST", "/api/memory/reindex"))

    def search(self, **body: Unpack[types.MemorySearch]) -> types.MemoryHits:
        """Search a memory, best first."""
        return cast(types.MemoryHits, self._sender.json("POST", "/api/memory/search", body=body))


class RetentionRoutes:
    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def get(self) -> types.RetentionReport:
        """How long this server keeps what."""
        return cast(types.RetentionReport, self._sender.json("GET", "/api/retention"))


class RunsRoutes:
    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def create(
        self, *, wait: float | None = None, idempotency_key: str | None = None, **body: Unpack[types.SubmitRun]
    ) -> types.Run:
        """Submit a run."""
        return cast(
            types.Run,
            self._sender.json("POST", "/api/runs", query={"wait": wait}, body=body, key=idempotency_key or new_key()),
        )

    def get(self, run_id: str) -> types.Run:
        """The run as it stands."""
        return cast(types.Run, self._sender.json("GET", path_of("/api/runs/{run_id}", run_id=run_id)))

    def artifacts(self, run_id: str) -> types.ArtifactPage:
        """What the run made, by reference."""
        return cast(
            types.ArtifactPage, self._sender.json("GET", path_of("/api/runs/{run_id}/artifacts", run_id=run_id))
        )

    def audit(self, run_id: str) -> types.Audit:
        """Whether its log is complete."""
        return cast(types.Audit, self._sender.json("GET", path_of("/api/runs/{run_id}/audit", run_id=run_id)))

    def cancel(self, run_id: str) -> types.Run:
        """Cancel the run."""
        return cast(types.Run, self._sender.json("POST", path_of("/api/runs/{run_id}/cancel", run_id=run_id)))

    def command(self, run_id: str, **body: Unpack[types.Command]) -> types.Run:
        """Steer, pause, resume, change the model or the limits, name a checkpoint."""
        return cast(
            types.Run, self._sender.json("POST", path_of("/api/runs/{run_id}/commands", run_id=run_id), body=body)
        )

    def diff(self, run_id: str) -> bytes:
        """What the run changed in files."""
        return self._sender.content("GET", path_of("/api/runs/{run_id}/diff", run_id=run_id))

    def iterate_events(
        self,
        run_id: str,
        *,
        after: str | int | None = None,
        limit: int | None = None,
        type: str | None = None,
        dialect: Literal["native", "stable-harness"] | None = None,
    ) -> Iterator[types.Event]:
        """The run's events, from a cursor on: every item, page after page."""
        while True:
            page = self.events(run_id, after=after, limit=limit, type=type, dialect=dialect)
            yield from page["items"]
            after = page["nextCursor"]
            if after is None:
                return

    def events(
        self,
        run_id: str,
        *,
        after: str | int | None = None,
        limit: int | None = None,
        type: str | None = None,
        dialect: Literal["native", "stable-harness"] | None = None,
    ) -> types.EventPage:
        """The run's events, from a cursor on."""
        return cast(
            types.EventPage,
            self._sender.json(
                "GET",
                path_of("/api/runs/{run_id}/events", run_id=run_id),
                query={"after": after, "limit": limit, "type": type, "dialect": dialect},
            ),
        )

    def evidence(self, run_id: str) -> bytes:
        """The evidence of a run."""
        return self._sender.content("GET", path_of("/api/runs/{run_id}/evidence", run_id=run_id))

    def feedback(self, run_id: str) -> types.FeedbackPage:
        """What was said about a run, oldest first."""
        return cast(types.FeedbackPage, self._sender.json("GET", path_of("/api/runs/{run_id}/feedback", run_id=run_id)))

    def give_feedback(
        self, run_id: str, *, idempotency_key: str | None = None, **body: Unpack[types.GiveFeedback]
    ) -> types.Feedback:
        """Say what a run that has ended was worth."""
        return cast(
            types.Feedback,
            self._sender.json(
                "POST",
                path_of("/api/runs/{run_id}/feedback", run_id=run_id),
                body=body,
                key=idempotency_key or new_key(),
            ),
        )

    def judge(self, run_id: str, **body: Unpack[types.JudgeRun]) -> types.GateReport:
        """The verdicts of the agent's gates about a completed run."""
        return cast(
            types.GateReport,
            self._sender.json("POST", path_of("/api/runs/{run_id}/gates", run_id=run_id), body=body),
        )

    def graph(
        self, run_id: str, *, format: Literal["json", "mermaid", "svg"] | None = None, until: int | None = None
    ) -> types.WorkflowGraph:
        """The graph of a workflow's run, with the state of each step."""
        return cast(
            types.WorkflowGraph,
            self._sender.json(
                "GET", path_of("/api/runs/{run_id}/graph", run_id=run_id), query={"format": format, "until": until}
            ),
        )

    def iterate_journal(
        self, run_id: str, *, after: str | int | None = None, limit: int | None = None
    ) -> Iterator[types.JournalItem]:
        """What changed state, hash-linked: every item, page after page."""
        while True:
            page = self.journal(run_id, after=after, limit=limit)
            yield from page["items"]
            after = page["nextCursor"]
            if after is None:
                return

    def journal(self, run_id: str, *, after: str | int | None = None, limit: int | None = None) -> types.JournalPage:
        """What changed state, hash-linked."""
        return cast(
            types.JournalPage,
            self._sender.json(
                "GET", path_of("/api/runs/{run_id}/journal", run_id=run_id), query={"after": after, "limit": limit}
            ),
        )

    def replay_token(self, run_id: str) -> types.Token:
        """What must be the same for a rerun to repeat the run."""
        return cast(types.Token, self._sender.json("GET", path_of("/api/runs/{run_id}/replay-token", run_id=run_id)))

    def rerun(self, run_id: str, **body: Unpack[types.Rerun]) -> types.Run:
        """Run the recorded input again."""
        return cast(types.Run, self._sender.json("POST", path_of("/api/runs/{run_id}/rerun", run_id=run_id), body=body))

    def snapshot(self, run_id: str, *, until: int | None = None) -> types.Snapshot:
        """Where the run stands, computed."""
        return cast(
            types.Snapshot,
            self._sender.json("GET", path_of("/api/runs/{run_id}/snapshot", run_id=run_id), query={"until": until}),
        )

    def todos(self, run_id: str) -> types.TodoPage:
        """The list of things to do as the run left it."""
        return cast(types.TodoPage, self._sender.json("GET", path_of("/api/runs/{run_id}/todos", run_id=run_id)))

    def trace(self, run_id: str) -> types.TracePage:
        """What happened when, in nine categories."""
        return cast(types.TracePage, self._sender.json("GET", path_of("/api/runs/{run_id}/trace", run_id=run_id)))

    def iterate_ui_events(
        self, run_id: str, *, after: str | int | None = None, limit: int | None = None
    ) -> Iterator[types.UiEvent]:
        """The run as UI events: every item, page after page."""
        while True:
            page = self.ui_events(run_id, after=after, limit=limit)
            yield from page["items"]
            after = page["nextCursor"]
            if after is None:
                return

    def ui_events(self, run_id: str, *, after: str | int | None = None, limit: int | None = None) -> types.UiEventPage:
        """The run as UI events."""
        return cast(
            types.UiEventPage,
            self._sender.json(
                "GET", path_of("/api/runs/{run_id}/ui/events", run_id=run_id), query={"after": after, "limit": limit}
            ),
        )

    def ui_state(self, run_id: str) -> types.UiState:
        """What a page shows of it."""
        return cast(types.UiState, self._sender.json("GET", path_of("/api/runs/{run_id}/ui/state", run_id=run_id)))

    def ui_state_lane(self, run_id: str, lane: str) -> types.UiLane:
        """One part of that."""
        return cast(
            types.UiLane,
            self._sender.json("GET", path_of("/api/runs/{run_id}/ui/state/{lane}", run_id=run_id, lane=lane)),
        )

    def undo(
        self,
        run_id: str,
        *,
        wait: float | None = None,
        idempotency_key: str | None = None,
        **body: Unpack[types.UndoCommand],
    ) -> types.Run:
        """Undo the run as planned."""
        return cast(
            types.Run,
            self._sender.json(
                "POST",
                path_of("/api/runs/{run_id}/undo", run_id=run_id),
                query={"wait": wait},
                body=body,
                key=idempotency_key or new_key(),
            ),
        )

    def undo_plan(self, run_id: str, **body: Unpack[types.UndoPlanRequest]) -> types.UndoPlan:
        """What an undo of the run would do; has no effect."""
        return cast(
            types.UndoPlan,
            self._sender.json("POST", path_of("/api/runs/{run_id}/undo/plan", run_id=run_id), body=body),
        )

    def usage(self, run_id: str) -> types.Usage:
        """Tokens, cost and calls."""
        return cast(types.Usage, self._sender.json("GET", path_of("/api/runs/{run_id}/usage", run_id=run_id)))

    def iterate(
        self,
        *,
        status: Literal["queued", "running", "waiting", "completed", "failed", "cancelled"] | None = None,
        agent: str | None = None,
        workflow: str | None = None,
        text: str | None = None,
        threadId: str | None = None,
        label: list[str] | None = None,
        createdFrom: str | None = None,
        createdUntil: str | None = None,
        after: str | int | None = None,
        limit: int | None = None,
    ) -> Iterator[types.Run]:
        """The runs, newest first: every item, page after page."""
        while True:
            page = self.list(
                status=status,
                agent=agent,
                workflow=workflow,
                text=text,
                threadId=threadId,
                label=label,
                createdFrom=createdFrom,
                createdUntil=createdUntil,
                after=after,
                limit=limit,
            )
            yield from page["items"]
            after = page["nextCursor"]
            if after is None:
                return

    def list(
        self,
        *,
        status: Literal["queued", "running", "waiting", "completed", "failed", "cancelled"] | None = None,
        agent: str | None = None,
        workflow: str | None = None,
        text: str | None = None,
        threadId: str | None = None,
        label: list[str] | None = None,
        createdFrom: str | None = None,
        createdUntil: str | None = None,
        after: str | int | None = None,
        limit: int | None = None,
    ) -> types.RunPage:
        """The runs, newest first."""
        return cast(
            types.RunPage,
            self._sender.json(
                "GET",
                "/api/runs",
                query={
                    "status": status,
                    "agent": agent,
                    "workflow": workflow,
                    "text": text,
                    "threadId": threadId,
                    "label": label,
                    "createdFrom": createdFrom,
                    "createdUntil": createdUntil,
                    "after": after,
                    "limit": limit,
                },
            ),
        )


class SchedulesRoutes:
    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def create(self, **body: Unpack[types.CreateSchedule]) -> types.Schedule:
        """Create a schedule."""
        return cast(types.Schedule, self._sender.json("POST", "/api/schedules", body=body))

    def delete(self, schedule: str) -> None:
        """Delete a schedule that a client created."""
        self._sender.nothing("DELETE", path_of("/api/schedules/{schedule}", schedule=schedule))

    def get(self, schedule: str, *, count: int | None = None) -> types.Schedule:
        """One schedule, and when it is due next."""
        return cast(
            types.Schedule,
            self._sender.json("GET", path_of("/api/schedules/{schedule}", schedule=schedule), query={"count": count}),
        )

    def pause(self, schedule: str) -> types.Schedule:
        """Pause a schedule."""
        return cast(
            types.Schedule,
            self._sender.json("POST", path_of("/api/schedules/{schedule}/pause", schedule=schedule)),
        )

    def resume(self, schedule: str) -> types.Schedule:
        """Resume a schedule."""
        return cast(
            types.Schedule,
            self._sender.json("POST", path_of("/api/schedules/{schedule}/resume", schedule=schedule)),
        )

    def run(self, schedule: str) -> types.Run:
        """Run what the schedule runs, now."""
        return cast(types.Run, self._sender.json("POST", path_of("/api/schedules/{schedule}/run", schedule=schedule)))

    def list(self) -> types.SchedulePage:
        """The schedules of the tenant."""
        return cast(types.SchedulePage, self._sender.json("GET", "/api/schedules"))


class ServerRoutes:
    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def health(self) -> types.Health:
        """The process is alive."""
        return cast(types.Health, self._sender.json("GET", "/healthz"))

    def metrics(self) -> bytes:
        """Metrics in Prometheus' text format."""
        return self._sender.content("GET", "/metrics")

    def ready(self) -> types.Readiness:
        """The server takes work."""
        return cast(types.Readiness, self._sender.json("GET", "/readyz"))


class SignInRoutes:
    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def create(self, *, tenant: str | None = None) -> types.Me:
        """Open a browser session for the key that the request shows."""
        return cast(types.Me, self._sender.json("POST", "/api/sign-in", query={"tenant": tenant}))


class SignOutRoutes:
    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def create(self) -> None:
        """End the browser session."""
        self._sender.nothing("POST", "/api/sign-out")


class SkillsRoutes:
    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def candidates(self) -> types.SkillCandidates:
        """Skills that repeated runs suggest, best first."""
        return cast(types.SkillCandidates, self._sender.json("GET", "/api/skills/candidates"))

    def candidate(self, candidate_id: str) -> types.SkillCandidateFile:
        """One of them, with its SKILL.md."""
        return cast(
            types.SkillCandidateFile,
            self._sender.json("GET", path_of("/api/skills/candidates/{candidate_id}", candidate_id=candidate_id)),
        )

    def accept_candidate(self, candidate_id: str) -> types.SkillCandidateFile:
        """Record that it is accepted; the caller writes the file."""
        return cast(
            types.SkillCandidateFile,
            self._sender.json(
                "POST", path_of("/api/skills/candidates/{candidate_id}/accept", candidate_id=candidate_id)
            ),
        )


class StatsRoutes:
    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def series(self, *, range: Literal["15m", "1h", "6h", "24h", "7d"] | None = None) -> types.StatsSeries:
        """Runs, errors, tokens and cost over time."""
        return cast(types.StatsSeries, self._sender.json("GET", "/api/stats/series", query={"range": range}))


class TenantsRoutes:
    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def iterate(self, *, after: str | int | None = None, limit: int | None = None) -> Iterator[str]:
        """The tenants that have keys: every item, page after page."""
        while True:
            page = self.list(after=after, limit=limit)
            yield from page["items"]
            after = page["nextCursor"]
            if after is None:
                return

    def list(self, *, after: str | int | None = None, limit: int | None = None) -> types.TenantPage:
        """The tenants that have keys."""
        return cast(types.TenantPage, self._sender.json("GET", "/api/tenants", query={"after": after, "limit": limit}))


class ThreadsRoutes:
    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def create(self, **body: Unpack[types.CreateThread]) -> types.Thread:
        """Create a thread."""
        return cast(types.Thread, self._sender.json("POST", "/api/threads", body=body))

    def delete(self, thread_id: str) -> None:
        """Delete the thread."""
        self._sender.nothing("DELETE", path_of("/api/threads/{thread_id}", thread_id=thread_id))

    def get(self, thread_id: str) -> types.Thread:
        """The thread as it stands."""
        return cast(types.Thread, self._sender.json("GET", path_of("/api/threads/{thread_id}", thread_id=thread_id)))

    def update(self, thread_id: str, **body: Unpack[types.ChangeThread]) -> types.Thread:
        """Change title, metadata, labels or the mark of an archived one."""
        return cast(
            types.Thread,
            self._sender.json("PATCH", path_of("/api/threads/{thread_id}", thread_id=thread_id), body=body),
        )

    def artifacts(self, thread_id: str, *, name: str | None = None) -> types.ArtifactPage:
        """What the thread's runs made, by reference."""
        return cast(
            types.ArtifactPage,
            self._sender.json(
                "GET", path_of("/api/threads/{thread_id}/artifacts", thread_id=thread_id), query={"name": name}
            ),
        )

    def blob(self, thread_id: str, sha256: str) -> bytes:
        """A large value that an event refers to."""
        return self._sender.content(
            "GET", path_of("/api/threads/{thread_id}/blobs/{sha256}", thread_id=thread_id, sha256=sha256)
        )

    def iterate_events(
        self,
        thread_id: str,
        *,
        after: str | int | None = None,
        limit: int | None = None,
        type: str | None = None,
        dialect: Literal["native", "stable-harness"] | None = None,
    ) -> Iterator[types.Event]:
        """The thread's events, from a cursor on: every item, page after page."""
        while True:
            page = self.events(thread_id, after=after, limit=limit, type=type, dialect=dialect)
            yield from page["items"]
            after = page["nextCursor"]
            if after is None:
                return

    def events(
        self,
        thread_id: str,
        *,
        after: str | int | None = None,
        limit: int | None = None,
        type: str | None = None,
        dialect: Literal["native", "stable-harness"] | None = None,
    ) -> types.EventPage:
        """The thread's events, from a cursor on."""
        return cast(
            types.EventPage,
            self._sender.json(
                "GET",
                path_of("/api/threads/{thread_id}/events", thread_id=thread_id),
                query={"after": after, "limit": limit, "type": type, "dialect": dialect},
            ),
        )

    def amend_event(self, thread_id: str, seq: str, **body: Unpack[types.AmendEvent]) -> types.Event:
        """Correct a text of an event by another event."""
        return cast(
            types.Event,
            self._sender.json(
                "POST", path_of("/api/threads/{thread_id}/events/{seq}/amend", thread_id=thread_id, seq=seq), body=body
            ),
        )

    def evidence(self, thread_id: str) -> bytes:
        """The evidence of a thread."""
        return self._sender.content("GET", path_of("/api/threads/{thread_id}/evidence", thread_id=thread_id))

    def export(self, thread_id: str, *, format: Literal["native", "agent-os"] | None = None) -> bytes:
        """The whole log of the thread as JSON lines."""
        return self._sender.content(
            "GET", path_of("/api/threads/{thread_id}/export", thread_id=thread_id), query={"format": format}
        )

    def fork(self, thread_id: str, **body: Unpack[types.ForkThread]) -> types.Thread:
        """A new thread with this one's history."""
        return cast(
            types.Thread,
            self._sender.json("POST", path_of("/api/threads/{thread_id}/fork", thread_id=thread_id), body=body),
        )

    def messages(self, thread_id: str, *, limit: int | None = None, before: int | None = None) -> types.MessagePage:
        """The history that the next run gets."""
        return cast(
            types.MessagePage,
            self._sender.json(
                "GET",
                path_of("/api/threads/{thread_id}/messages", thread_id=thread_id),
                query={"limit": limit, "before": before},
            ),
        )

    def send(
        self,
        thread_id: str,
        *,
        wait: float | None = None,
        idempotency_key: str | None = None,
        **body: Unpack[types.PostMessage],
    ) -> types.Run:
        """Say something: a run on this thread."""
        return cast(
            types.Run,
            self._sender.json(
                "POST",
                path_of("/api/threads/{thread_id}/messages", thread_id=thread_id),
                query={"wait": wait},
                body=body,
                key=idempotency_key or new_key(),
            ),
        )

    def todos(self, thread_id: str) -> types.TodoPage:
        """The thread's list of things to do."""
        return cast(
            types.TodoPage,
            self._sender.json("GET", path_of("/api/threads/{thread_id}/todos", thread_id=thread_id)),
        )

    def update_todos(self, thread_id: str, **body: Unpack[types.ChangeTodos]) -> types.TodoPage:
        """Add things to do, or change them."""
        return cast(
            types.TodoPage,
            self._sender.json("POST", path_of("/api/threads/{thread_id}/todos", thread_id=thread_id), body=body),
        )

    def iterate_transcript(
        self, thread_id: str, *, after: str | int | None = None, limit: int | None = None
    ) -> Iterator[types.Entry]:
        """What was said and done, message by message: every item, page after page."""
        while True:
            page = self.transcript(thread_id, after=after, limit=limit)
            yield from page["items"]
            after = page["nextCursor"]
            if after is None:
                return

    def transcript(
        self, thread_id: str, *, after: str | int | None = None, limit: int | None = None
    ) -> types.EntryPage:
        """What was said and done, message by message."""
        return cast(
            types.EntryPage,
            self._sender.json(
                "GET",
                path_of("/api/threads/{thread_id}/transcript", thread_id=thread_id),
                query={"after": after, "limit": limit},
            ),
        )

    def iterate_ui_events(
        self, thread_id: str, *, after: str | int | None = None, limit: int | None = None
    ) -> Iterator[types.UiEvent]:
        """The thread as UI events: every item, page after page."""
        while True:
            page = self.ui_events(thread_id, after=after, limit=limit)
            yield from page["items"]
            after = page["nextCursor"]
            if after is None:
                return

    def ui_events(
        self, thread_id: str, *, after: str | int | None = None, limit: int | None = None
    ) -> types.UiEventPage:
        """The thread as UI events."""
        return cast(
            types.UiEventPage,
            self._sender.json(
                "GET",
                path_of("/api/threads/{thread_id}/ui/events", thread_id=thread_id),
                query={"after": after, "limit": limit},
            ),
        )

    def ui_state(self, thread_id: str) -> types.UiState:
        """What a page shows of it."""
        return cast(
            types.UiState,
            self._sender.json("GET", path_of("/api/threads/{thread_id}/ui/state", thread_id=thread_id)),
        )

    def ui_state_lane(self, thread_id: str, lane: str) -> types.UiLane:
        """One part of that."""
        return cast(
            types.UiLane,
            self._sender.json(
                "GET", path_of("/api/threads/{thread_id}/ui/state/{lane}", thread_id=thread_id, lane=lane)
            ),
        )

    def verify(self, thread_id: str) -> types.ChainVerification:
        """Whether the thread's chain of hashes is intact."""
        return cast(
            types.ChainVerification,
            self._sender.json("GET", path_of("/api/threads/{thread_id}/verify", thread_id=thread_id)),
        )

    def iterate(self, *, after: str | int | None = None, limit: int | None = None) -> Iterator[types.Thread]:
        """The threads, by id: every item, page after page."""
        while True:
            page = self.list(after=after, limit=limit)
            yield from page["items"]
            after = page["nextCursor"]
            if after is None:
                return

    def list(self, *, after: str | int | None = None, limit: int | None = None) -> types.ThreadPage:
        """The threads, by id."""
        return cast(types.ThreadPage, self._sender.json("GET", "/api/threads", query={"after": after, "limit": limit}))


class ToolsRoutes:
    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def get(self, name: str) -> types.Tool:
        """One tool."""
        return cast(types.Tool, self._sender.json("GET", path_of("/api/tools/{name}", name=name)))

    def invoke(
        self,
        name: str,
        *,
        wait: float | None = None,
        idempotency_key: str | None = None,
        **body: Unpack[types.InvokeTool],
    ) -> types.Run:
        """Run a tool, by no agent, through the same gate."""
        return cast(
            types.Run,
            self._sender.json(
                "POST",
                path_of("/api/tools/{name}/invoke", name=name),
                query={"wait": wait},
                body=body,
                key=idempotency_key or new_key(),
            ),
        )

    def iterate(self, *, after: str | int | None = None, limit: int | None = None) -> Iterator[types.Tool]:
        """The tools of the workspace: every item, page after page."""
        while True:
            page = self.list(after=after, limit=limit)
            yield from page["items"]
            after = page["nextCursor"]
            if after is None:
                return

    def list(self, *, after: str | int | None = None, limit: int | None = None) -> types.ToolPage:
        """The tools of the workspace."""
        return cast(types.ToolPage, self._sender.json("GET", "/api/tools", query={"after": after, "limit": limit}))


class UiRoutes:
    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def capabilities(self) -> types.UiCapabilities:
        """What this runtime can do."""
        return cast(types.UiCapabilities, self._sender.json("GET", "/api/ui/capabilities"))

    def project(self, **body: Unpack[types.ForeignEvents]) -> types.UiState:
        """Project UI events of any runtime."""
        return cast(types.UiState, self._sender.json("POST", "/api/ui/project", body=body))

    def validate(self, **body: Unpack[types.ForeignEvents]) -> types.UiValidation:
        """Check UI events of any runtime."""
        return cast(types.UiValidation, self._sender.json("POST", "/api/ui/validate", body=body))


class WebhooksRoutes:
    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def create(self, **body: Unpack[types.CreateWebhook]) -> types.NewWebhook:
        """Create a webhook."""
        return cast(types.NewWebhook, self._sender.json("POST", "/api/webhooks", body=body))

    def delete(self, webhook_id: str) -> None:
        """Delete a webhook and its deliveries."""
        self._sender.nothing("DELETE", path_of("/api/webhooks/{webhook_id}", webhook_id=webhook_id))

    def get(self, webhook_id: str) -> types.Webhook:
        """One webhook."""
        return cast(
            types.Webhook, self._sender.json("GET", path_of("/api/webhooks/{webhook_id}", webhook_id=webhook_id))
        )

    def update(self, webhook_id: str, **body: Unpack[types.ChangeWebhook]) -> types.Webhook:
        """Change a webhook, enable or disable it."""
        return cast(
            types.Webhook,
            self._sender.json("PATCH", path_of("/api/webhooks/{webhook_id}", webhook_id=webhook_id), body=body),
        )

    def iterate_deliveries(
        self,
        webhook_id: str,
        *,
        status: Literal["pending", "delivered", "dead"] | None = None,
        after: str | int | None = None,
        limit: int | None = None,
    ) -> Iterator[types.Delivery]:
        """What was sent to the webhook, or is to be, newest first: every item, page after page."""
        while True:
            page = self.deliveries(webhook_id, status=status, after=after, limit=limit)
            yield from page["items"]
            after = page["nextCursor"]
            if after is None:
                return

    def deliveries(
        self,
        webhook_id: str,
        *,
        status: Literal["pending", "delivered", "dead"] | None = None,
        after: str | int | None = None,
        limit: int | None = None,
    ) -> types.DeliveryPage:
        """What was sent to the webhook, or is to be, newest first."""
        return cast(
            types.DeliveryPage,
            self._sender.json(
                "GET",
                path_of("/api/webhooks/{webhook_id}/deliveries", webhook_id=webhook_id),
                query={"status": status, "after": after, "limit": limit},
            ),
        )

    def redeliver(self, webhook_id: str, **body: Unpack[types.Redeliver]) -> types.Redelivered:
        """Send a delivery that has ended again, or every dead one."""
        return cast(
            types.Redelivered,
            self._sender.json(
                "POST", path_of("/api/webhooks/{webhook_id}/redeliver", webhook_id=webhook_id), body=body
            ),
        )

    def rotate_secret(self, webhook_id: str) -> types.NewWebhook:
        """Give a webhook a new secret."""
        return cast(
            types.NewWebhook,
            self._sender.json("POST", path_of("/api/webhooks/{webhook_id}/rotate-secret", webhook_id=webhook_id)),
        )

    def list(self) -> types.WebhookPage:
        """The webhooks of the tenant."""
        return cast(types.WebhookPage, self._sender.json("GET", "/api/webhooks"))


class WorkflowsRoutes:
    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def get(self, name: str) -> types.Workflow:
        """One workflow."""
        return cast(types.Workflow, self._sender.json("GET", path_of("/api/workflows/{name}", name=name)))

    def graph(self, name: str, *, format: Literal["json", "mermaid", "svg"] | None = None) -> types.WorkflowGraph:
        """Its graph."""
        return cast(
            types.WorkflowGraph,
            self._sender.json("GET", path_of("/api/workflows/{name}/graph", name=name), query={"format": format}),
        )

    def plan(self, name: str, **body: Unpack[types.PlanRequest]) -> types.WorkflowPlan:
        """What it would do, without running it."""
        return cast(
            types.WorkflowPlan,
            self._sender.json("POST", path_of("/api/workflows/{name}/plan", name=name), body=body),
        )

    def iterate(self, *, after: str | int | None = None, limit: int | None = None) -> Iterator[types.Workflow]:
        """The workflows: every item, page after page."""
        while True:
            page = self.list(after=after, limit=limit)
            yield from page["items"]
            after = page["nextCursor"]
            if after is None:
                return

    def list(self, *, after: str | int | None = None, limit: int | None = None) -> types.WorkflowPage:
        """The workflows."""
        return cast(
            types.WorkflowPage, self._sender.json("GET", "/api/workflows", query={"after": after, "limit": limit})
        )


class WorkspaceRoutes:
    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def get(self) -> types.Workspace:
        """The workspace in use, and the mistakes of its files."""
        return cast(types.Workspace, self._sender.json("GET", "/api/workspace"))

    def compare(self, *, base: str, head: str) -> types.WorkspaceComparison:
        """What changed between two workspaces."""
        return cast(
            types.WorkspaceComparison,
            self._sender.json("GET", "/api/workspace/compare", query={"base": base, "head": head}),
        )

    def reload(self) -> types.Workspace:
        """Read the workspace's files now."""
        return cast(types.Workspace, self._sender.json("POST", "/api/workspace/reload"))


class Resources:
    """The resources that have nothing but their routes."""

    def __init__(self, sender: Sender) -> None:
        self.agents = AgentsRoutes(sender)
        self.artifacts = ArtifactsRoutes(sender)
        self.datasets = DatasetsRoutes(sender)
        self.doctor = DoctorRoutes(sender)
        self.evals = EvalsRoutes(sender)
        self.gates = GatesRoutes(sender)
        self.jobs = JobsRoutes(sender)
        self.keys = KeysRoutes(sender)
        self.ledger = LedgerRoutes(sender)
        self.mcp_servers = McpServersRoutes(sender)
        self.me = MeRoutes(sender)
        self.memory = MemoryRoutes(sender)
        self.retention = RetentionRoutes(sender)
        self.schedules = SchedulesRoutes(sender)
        self.server = ServerRoutes(sender)
        self.sign_in = SignInRoutes(sender)
        self.sign_out = SignOutRoutes(sender)
        self.skills = SkillsRoutes(sender)
        self.stats = StatsRoutes(sender)
        self.tenants = TenantsRoutes(sender)
        self.tools = ToolsRoutes(sender)
        self.ui = UiRoutes(sender)
        self.webhooks = WebhooksRoutes(sender)
        self.workflows = WorkflowsRoutes(sender)
        self.workspace = WorkspaceRoutes(sender)
