"""Plan-Work-Review: a lead reads the request, a planner plans it, a worker does it and a reviewer judges the work.

    INTAKE -> LEAD -> PLAN -> WORK -> REVIEW -> DONE
                               ^        |
                               |        v
                             REWORK <- FAIL

Every arrow is recorded. What goes from role to role is JSON of a published schema, never prose. Tools are the worker's
(and the scaffolder's) alone, as far as the chosen skill allows; without a skill there are none. Nobody reviews what
they made: the reviewer sees the plan, the report and which calls were really made, and none of the worker's words.
Leaves to others: how a role speaks (`plan_work_review_roles`), gates and budgets (the context).
"""

from typing import Any, Final

from app.backends.contract import BackendKind, Context, Output, Result, Resume, StepFailed
from app.backends.kinds.plan_work_review_roles import (
    ADVISOR,
    LEAD,
    PLANNER,
    REVIEWER,
    SCAFFOLDER,
    WORKER,
    Handoff,
    RoleContext,
    RoleLog,
    Voices,
    handoff_message,
)
from app.core.errors import Failure
from app.core.json import JsonObject
from app.events.catalog.skill import VERDICT_FAIL
from app.views.history import user_message
from app.workspace.specs.base import Spec

_QUESTION: Final = "decision"


class PlanWorkReviewConfig(Spec):
    escalate: bool = False
    """Whether a person is asked when the reviewer still objects after the last rework."""


class PlanWorkReviewBackend:
    kind = "plan_work_review"
    resume: Resume = "replay"

    async def run(self, ctx: Context) -> Result:
        if not isinstance(ctx, RoleLog):
            raise TypeError("Plan-Work-Review needs a context that records roles")
        return await _Cycle(ctx).run()


class _Cycle:
    """One pass through the states. All it knows came through its context, so that re-entry repeats it."""

    def __init__(self, ctx: RoleContext) -> None:
        self._ctx = ctx
        self._voices = Voices(ctx)
        self._state = "INTAKE"
        self._asked = user_message(ctx.input)
        self._request = self._asked["content"]
        # Without a skill nobody has vouched for any tool.
        self._tools = frozenset() if ctx.skill is None else ctx.skill.tools & ctx.tools

    async def run(self) -> Output:
        try:
            return await self._through()
        except StepFailed as failed:
            # A run that no longer follows its record must not add to it.
            if self._state != "FAIL" and failed.failure.code != "BACKEND_NOT_DETERMINISTIC":
                await self._go("FAIL", failed.failure.code)
            raise

    async def _go(self, to: str, reason: str | None = None) -> None:
        await self._ctx.transition(to, self._state, reason)
        self._state = to

    async def _through(self) -> Output:
        await self._go("LEAD")
        directive, advice = await self._lead()
        if directive.get("cycle_id") is not None:
            return await self._cycle(str(directive["cycle_id"]))
        await self._go("PLAN")
        plan = await self._plan(directive, advice)
        await self._go("WORK")
        made = await self._scaffold(directive, plan)
        feedback: str | None = None
        reworks = 0
        while True:
            report = await self._work(directive, plan, made, feedback)
            await self._go("REVIEW")
            review = await self._review(directive, plan, report)
            if review["verdict"] == "pass":
                return await self._done(report, review, reworks)
            feedback = review["feedback"]
            await self._go("FAIL", VERDICT_FAIL)
            if reworks >= self._ctx.max_reworks and await self._escalate(report, feedback, reworks) == "accept":
                return await self._done(report, review, reworks)
            reworks += 1
            await self._go("REWORK")
            await self._go("WORK")

    # -- the states ----------------------------------------------------------------------------------

    async def _lead(self) -> tuple[JsonObject, str | None]:
        """The directive, and advice where the lead wants some."""
        directive = (await self._voices.speak(LEAD, self._asked, earlier=self._ctx.history)).value
        advice = None
        if directive.get("needs_advisor"):
            advice = await self._advise(directive=directive)
        return directive, advice

    async def _plan(self, directive: JsonObject, advice: str | None) -> JsonObject:
        """The plan. One that wants advice is made again with it, once."""
        tools = sorted(self._tools)
        given = handoff_message(request=self._request, directive=directive, tools=tools, advice=advice)
        plan = (await self._voices.speak(PLANNER, given)).value
        if not plan["needs_advisor"] or advice is not None:
            return plan
        advice = await self._advise(directive=directive, plan=plan)
        given = handoff_message(request=self._request, directive=directive, tools=tools, plan=plan, advice=advice)
        return (await self._voices.speak(PLANNER, given)).value

    async def _advise(self, **matter: JsonObject) -> str:
        advice = await self._voices.speak(ADVISOR, handoff_message(request=self._request, **matter))
        return str(advice.value["output"])

    async def _scaffold(self, directive: JsonObject, plan: JsonObject) -> JsonObject | None:
        """What the work is to fill, when the plan asks for it."""
        if plan.get("needs_scaffolder") is not True:
            return None
        return (
            await self._voices.speak(SCAFFOLDER, handoff_message(directive=directive, plan=plan), self._tools)
        ).value

    async def _work(
        self, directive: JsonObject, plan: JsonObject, made: JsonObject | None, feedback: str | None
    ) -> Handoff:
        given = handoff_message(request=self._request, directive=directive, plan=plan, scaffold=made, feedback=feedback)
        return await self._voices.speak(WORKER, given, self._tools)

    async def _review(self, directive: JsonObject, plan: JsonObject, report: Handoff) -> JsonObject:
        assert report.role != REVIEWER.name, "nobody reviews what they made"
        given = handoff_message(
            request=self._request, directive=directive, plan=plan, report=report.value, tool_calls=report.calls
        )
        return (await self._voices.speak(REVIEWER, given)).value

    async def _done(self, report: Handoff, review: JsonObject, reworks: int) -> Output:
        await self._go("DONE")
        metadata: dict[str, Any] = {"review": review, "reworks": reworks}
        return Output(report.value["output"], metadata=metadata)

    async def _cycle(self, name: str) -> Output:
        """The lead hands the request to a cycle, whose phases plan, work and review."""
        output = await self._ctx.run_cycle(name)
        await self._go("DONE", f"cycle {name}")
        return output

    # -- when the reviewer stays with its no ---------------------------------------------------------

    async def _escalate(self, report: Handoff, feedback: str, reworks: int) -> str:
        """A person's decision where the agent asks for one; else the run ends here."""
        failure = Failure("REVIEW_FAILED", f"The work did not pass its review: {feedback[:500]}")
        if not self._ctx.config.get("escalate"):
            raise StepFailed(failure)
        question: JsonObject = {
            "id": _QUESTION,
            "question": f"The reviewer says: {feedback}\n\nThe work: {report.value['output']}",
            "options": ["accept", "rework", "fail"],
        }
        title = f"The work did not pass its review after {reworks} reworks"
        answers = await self._ctx.ask(title, [question])
        decision = answers.get(_QUESTION)
        if decision not in ("accept", "rework"):
            raise StepFailed(failure)
        return str(decision)


KIND: Final = BackendKind(name="plan_work_review", make=PlanWorkReviewBackend, config=PlanWorkReviewConfig)
