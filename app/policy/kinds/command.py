"""Programs as hooks, in the sandbox: the question as JSON on stdin, the decision as JSON on stdout.

    in    {"hook": "PreToolUse", "input": {...}, "runId": ..., "threadId": ..., "agent": ..., "config": {...}}
    out   {"decision": "deny", "reason": "not on Fridays"}

No shell and no network; nothing of the server's environment but what `env` names. A status other than 0 is no answer.
"""

import asyncio
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Any, Final

from app.core import json
from app.core.errors import Failure, HoldfastError
from app.core.json import JsonObject
from app.core.value import value
from app.outside import process
from app.outside.hidden import hidden_from_programs
from app.outside.process import Finished, ProcessError, ProcessLimits, Program
from app.policy.contract import HookContext
from app.policy.kind import HookDeps, HookKind
from app.workspace.catalog import AnyConfig
from app.workspace.compiled import CompiledWorkspace, Named
from app.workspace.secrets import env_names, resolve_env
from app.workspace.specs.others import HookSpec

Secret = Callable[[str], str | None]
"""The value of an environment variable that the Runtime lists; None when it is not set or not listed."""

_OUTPUT_BYTES: Final = 1024 * 1024
_GRACE: Final = process.TIMEOUT_GRACE  # a hook holds up its run: a cancelled one gets no longer than a late one


class HookFailed(HoldfastError):
    """The program gave no answer. Raised for the runner, which takes it for a denial."""

    def __init__(self, message: str) -> None:
        super().__init__("GATE_DENIED", message)


@value(frozen=True, slots=True)
class CommandHandler:
    command: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)
    folder: Path | None = None
    """The workspace's files, which it may read; a program named by a relative path is found there."""
    secret: Secret = lambda _: None
    data: Path | None = None
    """The server's data folder, which no program may read."""
    required: bool = False
    """Whether it is not run, which denies, where the sandbox lacks something."""

    async def decide(self, subject: JsonObject, ctx: HookContext) -> object:
        folder, hidden = await asyncio.to_thread(self._prepare)
        try:
            program = replace(self._program(subject, ctx, folder), hidden=hidden)
            finished = await process.run(program, grace=_GRACE)
        except ProcessError as error:
            raise HookFailed(error.failure.message) from error
        finally:
            # Shielded: a second cancel must not leave the folder behind.
            await asyncio.shield(asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True))
        return _answer(finished)

    def _prepare(self) -> tuple[Path, tuple[Path, ...]]:
        """The folder it runs in, and what it must not read."""
        hidden = hidden_from_programs(self.data, self.folder)
        return Path(tempfile.mkdtemp(prefix="holdfast-hook-")), hidden

    def _program(self, subject: JsonObject, ctx: HookContext, folder: Path) -> Program:
        about = ctx.about
        question = {
            "hook": ctx.point,
            "input": subject,
            "runId": about.run_id,
            "threadId": about.thread_id,
            "agent": about.agent,
            "config": self.config,
        }
        argv = list(self.command)
        if self.folder is not None and "/" in argv[0]:
            argv[0] = str(self.folder / argv[0])
        # The end of the time is the runner's to see; the program's own limit only makes sure that it is gone.
        limits = ProcessLimits(wall_seconds=ctx.timeout_seconds, output_bytes=_OUTPUT_BYTES)
        read = () if self.folder is None else (self.folder,)
        return Program(
            argv,
            folder,
            json.dumps(question),
            self._environment(),
            read,
            limits=limits,
            scratch=True,
            required=self.required,
        )

    def _environment(self) -> dict[str, str]:
        names = {name for text in self.env.values() for name in env_names(text)}
        known = {name: value for name in names if (value := self.secret(name)) is not None}
        made: dict[str, str] = {}
        for name, text in self.env.items():
            resolved = resolve_env(text, known)
            if isinstance(resolved, Failure):
                raise HookFailed(resolved.message)
            made[name] = resolved
        return made


def _answer(finished: Finished) -> object:
    if finished.timed_out:
        raise TimeoutError
    if finished.too_large or finished.disk_full:
        raise HookFailed("the program wrote too much")
    if finished.status != 0:
        raise HookFailed(f"the program ended with status {finished.status}")
    return json.loads_strict(finished.stdout)


def make(declared: Named[HookSpec], workspace: CompiledWorkspace, deps: HookDeps) -> CommandHandler | Failure:
    spec, required = declared.spec, workspace.runtime.sandbox == "required"
    folder = deps.folder.resolve()
    return CommandHandler(spec.command, spec.env, spec.config, folder, deps.secret, deps.data, required)


KIND: Final = HookKind(name="command", make=make, config=AnyConfig)
