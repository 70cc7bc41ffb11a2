"""The AsyncAPI document describes every frame: each event of the catalog, each alias of the dialect."""

import pytest

from app.events.catalog import EVENTS
from app.protocols.dialects import codex, codex_requests
from app.protocols.stream.asyncapi import document
from scripts.generate import ROOT


def test_every_event_and_every_alias_is_a_message() -> None:
    messages = document()["components"]["messages"]
    assert set(EVENTS) <= set(messages)
    spoken = {*codex_requests.REQUESTED.values(), *codex_requests.RESOLVED.values()}
    assert spoken <= set(codex.ALIASES)
    assert {name.replace(".*", "") for name in codex.ALIASES} <= set(messages)


def test_every_reference_leads_somewhere() -> None:
    made = document()
    messages = made["components"]["messages"]
    for operation in made["operations"].values():
        for reference in operation["messages"]:
            assert reference["$ref"].removeprefix("#/channels/stream/messages/") in messages
    for name in EVENTS:
        path = messages[name]["payload"]["properties"]["payload"]["$ref"]
        assert (ROOT / "openapi" / path).resolve().is_file(), path


@pytest.mark.parametrize("name", ["say_subscribe", "say_unsubscribe", "say_ping"])
def test_commands_are_what_a_client_says(name: str) -> None:
    said = document()["operations"]["say"]
    assert said["action"] == "receive"
    assert f"#/channels/stream/messages/{name}" in [message["$ref"] for message in said["messages"]]
