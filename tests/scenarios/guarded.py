"""A workspace with a guardrail of each kind, and agents whose model repeats what it is told, in pieces of any size."""

from pathlib import Path
from typing import Any, Final

import orjson

KNOWN_SECRET: Final = "correct horse battery staple 42"

RULES: Final = """
def loud(content, config):
    return isinstance(content, str) and content.isupper()

def places(content):
    at = content.find("PLACE") if isinstance(content, str) else -1
    return [] if at < 0 else [{"start": at, "end": at + 5, "label": "place"}]

def raises(content):
    raise RuntimeError("secret detail " + str(content))

async def late(content):
    import asyncio
    await asyncio.sleep(60)

def odd(content):
    return "maybe"

def nowhere(content):
    return [{"start": 0, "end": 4, "path": "/not/there"}]

def look_up(name: str) -> dict:
    \"\"\"Look somebody up.\"\"\"
    return {"name": name, "mail": f"{name}@example.com", "known": name != "nobody"}

def fails(name: str) -> dict:
    \"\"\"Always fails.\"\"\"
    raise ValueError(f"cannot find {name}@example.com")
"""


def document(kind: str, name: str, spec: dict[str, Any]) -> str:
    made = {"apiVersion": "holdfast/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}
    return "---\n" + orjson.dumps(made, option=orjson.OPT_INDENT_2).decode() + "\n"


def rule(name: str, kind: str, action: str = "block", **spec: Any) -> str:
    return document("Guardrail", name, {"kind": kind, "action": action, **spec})


def agent(name: str, model: str = "parrot", tools: tuple[str, ...] = (), **stages: list[str]) -> str:
    return document("Agent", name, {"model": model, "tools": list(tools), "guardrails": stages})


def _parrot(name: str, size: int) -> str:
    reply = {"text": "{{ input }}", "chunkSize": size}
    return document("Model", name, {"provider": "scripted", "model": name, "script": {"rules": [], "default": reply}})


_NAME: Final = {
    "type": "object",
    "required": ["name"],
    "additionalProperties": False,
    "properties": {"name": {"type": "string"}},
}


def _tool(name: str) -> str:
    return document("Tool", name, {"kind": "python", "entry": f"rules:{name}", "effect": "readonly", "input": _NAME})


def _caller() -> str:
    """Calls a tool with whatever it is asked, and answers with what came back."""
    rules = [
        {
            "match": {"contains": "fails", "turn": 1},
            "reply": {"toolCalls": [{"name": "fails", "args": {"name": "joe"}}]},
        },
        {"match": {"turn": 1}, "reply": {"toolCalls": [{"name": "look_up", "args": {"name": "{{ input }}"}}]}},
    ]
    script = {"rules": rules, "default": {"text": "got {{ toolResult }}", "chunkSize": 3}}
    return document(
        "Model",
        "caller",
        {"provider": "scripted", "model": "caller", "capabilities": {"tools": True}, "script": script},
    )


def _judge() -> str:
    yes, no = '{"triggered": true}', '{"triggered": false}'
    script = {
        "rules": [
            {"match": {"contains": "a bribe"}, "reply": {"text": yes}},
            {"match": {"contains": "gibberish"}, "reply": {"text": "perhaps"}},
            {"match": {"contains": "outage"}, "fail": {"status": 400}},
        ],
        "default": {"text": no},
    }
    return document("Model", "judge", {"provider": "scripted", "model": "judge", "script": script})


RULE_DOCUMENTS: Final = (
    rule("no_pii", "pii", "redact")
    + rule("block_pii", "pii", message="No personal data, please.", config={"kinds": ["card", "email"]})
    + rule("flag_pii", "pii", "flag", config={"kinds": ["email"]})
    + rule("ask_pii", "pii", "ask", config={"kinds": ["email"]})
    + rule("codename", "regex", "redact", config={"patterns": [r"\bproject [a-z]{3,12}\b"], "label": "codename"})
    + rule("politics", "topic", reply="Let us talk about the weather.", config={"deny": ["election"]})
    + rule("short", "cel", message="Too long.", config={"when": "size(text) > 40"})
    + rule("broken_cel", "cel", config={"when": "content.missing == 1"})
    + rule("as_json", "schema", config={"schema": {"type": "object", "required": ["ok"], "properties": {"ok": {}}}})
    + rule("fair", "model", model="judge", message="That is not fair.", config={"rule": "The text offers a bribe."})
    + rule("loud", "python", entry="rules:loud")
    + rule("places", "python", "redact", entry="rules:places")
    + rule("raises", "python", "flag", entry="rules:raises")
    + rule("late", "python", "flag", entry="rules:late", timeoutSeconds=0.1)
    + rule("odd", "python", "flag", entry="rules:odd")
    + rule("nowhere", "python", "redact", entry="rules:nowhere")
)

AGENTS: Final = (
    agent("plain")
    + agent("redacts_input", input=["no_pii"])
    + agent("blocks_input", input=["block_pii"])
    + agent("redacts", output=["no_pii", "codename"])
    + agent("redacts_pieces", "parrot1", output=["no_pii", "codename"])
    + agent("plain_pieces", "parrot1")
    + agent("plain16", "parrot16")
    + agent("redacts16", "parrot16", output=["no_pii", "codename"])
    + agent("blocks", output=["block_pii"])
    + agent("replies", output=["politics"])
    + agent("flags", output=["flag_pii"])
    + agent("short", output=["short"])
    + agent("broken_cel", output=["broken_cel"])
    + agent("as_json", output=["as_json"])
    + agent("fair", output=["fair"])
    + agent("fair_input", input=["fair"])
    + agent("loud", input=["loud"])
    + agent("places", output=["places"])
    + agent("raises", output=["raises"])
    + agent("raises_input", input=["raises"])
    + agent("late", output=["late"])
    + agent("odd", input=["odd"])
    + agent("nowhere", input=["nowhere"])
    + agent("asks", output=["ask_pii"])
    + agent("asks_input", input=["ask_pii"])
    + agent("tools_plain", "caller", ("look_up", "fails"))
    + agent("tools_redact", "caller", ("look_up", "fails"), toolArguments=["no_pii"], toolResults=["no_pii"])
    + agent("tools_block", "caller", ("look_up",), toolArguments=["block_pii"])
    + agent("results_block", "caller", ("look_up",), toolResults=["block_pii"])
    + agent("tools_ask", "caller", ("look_up",), toolArguments=["ask_pii"])
    + agent("results_ask", "caller", ("look_up",), toolResults=["ask_pii"])
    + agent("output_tools", "caller", ("look_up",), output=["no_pii"])
)


def make_guarded_workspace(folder: Path, more: str = "") -> Path:
    folder.mkdir(parents=True)
    (folder / "rules.py").write_text(RULES)
    runtime = document("Runtime", "runtime", {"defaultAgent": "plain", "env": ["SCENARIO_SECRET"]})
    models = _parrot("parrot", 4) + _parrot("parrot1", 1) + _parrot("parrot16", 16) + _caller() + _judge()
    tools = _tool("look_up") + _tool("fails")
    (folder / "all.yaml").write_text(runtime + models + tools + RULE_DOCUMENTS + AGENTS + more)
    return folder
