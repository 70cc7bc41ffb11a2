"""A graph of the user's own, through the unmodified `langgraph-sdk`: its nodes, its state, and where it stops."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import UnprocessableEntityError

from tests.adapters.space import write
from tests.langgraph.space import empty_database
from tests.server import ServerProcess

pytestmark = pytest.mark.requirement("SH-22", "PX-5")

GRAPH = """
import operator
from typing import Annotated, Any
from langgraph.config import get_stream_writer
from langgraph.graph import START, END, MessagesState, StateGraph

class Inner(MessagesState):
    seen: str

class Outer(Inner):
    notes: Annotated[list[str], operator.add]

def look(state):
    get_stream_writer()({"name": "looking", "at": state["messages"][-1].content})
    return {"seen": "looked"}

def graph(model, tools):
    inner = StateGraph(Inner)
    inner.add_node("look", look)
    inner.add_edge(START, "look")
    inner.add_edge("look", END)
    outer = StateGraph(Outer)

    async def think(state):
        return {"messages": [await model.ainvoke(state["messages"])], "notes": ["thought"]}

    outer.add_node("research", inner.compile())
    outer.add_node("think", think)
    outer.add_edge(START, "research")
    outer.add_edge("research", "think")
    outer.add_edge("think", END)
    return outer.compile()
"""


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    settings = empty_database(request.param, request, tmp_path_factory)
    more = "  config: {langgraph: {graph: 'own:graph'}}\n"
    agents = {"own": ("langgraph", more), "plain": ("native", "")}
    workspace = write(settings.data_dir.parent, agents, files={"own.py": GRAPH})
    server = ServerProcess.start(settings.data_dir, settings.database_url, workspace)
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture
async def client(server: ServerProcess) -> AsyncIterator[LangGraphClient]:
    async with get_client(url=f"{server.url}/langgraph", api_key="any") as client:
        yield client


def _said(values: Any) -> list[str]:
    return [message["content"] for message in values["messages"]]


def _ask(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


async def test_every_mode_tells_of_its_nodes_and_its_subgraph(client: LangGraphClient) -> None:
    thread = (await client.threads.create())["thread_id"]
    modes: Any = ["values", "updates", "messages-tuple", "custom", "events", "debug", "tasks", "checkpoints"]
    parts = [
        part
        async for part in client.runs.stream(
            thread, "own", input=_ask("tides"), stream_mode=modes, stream_subgraphs=True
        )
    ]
    names = {part.event.partition("|")[0] for part in parts}
    assert names == {"metadata", "values", "updates", "messages", "custom", "events", "debug", "tasks", "checkpoints"}
    inner = {part.event for part in parts if "|" in part.event}
    assert {name.partition("|")[0] for name in inner} == {"updates", "custom"}
    assert all(name.partition("|")[2].startswith("research:") for name in inner)
    (custom,) = [part.data for part in parts if part.event.startswith("custom")]
    assert custom == {"name": "looking", "at": "tides"}
    assert [name for part in parts if part.event == "updates" for name in part.data] == ["research", "think"]
    text = "".join(part.data[0]["content"] for part in parts if part.event == "messages")
    assert text == "about tides"
    last = [part.data for part in parts if part.event == "values"][-1]
    assert _said(last) == ["tides", "about tides"] and last["notes"] == ["thought"] and last["seen"] == "looked"


async def test_its_state_is_set_by_the_rules_of_its_channels(client: LangGraphClient) -> None:
    thread = (await client.threads.create(graph_id="own"))["thread_id"]
    await client.threads.update_state(thread, {"notes": ["before"], "messages": [{"role": "user", "content": "first"}]})
    assert (await client.threads.get_state(thread))["values"]["notes"] == ["before"]
    values: Any = await client.runs.wait(thread, "own", input=_ask("tides"))
    assert _said(values) == ["first", "tides", "about tides"]
    assert values["notes"] == ["before", "thought"]
    made = await client.threads.update_state(thread, {"notes": ["after"]}, as_node="think")
    state = await client.threads.get_state(thread)
    assert state["checkpoint"]["checkpoint_id"] == made["checkpoint"]["checkpoint_id"]
    values = await client.runs.wait(thread, "own", input=_ask("moon"))
    assert values["notes"] == ["before", "thought", "after", "thought"]
    assert _said(values) == ["first", "tides", "about tides", "moon", "about moon"]
    history = await client.threads.get_history(thread, limit=100)
    ended = next(
        one for one in history if len(_said(one["values"])) == 3 and "thought" in one["values"].get("notes", [])
    )
    values = await client.runs.wait(thread, "own", input=_ask("sun"), checkpoint=ended["checkpoint"])
    assert _said(values) == ["first", "tides", "about tides", "sun", "about sun"]
    assert values["notes"] == ["before", "thought", "thought"]


async def test_an_update_as_a_node_that_the_graph_lacks_is_refused_at_once(client: LangGraphClient) -> None:
    fresh = (await client.threads.create(graph_id="own"))["thread_id"]
    used = (await client.threads.create())["thread_id"]
    await client.runs.wait(used, "own", input=_ask("tides"))
    for thread in (fresh, used):
        before = await client.threads.get_state(thread)
        for name in ("nowhere", "look"):  # one of the subgraph is none of the graph's own
            with pytest.raises(UnprocessableEntityError) as refused:
                await client.threads.update_state(thread, {"notes": ["x"]}, as_node=name)
            assert "__start__, research, think" in str(refused.value.body)
        assert await client.threads.get_state(thread) == before
        await client.threads.update_state(thread, {"notes": ["x"]}, as_node="research")
    plain = (await client.threads.create(graph_id="plain"))["thread_id"]
    await client.threads.update_state(plain, {"messages": [{"role": "user", "content": "x"}]}, as_node="anything")


async def test_it_stops_at_a_node_and_goes_on_with_what_was_set_meanwhile(client: LangGraphClient) -> None:
    thread = (await client.threads.create())["thread_id"]
    values: Any = await client.runs.wait(thread, "own", input=_ask("tides"), interrupt_before=["think"])
    assert _said(values) == ["tides"] and "__interrupt__" not in values
    state = await client.threads.get_state(thread)
    assert state["next"] == ["think"] and state["interrupts"] == []
    assert (await client.threads.get(thread))["status"] == "interrupted"
    await client.threads.update_state(
        thread, {"notes": ["checked"], "messages": [{"role": "user", "content": "and moon"}]}
    )
    values = await client.runs.wait(thread, "own", input=None)
    assert _said(values) == ["tides", "and moon", "about and moon"]
    assert values["notes"] == ["checked", "thought"]
    values = await client.runs.wait(thread, "own", input=_ask("sun"), interrupt_after="*")
    assert (await client.threads.get_state(thread))["next"] == ["think"]
    await client.threads.update_state(thread, {"notes": ["seen"]})
    values = await client.runs.wait(thread, "own", command={"resume": True})
    assert _said(values)[-1] == "about sun" and values["notes"][-2:] == ["seen", "thought"]
    with pytest.raises(Exception, match="422"):
        await client.runs.wait(thread, "plain", input=_ask("x"), interrupt_before=["model"])
    with pytest.raises(Exception, match="422"):
        await client.runs.wait(thread, "own", input=None)
