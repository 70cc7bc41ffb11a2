"""A completion from whichever model of the plan can give one: negotiate, try, retry, fall back, give up with
causes.

Leaves to `attempt`: a single try; to the kinds: talking to a provider; to the caller: what to do with the
answer. Every step is an event before it is visible, and a domain failure is a value, so a caller need not
catch anything.
"""

from contextlib import nullcontext
from dataclasses import replace
from typing import Any, Final

from cachetools import LRUCache

from app.core import json
from app.core.clock import Clock
from app.core.errors import Failure
from app.core.ids import new_id
from app.core.principal import DEFAULT_TENANT
from app.core.schemas import SchemaInvalid, SchemaRegistry, Validator
from app.events.catalog.model import ModelRetryScheduled
from app.events.catalog.values import ErrorValue
from app.models.attempt import AttemptFailed, AttemptServices, CompletionCall, ModelAttempt
from app.models.completion import CompletionRequest, CompletionResponse, request_hash
from app.models.config import ModelConfig
from app.models.contract import Budget, CancelSignal, ContentPolicy, MakeScreen, Outside, Record, Sleep
from app.models.deadline import Deadline, Ended
from app.models.limits import Limiter
from app.models.negotiate import ModelChoice, Negotiation, media_of, negotiate
from app.models.prepare import prepare
from app.models.registry import Providers
from app.models.reliability import Health, Random
from app.models.retry_schedule import RetrySchedule, Wait
from app.models.shared_limits import SharedLimits

_REQUEST_SCHEMA: Final = "completion_request_v1"
_RESPONSE_SCHEMA: Final = "completion_response_v1"
# Failures that no other model can mend: they end the call as they are.
_FINAL: Final = frozenset({"MODEL_CANCELLED", "BUDGET_EXCEEDED", "GUARDRAIL_DENIED"})
_MAX_VALIDATORS: Final = 256
# Never look again sooner: what is left of a wait may be too little to move a clock.
_SHORT_SECONDS: Final = 0.01
# A shorter wait is over before another run could make use of the place.
_LONG_SECONDS: Final = 1.0


class ModelRouter:
    def __init__(
        self,
        providers: Providers,
        *,
        schemas: SchemaRegistry,
        clock: Clock,
        random: Random,
        sleep: Sleep,
        limiter: Limiter | None = None,
        shared: SharedLimits | None = None,
    ) -> None:
        self._providers = providers
        self._schemas = schemas
        self._random = random
        self._sleep = sleep
        self._services = AttemptServices(clock, limiter or Limiter(clock), Health(clock), shared)
        self._validators: LRUCache[bytes, Validator] = LRUCache(_MAX_VALIDATORS)

    @property
    def health(self) -> Health:
        return self._services.health

    @property
    def limiter(self) -> Limiter:
        return self._services.limiter

    def negotiate(self, plan: ModelChoice, request: CompletionRequest) -> Negotiation:
        known = self._providers.capabilities if request.tool_choice is None else self._providers.all_capabilities
        return negotiate(plan, request, known)

    def media_of(self, plan: ModelChoice) -> frozenset[str]:
        return media_of(plan, self._providers.capabilities)

    async def complete(
        self,
        plan: ModelChoice,
        request: CompletionRequest,
        *,
        record: Record,
        message_id: str,
        budget: Budget | None = None,
        cancelled: CancelSignal | None = None,
        tenant: str = DEFAULT_TENANT,
        adapter: str = "native",
        contents: ContentPolicy = ContentPolicy(),
        negotiated: Negotiation | None = None,
        negotiation: Negotiation | None = None,
        stream: bool = True,
        outside: Outside = nullcontext,
        screen: MakeScreen | None = None,
    ) -> CompletionResponse | Failure:
        """The answer, or why there is none. `negotiated` is the last outcome: only a new one is recorded.

        `negotiation` is the one of this plan and request, for a caller that has it already. Longer waits between
        attempts happen inside of `outside()`. `screen` decides what of the answer may leave.
        """
        document = request.to_json(plan.primary.name)
        if issues := self._schemas.validate(_REQUEST_SCHEMA, document):
            found = [{"path": issue.path, "message": issue.message} for issue in issues]
            return Failure("MODEL_REQUEST_INVALID", "The request does not match its schema.", detail={"issues": found})
        negotiation = negotiation or self.negotiate(plan, request)
        if negotiation != negotiated:
            await record(negotiation.payload)
        if not negotiation.qualified:
            return negotiation.failure()
        talk = CompletionCall(
            request,
            document,
            request_hash(document),
            record,
            budget,
            cancelled,
            tenant,
            adapter,
            contents,
            outside,
            screen,
        )
        causes: list[tuple[str, Failure]] = []
        models = negotiation.qualified
        for position, config in enumerate(models, 1):
            last = position == len(models)
            outcome = await self._with_retries(config, talk, message_id, stream, causes, last=last)
            if isinstance(outcome, CompletionResponse):
                return self._checked(outcome, request)
            if outcome.failure.code in _FINAL:
                return outcome.failure
            if outcome.published and config.retry.mid_stream != "restart":
                break
            if outcome.published:
                message_id = new_id("message")
            if position < len(models):
                fallback = models[position].name
                await talk.record(_scheduled(message_id, config, 1, None, outcome.failure, fallback))
        return _provider_error(causes)

    async def _with_retries(
        self,
        config: ModelConfig,
        talk: CompletionCall,
        message_id: str,
        stream: bool,
        causes: list[tuple[str, Failure]],
        *,
        last: bool,
    ) -> CompletionResponse | AttemptFailed:
        provider = self._providers.get(config.provider)
        capabilities = self._providers.capabilities(config)
        assert provider is not None and capabilities is not None, "only models of known kinds qualify"
        prepared = prepare(talk.request, config, capabilities, stream=stream)
        if isinstance(prepared, Failure):
            causes.append((config.name, prepared))
            return AttemptFailed(prepared)
        services = self._services
        own: list[Failure] = []
        schedule = RetrySchedule(config, services.health, services.clock, self._random, last=last)
        while True:
            attempt = ModelAttempt(services, talk, prepared, provider, message_id, schedule.made + 1)
            outcome = await attempt.run()
            if isinstance(outcome, CompletionResponse):
                return outcome
            # An outage may take hundreds of attempts: the first ones and the last one tell what happened.
            own[config.retry.attempts - 1 :] = [outcome.failure]
            wait = None
            if not outcome.published or config.retry.mid_stream == "restart":
                wait = schedule.after(outcome.failure, outcome.retry_after)
            if wait is None:
                causes += [(config.name, failure) for failure in own]
                return outcome
            if outcome.published:
                message_id = new_id("message")
            await talk.record(_scheduled(message_id, config, schedule.made + 1, wait, outcome.failure))
            if (ended := await self._wait(wait, schedule, talk)) is not None:
                return AttemptFailed(ended)

    async def _wait(self, wait: Wait, schedule: RetrySchedule, talk: CompletionCall) -> Failure | None:
        """Waits outside of the run's place where that takes a while; answers why the call ends instead."""
        outside = talk.outside if wait.seconds >= _LONG_SECONDS else nullcontext
        try:
            with outside(), Deadline(self._services.alarm, talk.cancelled):
                await self._sleep(wait.seconds)
                while wait.waits_for == "breaker" and (seconds := schedule.breaker_seconds()):
                    await self._sleep(max(seconds, _SHORT_SECONDS))
        except Ended as ended:
            schedule.give_up()
            return ended.failure
        except BaseException:
            schedule.give_up()
            raise
        return None

    def _checked(self, response: CompletionResponse, request: CompletionRequest) -> CompletionResponse | Failure:
        if not response.is_plain:
            issues = self._schemas.validate(_RESPONSE_SCHEMA, response.to_json())
            assert not issues, f"we made a response that breaks its schema: {issues}"
        if request.response_schema is None or response.tool_calls:
            return response
        detail: dict[str, Any] = {"messageId": response.message_id, "text": response.text}
        try:
            value = json.loads(response.text)
        except json.JsonError:
            detail["issues"] = [{"path": "", "message": "the answer is not JSON"}]
            return Failure("MODEL_OUTPUT_INVALID", "The answer is not JSON.", detail=detail)
        try:
            validator = self._validator(request.response_schema)
        except SchemaInvalid as error:  # of a run that was accepted before schemas were bounded
            return error.failure
        if issues := validator.issues(value):
            detail["issues"] = [{"path": issue.path, "message": issue.message} for issue in issues]
            return Failure("MODEL_OUTPUT_INVALID", "The answer does not match the requested schema.", detail=detail)
        return replace(response, value=value)

    def _validator(self, schema: Any) -> Validator:
        key = json.canonical(dict(schema))
        found = self._validators.get(key)
        if found is None:
            found = self._validators[key] = Validator(schema)
        return found


def error_value(failure: Failure) -> ErrorValue:
    """A failure as it stands in events and on the wire, with its chain of causes."""
    causes = [
        ErrorValue(code=c["code"], message=f"{c['model']}: {c['message']}", retryable=c["retryable"])
        for c in failure.detail.get("causes", ())
    ]
    return ErrorValue(code=failure.code, message=failure.message, retryable=failure.retryable, causes=causes or None)


def _scheduled(
    message_id: str,
    config: ModelConfig,
    attempt: int,
    wait: Wait | None,
    failure: Failure,
    fallback: str | None = None,
) -> ModelRetryScheduled:
    return ModelRetryScheduled(
        message_id=message_id,
        model=config.name,
        provider=config.provider,
        attempt=attempt,
        delay_ms=0 if wait is None else round(wait.seconds * 1000),
        reason=failure.code,
        waits_for=None if wait is None else wait.waits_for,
        next_model=fallback,
    )


def _provider_error(causes: list[tuple[str, Failure]]) -> Failure:
    chain = [
        {"model": model, "code": cause.code, "message": cause.message, "retryable": cause.retryable}
        for model, cause in causes
    ]
    last = causes[-1][1]
    return Failure(
        "PROVIDER_ERROR",
        f"No model answered; last: {last.message}",
        any(cause.retryable for _, cause in causes),
        {"causes": chain},
    )
