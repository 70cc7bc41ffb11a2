"""Tool and McpServer: what may touch the world, and how it is guarded."""

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import Discriminator, Field, Tag, model_validator

from app.workspace.specs.base import (
    Bytes,
    Cel,
    Count,
    Document,
    Entry,
    EnvText,
    JsonMap,
    KindName,
    Name,
    Seconds,
    Spec,
    Text,
    ToolMetadata,
)

Approver = Annotated[
    str,
    Field(
        pattern=r"^(anyone|other|role:[A-Za-z0-9_.-]{1,64})$",
        description="Who may answer: `anyone` with the scope, `other` than who submitted the run, or `role:<name>`.",
    ),
]


class HttpTemplate(Spec):
    """A request whose texts may use `{{ args.name }}`, quoted for where they stand."""

    method: Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"] = "GET"
    url: EnvText = Field(pattern=r"^(https?://|\$\{env:)")
    headers: Mapping[str, EnvText] = Field(default_factory=dict)
    query: Mapping[str, EnvText] = Field(default_factory=dict)
    body: Literal["none", "json", "text"] = Field(
        "none", description="The request body: none, the field `json` (or all arguments), or the field `text`."
    )
    json_: JsonMap | None = Field(None, alias="json", description="The JSON body; its strings are templates.")
    text: str | None = None
    hosts: tuple[Text, ...] = Field((), description="Hosts that this tool may call. Default: the URL's host.")
    result: Literal["json", "text", "response"] = "json"
    ok_status: tuple[Annotated[int, Field(ge=100, le=599)], ...] = ()

    @model_validator(mode="after")
    def _body_is_sent(self) -> Self:
        if self.json_ is not None and self.body != "json":
            raise ValueError("`json` is sent with `body: json` only")
        if self.text is not None and self.body != "text":
            raise ValueError("`text` is sent with `body: text` only")
        return self


class McpTarget(Spec):
    server: Name
    tool: Text | None = Field(
        None, description="The tool's name on the MCP server. Default: the name of this document."
    )


class Subprocess(Spec):
    """A command as a list, never a shell line; arguments arrive as JSON on stdin or by `{{ args.name }}`."""

    command: tuple[Text, ...] = Field(min_length=1)
    env: Mapping[str, EnvText] = Field(default_factory=dict)
    stdin: Literal["json", "none"] = "json"
    result: Literal["json", "text"] = "json"
    cpu_seconds: Seconds = 30
    memory_bytes: Bytes = 512 * 1024 * 1024
    max_processes: Count = 32
    network: bool = False
    writable: tuple[Text, ...] = Field((), description="Folders in the data folder that the program may write to.")
    artifacts: tuple[Annotated[Text, Field(max_length=200, pattern=r"^[^/\x00][^\x00]*$")], ...] = Field(
        (),
        max_length=20,
        description="Files that become artifacts of the run when the program succeeds: patterns such as `report.md` or "
        "`out/*.csv` of paths in the folder that the program runs in.",
    )


class Rule(Spec):
    """A semantic check of the arguments: `check` must be true, else the call is refused with `message`."""

    check: Cel
    message: Text
    example: JsonMap | None = None


class RepairPolicy(Spec):
    """Which repairs the guard may try, in this order."""

    enabled: bool = True
    json_: bool = Field(True, alias="json")
    names: bool = True
    types: bool = True
    enums: bool = True
    model_round: bool = True


class ApprovalRule(Spec):
    """Which calls need an approval, and who may give it."""

    when: Cel = Field(
        "always", description="`never`, `always`, or a CEL expression on `args`; a person is asked when it is true."
    )
    approver: Approver = "anyone"


def _form(value: object) -> str:
    return "rule" if isinstance(value, ApprovalRule | dict) else "text"


class CompensationSpec(Spec):
    """How a call is undone: by another tool with `arguments`, whose texts may use `{{ args.x }}` and
    `{{ result.y }}`, or by a Python function."""

    tool: Name | None = None
    arguments: JsonMap = Field(default_factory=dict)
    entry: Entry | None = None

    @model_validator(mode="after")
    def _one_of_them(self) -> Self:
        if (self.tool is None) == (self.entry is None):
            raise ValueError("a compensation needs either `tool` or `entry`")
        if self.entry is not None and self.arguments:
            raise ValueError("`arguments` belongs to a compensation by a tool; a function is given the call itself")
        return self


class ToolSpec(Spec):
    kind: KindName
    entry: Entry | None = None
    input: JsonMap | None = None
    output: JsonMap | None = None
    effect: Literal["readonly", "keyed", "unsafe"] = "unsafe"
    timeout_seconds: Seconds = 30
    max_output_bytes: Bytes = 1024 * 1024
    # As JSON it may become six times as long, and must still fit an event.
    excerpt_bytes: Annotated[int, Field(ge=1, le=128 * 1024)] = 16 * 1024
    approval: Annotated[Annotated[Cel, Tag("text")] | Annotated[ApprovalRule, Tag("rule")], Discriminator(_form)] = (
        Field(
            "never",
            description="`never`, `always`, a CEL expression on `args` (a person is asked when it is true), or "
            "`{when, approver}`.",
        )
    )
    rules: tuple[Rule, ...] = ()
    compensation: CompensationSpec | None = None
    paths: tuple[Text, ...] = Field(
        (), description="Arguments that are paths, in addition to those with `format: path`."
    )
    repair: RepairPolicy = RepairPolicy()
    examples: tuple[JsonMap, ...] = ()
    http: HttpTemplate | None = None
    mcp: McpTarget | None = None
    subprocess: Subprocess | None = None
    config: JsonMap = Field(default_factory=dict, description="Settings of the tool kind, passed on unchanged.")

    @property
    def asks_when(self) -> str:
        """never, always, or the CEL rule."""
        return self.approval if isinstance(self.approval, str) else self.approval.when

    @property
    def approver(self) -> str:
        return "anyone" if isinstance(self.approval, str) else self.approval.approver

    @model_validator(mode="after")
    def _section_fits_kind(self) -> Self:
        for kind in ("http", "mcp", "subprocess"):
            section = getattr(self, kind)
            if self.kind == kind and section is None:
                raise ValueError(f"a tool of kind {kind} needs `{kind}`")
            if self.kind != kind and section is not None:
                raise ValueError(f"`{kind}` belongs to tools of kind {kind}")
        if self.entry is not None and self.kind in ("http", "mcp", "subprocess"):
            raise ValueError("`entry` belongs to tools of kind python or builtin")
        if self.kind == "python" and self.entry is None:
            raise ValueError("a tool of kind python needs `entry: module:function`")
        return self


class ToolDocument(Document):
    kind: Literal["Tool"]
    metadata: ToolMetadata  # type: ignore[assignment]  # the same fields with a narrower name
    spec: ToolSpec


class McpTools(Spec):
    allow: tuple[Text, ...] = Field(
        (), description="Tools of the server that may be used. Default: all for which a Tool document exists."
    )
    pins: Mapping[str, Annotated[str, Field(pattern="^[0-9a-f]{64}$")]] = Field(
        default_factory=dict,
        description="SHA-256 of each tool's canonical schema. A tool with another schema is blocked.",
    )


class McpOAuth(Spec):
    """How Holdfast is authorised at a remote MCP server: by a person's login, or by credentials of its own."""

    grant: Literal["authorizationCode", "clientCredentials"] = "authorizationCode"
    client_id: EnvText | None = None
    client_secret: EnvText | None = None
    issuer: EnvText | None = Field(None, pattern=r"^(https?://|\$\{env:)")
    scopes: tuple[Annotated[str, Field(pattern=r"^[!#-\[\]-~]{1,200}$")], ...] = ()

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.grant == "clientCredentials" and (self.client_id is None or self.client_secret is None):
            raise ValueError("the grant `clientCredentials` needs `clientId` and `clientSecret`")
        if self.client_secret is not None and (self.client_id is None or self.issuer is None):
            raise ValueError("`clientSecret` needs `clientId`, and `issuer`: the secret is sent to that server only")
        return self


class McpServerSpec(Spec):
    command: tuple[Text, ...] = ()
    url: EnvText | None = Field(None, pattern=r"^(https?://|\$\{env:)")
    env: Mapping[str, EnvText] = Field(default_factory=dict)
    headers: Mapping[str, EnvText] = Field(default_factory=dict)
    tools: McpTools = McpTools()
    connect_seconds: Seconds = 10
    call_seconds: Seconds = 60
    sessions: Annotated[int, Field(ge=1, le=64)] = Field(4, description="connections of one tenant at once")
    shared: bool = Field(False, description="Whether all tenants share connections and processes.")
    mcp_protocol_version: Annotated[str, Field(pattern="^[0-9]{4}-[0-9]{2}-[0-9]{2}$")] | None = None
    oauth: McpOAuth | None = None

    @model_validator(mode="after")
    def _one_transport(self) -> Self:
        if bool(self.command) == (self.url is not None):
            raise ValueError("give either `command` (stdio) or `url`")
        if self.env and self.url is not None:
            raise ValueError("`env` belongs to a server with `command`")
        if self.headers and self.command:
            raise ValueError("`headers` belong to a server with `url`")
        if self.oauth is not None and self.url is None:
            raise ValueError("`oauth` belongs to a server with `url`")
        if self.oauth is not None and "authorization" in {name.lower() for name in self.headers}:
            raise ValueError("give either `oauth` or the header Authorization")
        return self


class McpServerDocument(Document):
    kind: Literal["McpServer"]
    spec: McpServerSpec
