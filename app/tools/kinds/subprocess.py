"""Programs in the sandbox: a command as a list, arguments as JSON on stdin or in places of that list.

No shell is ever involved, so an argument stays one argument whatever it contains; one that would begin with a
dash where the command has a place of its own is refused, because programs take it for an option.
"""

import asyncio
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Final, Literal

from app.core import json, tracing
from app.core.errors import Failure
from app.core.json import JsonObject
from app.core.value import value
from app.outside import process
from app.outside.hidden import hidden_from_programs
from app.outside.process import Finished, ProcessError, ProcessLimits, Program
from app.tools.contract import JsonResult, Result, SessionLimits, TextResult, ToolContext, ToolDefinition
from app.tools.declared import define
from app.tools.kind import ToolDeps, ToolKind
from app.tools.made_files import store_artifacts
from app.tools.rendering import Rendering, RenderingError, Secret
from app.workspace.compiled import CompiledTool, CompiledWorkspace
from app.workspace.templates import Template, tolerant_template

_DEFAULT_LIMITS: Final = ProcessLimits()


@value(frozen=True, slots=True)
class CommandTemplate:
    argv: tuple[Template, ...]
    env: Mapping[str, Template] = field(default_factory=dict)
    stdin: Literal["json", "none"] = "json"
    result: Literal["json", "text"] = "json"
    limits: ProcessLimits = _DEFAULT_LIMITS
    network: bool = False
    read: tuple[Path, ...] = ()
    """Further places it may read, such as the workspace folder that its script is in."""
    write: tuple[Path, ...] = ()
    """Further folders it may write to, besides the one it runs in."""
    folder: Path | None = None
    """Where a program that is named by a relative path is found."""
    files: Path | None = None
    """The folder that `write` is beneath."""
    data: Path | None = None
    """The server's data folder, which no program may read."""
    required: bool = False
    """Whether it is not run where the sandbox lacks something."""
    artifacts: tuple[str, ...] = ()
    """Which of the files that it makes are artifacts: patterns of paths beneath the folder it runs in."""


class SubprocessTool:
    def __init__(
        self,
        definition: ToolDefinition,
        command: CommandTemplate,
        *,
        secret: Secret = lambda _: None,
        grace: float = process.CANCEL_GRACE,
    ) -> None:
        self.definition = definition
        self._command, self._secret, self._grace = command, secret, grace

    async def invoke(self, arguments: JsonObject, ctx: ToolContext) -> Result | Failure:
        rendering = Rendering(arguments, self._secret)
        folder, hidden = await asyncio.to_thread(self._prepare)
        try:
            program = replace(self._program(rendering, arguments, ctx, folder), hidden=hidden)
            finished = await process.run(program, grace=self._grace)
            if finished.status == 0 and not finished.timed_out and self._command.artifacts:
                failed = await store_artifacts(folder, self._command.artifacts, ctx)
                if failed is not None:
                    return failed
        except RenderingError as error:
            return error.failure
        except ProcessError as error:
            incomplete = error.code == "SANDBOX_INCOMPLETE"
            return error.failure if incomplete else Failure("TOOL_UNAVAILABLE", error.failure.message)
        finally:
            # Shielded: a second cancel must not leave the folder behind.
            await asyncio.shield(asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True))
        return self._result(finished, rendering, ctx)

    def _prepare(self) -> tuple[Path, tuple[Path, ...]]:
        """The folder it runs in, and what it must not read."""
        command = self._command
        for place in command.write:
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
        hidden = hidden_from_programs(command.data, command.folder)
        return Path(tempfile.mkdtemp(prefix="holdfast-tool-")), hidden

    def _program(self, rendering: Rendering, arguments: JsonObject, ctx: ToolContext, folder: Path) -> Program:
        command = self._command
        argv = [self._argument(rendering, template) for template in command.argv]
        if command.folder is not None and "/" in argv[0]:
            argv[0] = str(command.folder / argv[0])
        env = {name: rendering.text(template) for name, template in command.env.items()}
        left = max(0.05, ctx.deadline - asyncio.get_running_loop().time())
        env |= _variables(ctx, left)
        limits = replace(command.limits, wall_seconds=left, output_bytes=ctx.max_output_bytes)
        stdin = json.dumps(arguments) if command.stdin == "json" else b""
        return Program(
            argv,
            folder,
            stdin,
            env,
            command.read,
            _writable(command, ctx.limits),
            command.network and ctx.limits.network,
            limits,
            scratch=not command.artifacts,
            required=command.required,
        )

    def _argument(self, rendering: Rendering, template: Template) -> str:
        text = rendering.text(template)
        if "\x00" in text or (template.places and template.literals[0] == "" and text.startswith("-")):
            message = "An argument would be taken for an option of the program."
            raise RenderingError(Failure("INVALID_ARGUMENTS", message))
        return text

    def _result(self, finished: Finished, rendering: Rendering, ctx: ToolContext) -> Result | Failure:
        if finished.too_large:
            return Failure("OUTPUT_TOO_LARGE", f"The program wrote more than {ctx.max_output_bytes} bytes.")
        if finished.disk_full:
            limits = self._command.limits
            most = f"{limits.disk_bytes // 2**20} MiB or {limits.disk_files} files"
            return Failure("OUTPUT_TOO_LARGE", f"The program wrote more than {most} to disk.")
        if finished.timed_out:
            return Failure("TOOL_TIMEOUT", f"{ctx.tool} did not finish within its time")
        secrets = rendering.secrets
        if finished.status != 0:
            last = secrets.text(finished.stderr.decode(errors="replace")).strip()[-1000:]
            return Failure("TOOL_FAILED", f"The program ended with status {finished.status}: {last}")
        if self._command.result == "text":
            return TextResult(secrets.text(finished.stdout.decode(errors="replace")))
        try:
            return JsonResult(secrets.value(json.loads_strict(finished.stdout)) if finished.stdout.strip() else None)
        except json.JsonError:
            return Failure("TOOL_FAILED", "The program did not write JSON.")


def _writable(command: CommandTemplate, limits: SessionLimits) -> tuple[Path, ...]:
    """Besides the folder it runs in, which is its own: what the document allows, narrowed by the session."""
    if not limits.writes:
        return ()
    if limits.folder is None or command.files is None:
        return command.write
    within = (command.files / limits.folder).resolve()
    inside = [place for place in command.write if place.is_relative_to(within)]
    if any(within != place and within.is_relative_to(place) for place in command.write):
        within.mkdir(mode=0o700, parents=True, exist_ok=True)
        inside.append(within)
    return tuple(inside)


def _variables(ctx: ToolContext, left: float) -> dict[str, str]:
    """What a program may know of its call; these names win over those of the document."""
    variables = {"RUN_ID": ctx.run_id, "CALL_ID": ctx.call_id, "TENANT": ctx.tenant, "SECONDS_LEFT": f"{left:.3f}"}
    variables |= {name.upper(): value for name, value in tracing.outgoing().items()}
    if ctx.idempotency_key is not None:
        variables["IDEMPOTENCY_KEY"] = ctx.idempotency_key
    return {f"HOLDFAST_{name}": value for name, value in variables.items()}


def make(declared: CompiledTool, workspace: CompiledWorkspace, deps: ToolDeps) -> SubprocessTool | Failure:
    """The program may read the workspace's files, and write to the folders of `writable`."""
    files, folder = deps.files.resolve(), deps.folder.resolve()
    spec, templates = declared.spec.subprocess, declared.templates
    if spec is None:
        return Failure("TOOL_INVALID", f"{declared.name}: a tool of kind subprocess needs `subprocess`")
    writable = tuple((files / name).resolve() for name in spec.writable)
    if any(not place.is_relative_to(files) for place in writable):
        return Failure("TOOL_INVALID", f"{declared.name}: a writable folder is not beneath the data folder")
    limits = ProcessLimits(
        cpu_seconds=max(1, round(spec.cpu_seconds)), memory_bytes=spec.memory_bytes, processes=spec.max_processes
    )
    command = CommandTemplate(
        argv=tuple(templates[f"subprocess.command.{number}"] for number in range(len(spec.command))),
        env={name: tolerant_template(value, ("args",)) for name, value in spec.env.items()},
        stdin=spec.stdin,
        result=spec.result,
        limits=limits,
        network=spec.network,
        read=(folder,),
        write=writable,
        folder=folder,
        files=files,
        data=deps.data,
        required=workspace.runtime.sandbox == "required",
        artifacts=spec.artifacts,
    )
    return SubprocessTool(replace(define(declared), sandbox="process"), command, secret=deps.secret)


KIND: Final = ToolKind(name="subprocess", make=make)
