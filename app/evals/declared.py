"""From a workspace's Evaluator documents to evaluators that can be asked, and from an agent's gates to rules.

An evaluator that cannot be made still has its place: asked for a score it gives none, so that its gates let nothing
pass. `Gates` keeps what it made, by the digest of the workspace. Leaves to others: when a gate is asked.
"""

from collections.abc import Mapping
from hashlib import sha256
from typing import Final

from cachetools import LRUCache

from app.core import json
from app.core.errors import Failure
from app.evals.kind import EvaluatorDeps, EvaluatorKind
from app.policy.evaluator import AskJudge, Evaluator, NotEvaluated, Score
from app.policy.gates import AgentGates, GateRule, ScoredBy
from app.views.run_record import RunRecord
from app.workspace.catalog import Kinds
from app.workspace.compiled import CompiledAgent, CompiledWorkspace, Named
from app.workspace.specs.others import EvaluatorSpec

MAX_WORKSPACES: Final = 8
_NO_GATES: Final = AgentGates()


class BrokenEvaluator:
    """Stands for an evaluator that cannot be made."""

    def __init__(self, failure: Failure) -> None:
        self._failure = failure

    async def score(self, record: RunRecord, ask: AskJudge) -> Score:
        raise NotEvaluated(self._failure.message)


class Gates:
    def __init__(self, kinds: Kinds[EvaluatorKind], deps: EvaluatorDeps) -> None:
        self._kinds, self._deps = kinds, deps
        self._evaluators: LRUCache[str, Mapping[str, ScoredBy]] = LRUCache(MAX_WORKSPACES)
        self._gates: LRUCache[tuple[str, str], AgentGates] = LRUCache(MAX_WORKSPACES * 64)

    def evaluators(self, workspace: CompiledWorkspace) -> Mapping[str, ScoredBy]:
        """All evaluators of the workspace, by name."""
        made = self._evaluators.get(workspace.digest)
        if made is None:
            made = {name: self._made(declared, workspace) for name, declared in workspace.evaluators.items()}
            self._evaluators[workspace.digest] = made
        return made

    def of(self, workspace: CompiledWorkspace, agent: CompiledAgent) -> AgentGates:
        if not agent.spec.gates:
            return _NO_GATES
        key = workspace.digest, agent.name
        gates = self._gates.get(key)
        if gates is None:
            known = self.evaluators(workspace)
            rules = [GateRule(spec, known[spec.evaluator]) for spec in agent.spec.gates]
            blocking = tuple(rule for rule in rules if rule.mode == "blocking")
            gates = AgentGates(blocking, tuple(rule for rule in rules if rule.mode == "shadow"))
            self._gates[key] = gates
        return gates

    def _made(self, declared: Named[EvaluatorSpec], workspace: CompiledWorkspace) -> ScoredBy:
        made = self._make(declared, workspace)
        evaluator = BrokenEvaluator(made) if isinstance(made, Failure) else made
        return ScoredBy(
            declared.name, evaluator, float(declared.spec.timeout_seconds), definition_of(declared, workspace)
        )

    def _make(self, declared: Named[EvaluatorSpec], workspace: CompiledWorkspace) -> Evaluator | Failure:
        kind = self._kinds.usable(declared.spec.kind)
        if kind is None:
            message = f"{declared.name}: there is no kind of evaluator {declared.spec.kind!r} here"
            return Failure("EVALUATOR_INVALID", message)
        try:
            return kind.make(declared, workspace, self._deps)
        except Exception as error:
            # A kind may come from another package; whatever it raises says that it cannot be used.
            return Failure("EVALUATOR_INVALID", f"{declared.name}: cannot be made: {type(error).__name__}")


def definition_of(declared: Named[EvaluatorSpec], workspace: CompiledWorkspace) -> str:
    """A digest of the document; of the model that judges and of the workspace's Python too, where they count."""
    spec = declared.spec
    parts: list[object] = [declared.name, spec.model_dump(mode="json", by_alias=True)]
    if spec.entry is not None:
        sources = workspace.files.files.items()
        parts.append([[path, file.sha256] for path, file in sources if path.endswith(".py")])
    if spec.model is not None and spec.model in workspace.models:
        parts.append(workspace.models[spec.model].spec.model_dump(mode="json", by_alias=True))
    return sha256(json.canonical({"evaluator": parts})).hexdigest()
