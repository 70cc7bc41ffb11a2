"""The names of what a model can do, as workspaces declare and require them."""

from typing import Final

from app.models.completion import CompletionRequest, Media

STREAMING: Final = "streaming"
TOOLS: Final = "tools"
PARALLEL_TOOLS: Final = "parallelTools"
REASONING: Final = "reasoning"
STRUCTURED_OUTPUT: Final = "structuredOutput"
SYSTEM_MESSAGES: Final = "systemMessages"
TOOL_CHOICE: Final = "toolChoice"
"""Whether a model can be made to call a tool. No model declares it: it is a word of the provider's interface."""
MEDIA: Final = ("text", "json", "image", "audio", "video", "file")

ALWAYS: Final = frozenset({SYSTEM_MESSAGES, "input.text", "input.json", "output.text"})
KNOWN: Final = frozenset(
    {STREAMING, TOOLS, PARALLEL_TOOLS, REASONING, STRUCTURED_OUTPUT, SYSTEM_MESSAGES}
    | {f"{way}.{medium}" for way in ("input", "output") for medium in MEDIA}
)
_FREE: Final = (None, "auto", "none")


def needed(request: CompletionRequest) -> frozenset[str]:
    """What the request cannot do without. Streaming, reasoning, schemas and what a model made itself degrade instead,
    with a note."""
    found: set[str] = set()
    for message in request.messages:
        if message.parts and message.role != "assistant":
            found.update(f"input.{part.kind}" for part in message.parts if isinstance(part, Media))
    if request.tools:
        found.add(TOOLS)
        if request.tool_choice not in _FREE:
            found.add(TOOL_CHOICE)
    return frozenset(found)


def strictly_needed(request: CompletionRequest) -> frozenset[str]:
    """As `needed`, and what would otherwise degrade."""
    found = {STREAMING}
    if request.reasoning is not None:
        found.add(REASONING)
    if request.response_schema is not None:
        found.add(STRUCTURED_OUTPUT)
    return needed(request) | found
