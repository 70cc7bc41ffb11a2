"""Models that judge runs which have ended. Their calls count for the tenant's day and are recorded with the verdict.

A blocking gate's judge is asked within its run instead, where every model call is an event of the run.
"""

from app.core.errors import Failure
from app.core.ids import new_id
from app.events.catalog import Payload
from app.models.completion import request_hash
from app.models.plans import ModelPlans
from app.models.router import ModelRouter
from app.policy.evaluator import AskJudge, JudgeAnswer, JudgeQuestion
from app.runtime.run.budgets import BudgetAccounts, Used
from app.runtime.run.model_calls import judge_answer, judge_request
from app.workspace.compiled import CompiledWorkspace
from app.workspace.specs.agent import ModelPlan
from app.workspace.specs.base import Limits


class Judges:
    def __init__(self, router: ModelRouter, budgets: BudgetAccounts) -> None:
        self._router, self._budgets = router, budgets

    def of(self, tenant: str, workspace: CompiledWorkspace) -> AskJudge:
        async def ask(question: JudgeQuestion) -> JudgeAnswer | Failure:
            if question.model not in workspace.models:
                return Failure("MODEL_NOT_FOUND", "The workspace has no such model.")
            plan = ModelPlans(workspace.models).plan(ModelPlan(primary=question.model))
            request, daily = judge_request(question, workspace.runtime.redaction), workspace.runtime.budgets.tenant
            budget = await self._budgets.of(tenant, Limits(), None, Used(), daily)
            outcome = await self._router.complete(
                plan, request, record=_unrecorded, message_id=new_id("message"), tenant=tenant, budget=budget
            )
            if isinstance(outcome, Failure):
                return outcome
            return judge_answer(outcome, request_hash(request.to_json(plan.primary.name)))

        return ask


async def _unrecorded(payload: Payload) -> Payload | None:
    """The verdict holds what was asked and answered; there is no run any more whose events these could be."""
    return None
