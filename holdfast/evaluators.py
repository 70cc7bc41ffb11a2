"""For a kind of evaluator that your package offers: its `EvaluatorKind` as an entry point of `holdfast.evaluators`."""

from app.evals.kind import EvaluatorDeps, EvaluatorKind, read_config
from app.policy.evaluator import AskJudge, Evaluator, JudgeAnswer, JudgeQuestion, NotEvaluated, Score
from app.views.run_record import CalledTool, RunRecord
from app.workspace.compiled import CompiledWorkspace, Named
from app.workspace.specs.others import EvaluatorSpec

__all__ = [
    "AskJudge",
    "CalledTool",
    "CompiledWorkspace",
    "Evaluator",
    "EvaluatorDeps",
    "EvaluatorKind",
    "EvaluatorSpec",
    "JudgeAnswer",
    "JudgeQuestion",
    "Named",
    "NotEvaluated",
    "RunRecord",
    "Score",
    "read_config",
]
