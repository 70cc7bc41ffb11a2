"""Model: one model of one provider, what it can do, costs and is allowed; and the scripted model's rules."""

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from app.workspace.specs.base import (
    Count,
    Document,
    EnvText,
    JsonMap,
    KindName,
    Money,
    Name,
    Parameters,
    Reasoning,
    Seconds,
    Secret,
    Spec,
    Text,
    ToolName,
)

Medium = Literal["text", "json", "image", "audio", "video", "file"]


class Capabilities(Spec):
    streaming: bool = True
    tools: bool = False
    parallel_tools: bool = False
    structured_output: bool = False
    reasoning: bool = False
    system_messages: bool = True
    input: tuple[Medium, ...] = ("text",)
    output: tuple[Medium, ...] = ("text",)

    def names(self) -> frozenset[str]:
        """What it declares, as the words of `requiredCapabilities`."""
        flags = {
            "streaming": self.streaming,
            "tools": self.tools,
            "parallelTools": self.parallel_tools,
            "structuredOutput": self.structured_output,
            "reasoning": self.reasoning,
            "systemMessages": self.system_messages,
        }
        media = [f"input.{m}" for m in self.input] + [f"output.{m}" for m in self.output]
        return frozenset([name for name, has in flags.items() if has] + media)


class ModelLimits(Spec):
    context_tokens: Count | None = None
    max_input_tokens: Count | None = None
    max_output_tokens: Count | None = None
    concurrency: Count | None = None
    requests_per_minute: Count | None = None
    tokens_per_minute: Count | None = None


class Prices(Spec):
    """US dollars for a million tokens."""

    input: Money = 0.0
    output: Money = 0.0
    cached_input: Money | None = None


class Timeouts(Spec):
    connect_seconds: Seconds = 10
    first_token_seconds: Seconds = 60
    idle_seconds: Seconds = 60
    total_seconds: Seconds = 600


class Retry(Spec):
    attempts: Annotated[int, Field(ge=1, le=10)] = Field(
        3, description="tries of this model, including the first one, before the next model of the plan is asked"
    )
    total_seconds: Annotated[float, Field(ge=0, le=86_400)] = Field(
        120,
        description="without another model to ask: how long outages (no connection, 5xx, 429, timeouts, an open "
        "breaker) are retried beyond `attempts`; 0 for `attempts` alone",
    )
    initial_delay_seconds: Seconds = 0.5
    max_delay_seconds: Seconds = 20
    budget_per_minute: Annotated[int, Field(ge=0)] = Field(
        60, description="retries of this model in any minute, over all runs; later ones wait for their turn"
    )
    mid_stream: Literal["fail", "restart"] = "fail"


class Breaker(Spec):
    failures: Count = Field(
        10, description="number of failures in the window after which it opens, if the rate is reached too"
    )
    failure_rate: Annotated[float, Field(gt=0, le=1)] = Field(
        0.8,
        description="Share of failed calls that opens the breaker, among the last calls of the window (at most four "
        "times `failures`).",
    )
    window_seconds: Seconds = 60
    open_seconds: Seconds = 30


class ModelGuardrails(Spec):
    """Guardrails of the runs in which clients use the model without an agent."""

    input: tuple[Name, ...] = ()
    output: tuple[Name, ...] = ()

    @property
    def stages(self) -> Mapping[Literal["input", "output"], tuple[str, ...]]:
        return {"input": self.input, "output": self.output}


class ScriptMatch(Spec):
    """All that is given must hold. Texts are compared case-insensitively."""

    contains: Text | None = Field(None, description="The last user message contains this text.")
    equals: str | None = Field(None, description="The last user message is exactly this text.")
    system: Text | None = Field(None, description="A system message contains this text.")
    turn: Count | None = Field(None, description="The number of this model call within the run, starting with 1.")
    after_tool: ToolName | None = Field(None, description="The last message is the result of this tool.")
    tool_result: Text | None = Field(None, description="The last tool result contains this text.")


class ScriptToolCall(Spec):
    id: str | None = Field(None, description="The provider's id of the call. Default: a new id for each call.")
    name: Text
    args: JsonMap = Field(default_factory=dict)
    raw_args: str | None = Field(None, description="The arguments as raw text, to test arguments that do not parse.")


class ScriptFailure(Spec):
    """A failure of the provider: an HTTP status, or a connection that breaks or hangs."""

    status: Annotated[int, Field(ge=400, le=599)] | None = None
    kind: Literal["status", "connection", "timeout", "midStream"] = "status"
    message: str = "scripted failure"
    retry_after_seconds: Seconds | None = None
    times: Count | None = Field(None, description="Number of failures before the reply.")
    after_chunks: Annotated[int, Field(ge=0)] = 0


class ScriptMedia(Spec):
    """A picture, sound or file that the scripted model makes."""

    mime: Annotated[str, Field(pattern=r"^[a-z0-9.+-]+/[a-z0-9.+-]+$", max_length=100)]
    data: Annotated[str, Field(pattern=r"^[A-Za-z0-9+/]*={0,2}$", max_length=1_400_000)] = Field(
        description="The content in base64."
    )


class ScriptReply(Spec):
    """`text` may use `{{ input }}`, `{{ turn }}` and `{{ toolResult }}`."""

    text: str = ""
    reasoning: str | None = None
    tool_calls: tuple[ScriptToolCall, ...] = ()
    media: tuple[ScriptMedia, ...] = Field((), max_length=16, description="Media that the answer contains.")
    finish_reason: Literal["stop", "tool_use", "max_tokens", "safety"] | None = None
    chunk_size: Count | None = Field(
        None, description="Number of characters per delta. Default: the whole text in one delta."
    )
    chunks: tuple[str, ...] = Field((), description="The deltas, instead of `text`.")
    delay_seconds: Annotated[float, Field(ge=0, le=600)] = 0.0
    chunk_delay_seconds: Annotated[float, Field(ge=0, le=60)] = 0.0
    usage: Mapping[Literal["inputTokens", "outputTokens", "reasoningTokens"], int] = Field(default_factory=dict)


class ScriptRule(Spec):
    match: ScriptMatch = ScriptMatch()
    reply: ScriptReply = ScriptReply()
    fail: ScriptFailure | None = None


class Script(Spec):
    """The first rule that matches answers; when none does, `default`."""

    rules: tuple[ScriptRule, ...] = ()
    default: ScriptReply = ScriptReply(text="{{ input }}")


class ModelSpec(Spec):
    provider: KindName
    model: Text
    base_url: EnvText | None = Field(None, pattern=r"^(https?://|\$\{env:)")
    api_key: Secret | None = None
    headers: Mapping[str, EnvText] = Field(default_factory=dict)
    capabilities: Capabilities = Capabilities()
    limits: ModelLimits = ModelLimits()
    prices: Prices = Prices()
    timeouts: Timeouts = Timeouts()
    retry: Retry = Retry()
    breaker: Breaker = Breaker()
    fallbacks: tuple[Name, ...] = ()
    parameters: Parameters = Parameters()
    reasoning: Reasoning = Reasoning()
    expose: bool = Field(
        False, description="Whether clients may use the model without an agent, as `model:NAME` under `/v1`."
    )
    guardrails: ModelGuardrails = Field(
        ModelGuardrails(), description="Guardrails of the runs in which clients use it without an agent."
    )
    script: Script | None = None
    config: JsonMap = Field(default_factory=dict, description="Settings of the provider, passed on unchanged.")

    @model_validator(mode="after")
    def _script_only_for_scripted(self) -> Self:
        if self.script is not None and self.provider != "scripted":
            raise ValueError("`script` belongs to the provider `scripted`")
        return self


class ModelDocument(Document):
    kind: Literal["Model"]
    spec: ModelSpec
