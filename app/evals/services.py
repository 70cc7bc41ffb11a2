"""What the routes for judgements, datasets and evaluations use, together."""

from app.core.value import value
from app.evals.collection import Collection
from app.evals.datasets import Datasets
from app.evals.evaluations import Evaluations
from app.evals.run_judgements import RunJudgements


@value(frozen=True, slots=True)
class EvalServices:
    runs: RunJudgements
    collection: Collection
    datasets: Datasets
    evaluations: Evaluations
