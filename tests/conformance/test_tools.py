"""What every kind of tool must do, through the gateway and against a real peer: the suite a new kind has to pass."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from app.core.json import JsonObject
from app.core.signal import CancelSignal
from app.events.catalog import EVENTS, Payload
from app.outside.files import hash_of
from app.policy.redaction import LogRedaction
from app.tools.contract import ToolOutcome, ToolRequest
from app.tools.gateway import Gateway
from app.tools.registry import Registry
from tests.conformance.tool_setups import KINDS, PICTURE, SECRET, Presence, ToolSetup, open_tool_setup
from tests.tools.recording import Recording, code, scope

# The setups live as long as the module: an MCP server takes a second to start.
pytestmark = pytest.mark.asyncio(loop_scope="module")

GRACE = 1.0  # seconds


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=KINDS)
async def setup(request: pytest.FixtureRequest) -> AsyncIterator[ToolSetup]:
    async with open_tool_setup(request.param) as made:
        yield made


async def call(
    setup: ToolSetup, do: str, log: Recording, *, port: int = 0, attempt: int = 1, cancelled: Any = None,
    progress: Any = None, **fields: Any,
) -> ToolOutcome:  # fmt: skip
    tool = await setup.tool(do, **fields)
    ports = log.ports(cancelled=cancelled, **({"progress": progress} if progress else {}))
    asked = ToolRequest("call_1", "act", {"do": do, "port": port}, attempt=attempt)
    gateway = Gateway(Registry([tool]), cancel_grace=GRACE)
    return await gateway.call(asked, scope("act", tenant="acme"), ports)


def only_for(setup: ToolSetup, *kinds: str) -> None:
    if setup.kind not in kinds:
        pytest.skip(f"{setup.kind} has no way to do this")


# -- success ---------------------------------------------------------------------------------------


@pytest.mark.requirement("OS-L1", "HK-3", "HK-35")
async def test_json_comes_back_as_the_value_and_is_recorded_once(setup: ToolSetup) -> None:
    log = Recording()
    outcome = await call(setup, "json", log)
    assert outcome.output == {"answer": 42}
    assert log.types() == ["tool.invoked", "tool.resulted"]
    assert log.payloads("tool.resulted")[0]["output"] == {"answer": 42}


async def test_text_comes_back_as_text(setup: ToolSetup) -> None:
    assert (await call(setup, "text", Recording())).output == "plain"


async def test_bytes_come_back_as_a_blob_with_their_type(setup: ToolSetup) -> None:
    only_for(setup, "python", "http", "mcp", "builtin")
    log = Recording()
    outcome = await call(setup, "bytes", log)
    assert outcome.output == {"$blob": {"sha256": hash_of(PICTURE), "size": len(PICTURE), "mime": "image/png"}}
    assert list(log.blobs.values()) == [PICTURE]


async def test_progress_arrives_while_the_tool_works(setup: ToolSetup) -> None:
    only_for(setup, "python", "mcp", "builtin")
    seen: list[tuple[float | None, str]] = []
    outcome = await call(setup, "progress", Recording(), progress=lambda done, said: seen.append((done, said)))
    assert outcome.ok
    assert seen == [(0.5, "half")]


# -- what the tool is given ------------------------------------------------------------------------


@pytest.mark.requirement("G4")
async def test_a_keyed_tool_gets_the_same_key_on_two_attempts(setup: ToolSetup) -> None:
    log = Recording()
    first = await call(setup, "key", log, effect="keyed")
    again = await call(setup, "key", log, effect="keyed", attempt=2)
    [key] = {payload["idempotencyKey"] for payload in log.payloads("tool.invoked")}
    assert first.output == again.output == {"key": key}


@pytest.mark.requirement("HK-35")
async def test_a_tool_learns_for_which_call_it_works_and_how_long_it_may(setup: ToolSetup) -> None:
    only_for(setup, "python", "mcp", "builtin", "subprocess")
    context = (await call(setup, "context", Recording())).output
    assert isinstance(context, dict)
    left = context.pop("secondsLeft")
    assert isinstance(left, float)
    assert 0 < left <= 20
    # The tenant's name is on no wire; only code and programs of the workspace itself receive it.
    tenant = {} if setup.kind == "mcp" else {"tenant": "acme"}
    assert context == {"runId": "run_1", "callId": "call_1"} | tenant


# -- failure ---------------------------------------------------------------------------------------


@pytest.mark.requirement("OS-F")
async def test_a_failure_is_reported_with_its_code_in_exactly_one_result(setup: ToolSetup) -> None:
    log = Recording()
    outcome = await call(setup, "fail", log)
    assert code(outcome) == "TOOL_FAILED"
    assert log.types() == ["tool.invoked", "tool.resulted"]
    assert log.payloads("tool.resulted")[0]["error"]["code"] == "TOOL_FAILED"


async def test_an_output_that_breaks_its_schema_is_withheld(setup: ToolSetup) -> None:
    log = Recording()
    schema = {"type": "object", "properties": {"answer": {"type": "string"}}}
    outcome = await call(setup, "json", log, output=schema)
    assert code(outcome) == "OUTPUT_INVALID"
    assert outcome.output is None
    assert log.types() == ["tool.invoked", "tool.resulted", "schema.violated"]


async def test_output_over_the_limit_is_an_error_and_is_not_kept(setup: ToolSetup) -> None:
    log = Recording()
    outcome = await call(setup, "large", log, max_output_bytes=40_000)
    assert code(outcome) == "OUTPUT_TOO_LARGE"
    assert log.types() == ["tool.invoked", "tool.resulted"]
    assert not log.blobs


async def test_large_output_within_the_limit_is_kept_and_the_model_gets_an_excerpt(setup: ToolSetup) -> None:
    log = Recording()
    outcome = await call(setup, "large", log, excerpt_bytes=2_000)
    assert outcome.truncated
    assert isinstance(outcome.output, dict)
    assert 1_950 <= len(str(outcome.output["excerpt"])) <= 2_000
    assert list(log.blobs.values()) == [b"x" * 50_000]


class RedactingRecording(Recording):
    """As the recorder of a server that knows the secret: what it replaced is what the run goes on with."""

    async def record(self, payload: Payload) -> JsonObject | None:
        stored: JsonObject = LogRedaction(known=[SECRET]).clean(payload.to_json())
        self.events.append(EVENTS[payload.type].model_validate(stored))
        return stored


@pytest.mark.requirement("G21")
@pytest.mark.parametrize("do", ["leak", "leak_and_fail"])
async def test_a_secret_that_comes_back_is_in_no_event_output_or_error(setup: ToolSetup, do: str) -> None:
    if do == "leak":
        only_for(setup, "http", "mcp", "subprocess")  # the others are given no secrets by us
    # What a function raises in our own process is cleaned by the recorder; the other kinds clean it themselves.
    log = RedactingRecording() if setup.kind in ("python", "builtin") else Recording()
    outcome = await call(setup, do, log)
    assert outcome.executed
    assert outcome.ok is (do == "leak")
    seen = f"{outcome} {[event.to_json() for event in log.events]}".replace("\\", "")
    assert SECRET not in seen
    assert not any(SECRET.encode() in blob for blob in log.blobs.values())


# -- the end ---------------------------------------------------------------------------------------


async def test_a_tool_that_is_too_slow_times_out_and_its_work_ends(setup: ToolSetup) -> None:
    for seconds in (1.0, 5.0, 20.0):  # a busy machine may take longer to begin the work
        log = Recording()
        async with Presence.watching() as presence:
            outcome = await call(setup, "work", log, port=presence.port, timeout_seconds=seconds)
            assert code(outcome) == "TOOL_TIMEOUT"
            if presence.started.is_set():
                await presence.ended.wait()
                break
    assert presence.started.is_set()
    assert log.types() == ["tool.invoked", "tool.resulted"]
    assert (await call(setup, "json", Recording())).ok  # the next call is none the worse for it


@pytest.mark.requirement("G8")
@pytest.mark.parametrize("how", ["command", "task"])
async def test_a_cancelled_tool_ends_within_the_grace(setup: ToolSetup, how: str) -> None:
    log, cancelled = Recording(), CancelSignal()
    loop = asyncio.get_running_loop()
    async with Presence.watching() as presence:
        work = asyncio.create_task(call(setup, "work", log, port=presence.port, cancelled=cancelled))
        await presence.started.wait()
        before = loop.time()
        if how == "task":
            work.cancel()
            await asyncio.wait({work})
            assert work.cancelled()
        else:
            cancelled.set()
            assert code(await work) == "TOOL_CANCELLED"
        assert loop.time() - before < GRACE + 20.0
        await presence.ended.wait()
    if how == "task":  # the executor goes, the run stays: whoever takes it over decides by the tool's effect
        assert log.types() == ["tool.invoked"]
        return
    assert log.types() == ["tool.invoked", "tool.resulted"]
    assert log.payloads("tool.resulted")[0]["applied"] is False
