"""A completion from whichever model of the plan can give one: negotiate, try, retry, fall back, give up with
causes.

Leaves to `attempt`: a single try; to the kinds: talking to a provider; to the caller: what to do with the
answer. Every step is an event before it is visible, and a domain failure is a value, so a caller need not
catch anything.
"""

from collections import OrderedDict
from dataclasses import replace
from typing import Any, Final

from app.core import json
from app.core.clock import Clock
from app.core.errors import Failure
from app.core.ids import new_id
from app.core.principal import DEFAULT_TENANT
from app.core.schemas import SchemaInvalid, SchemaRegistry, Validator
from app.events.catalog.model import ModelRetryScheduled
from app.events.catalog.values import ErrorValue
from app.models.attempt import Attempt, Broken, Conversation, Services
from app.models.completion import CompletionRequest, CompletionResponse, request_hash
from app.models.config import ModelConfig
from app.models.contract import Budget, ContentPolicy, Record, Signal, Sleep
from app.models.deadline import Deadline, Ended
from app.models.limits import Limiter
from app.models.negotiate import ModelPlan, Negotiation, negotiate
from app.models.prepare import prepare
from app.models.registry import Providers
from app.models.reliability import Health, Random, backoff

_REQUEST_SCHEMA: Final = "completion_request_v1"
_RESPONSE_SCHEMA: Final = "completion_response_v1"
# Failures that no other model can mend: they end the call as they are.
_FINAL: Final = frozenset({"MODEL_CANCELLED", "BUDGET_EXCEEDED"})
_MAX_VALIDATORS: Final = 256


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
    ) -> None:
        self._providers = providers
        self._schemas = schemas
        self._random = random
        self._sleep = sleep
        self._services = Services(clock, limiter or Limiter(clock), Health(clock))
        self._validators: OrderedDict[bytes, Validator] = OrderedDict()

    @property
    def health(self) -> Health:
        return self._services.health

    def negotiate(self, plan: ModelPlan, request: CompletionRequest) -> Negotiation:
        known = self._providers.capabilities if request.tool_choice is None else self._providers.all_capabilities
        return negotiate(plan, request, known)

    async def complete(
        self,
        plan: ModelPlan,
        request: CompletionRequest,
        *,
        record: Record,
        message_id: str,
        budget: Budget | None = None,
        cancelled: Signal | None = None,
        tenant: str = DEFAULT_TENANT,
        adapter: str = "native",
        contents: ContentPolicy = ContentPolicy(),
        negotiated: Negotiation | None = None,
        negotiation: Negotiation | None = None,
        stream: bool = True,
    ) -> CompletionResponse | Failure:
        """The answer, or why there is none. `negotiated` is the last outcome: only a new one is recorded.

        `negotiation` is the one of this plan and request, for a caller that has it already.
        """
        document = request.to_json(plan.primary.name)
        if issues := self._schemas.validate(_REQUEST_SCHEMA, document):
            found = [{"path": issue.path, "message": issue.message} for issue in issues]
            return Failure("MODEL_REQUEST_INVALID", "the request breaks its schema", detail={"issues": found})
        negotiation = negotiation or self.negotiate(plan, request)
        if negotiation != negotiated:
            await record(negotiation.payload)
        if not negotiation.qualified:
            return negotiation.failure()
        talk = Conversation(
            request, document, request_hash(document), record, budget, cancelled, tenant, adapter, contents
        )
        outcome = await self._through(negotiation.qualified, talk, message_id, stream)
        return outcome if isinstance(outcome, Failure) else self._checked(outcome, request)

    async def _through(
        self, models: tuple[ModelConfig, ...], talk: Conversation, message_id: str, stream: bool
    ) -> CompletionResponse | Failure:
        causes: list[tuple[str, Failure]] = []
        for position, config in enumerate(models, 1):
            outcome = await self._with_retries(config, talk, message_id, stream, causes)
            if isinstance(outcome, CompletionResponse):
                return outcome
            if outcome.failure.code in _FINAL:
                return outcome.failure
            if outcome.published and config.retry.mid_stream != "restart":
                break
            if outcome.published:
                message_id = new_id("message")
            if position < len(models):
                fallback = models[position].name
                await talk.record(_scheduled(message_id, config, 0, 0.0, outcome.failure, fallback))
        return _provider_error(causes)

    async def _with_retries(
        self,
        config: ModelConfig,
        talk: Conversation,
        message_id: str,
        stream: bool,
        causes: list[tuple[str, Failure]],
    ) -> CompletionResponse | Broken:
        provider = self._providers.get(config.provider)
        capabilities = self._providers.capabilities(config)
        assert provider is not None and capabilities is not None, "only models of known kinds qualify"
        prepared = prepare(talk.request, config, capabilities, stream=stream)
        if isinstance(prepared, Failure):
            causes.append((config.name, prepared))
            return Broken(prepared)
        attempt = 1
        while True:
            outcome = await Attempt(self._services, talk, prepared, provider, message_id, attempt).run()
            if isinstance(outcome, CompletionResponse):
                return outcome
            causes.append((config.name, outcome.failure))
            delay = self._delay(config, attempt, outcome)
            if delay is None:
                return outcome
            if outcome.published:
                message_id = new_id("message")
            attempt += 1
            await talk.record(_scheduled(message_id, config, attempt, delay, outcome.failure))
            if (ended := await self._pause(delay, talk.cancelled)) is not None:
                return Broken(ended)

    def _delay(self, config: ModelConfig, attempt: int, outcome: Broken) -> float | None:
        """Seconds until the same model is tried again, None when it is not."""
        failure, policy = outcome.failure, config.retry
        if not failure.retryable or failure.code in ("PROVIDER_CIRCUIT_OPEN", "MODEL_QUEUE_FULL"):
            return None
        if attempt >= policy.attempts or (outcome.published and policy.mid_stream != "restart"):
            return None
        delay = backoff(policy, attempt, outcome.retry_after, self._random)
        return delay if delay is not None and self._services.health.may_retry(config) else None

    async def _pause(self, delay: float, cancelled: Signal | None) -> Failure | None:
        try:
            with Deadline(cancelled):
                await self._sleep(delay)
        except Ended as ended:
            return ended.failure
        return None

    def _checked(self, response: CompletionResponse, request: CompletionRequest) -> CompletionResponse | Failure:
        issues = self._schemas.validate(_RESPONSE_SCHEMA, response.to_json())
        assert not issues, f"we made a response that breaks its schema: {issues}"
        if request.response_schema is None or response.tool_calls:
            return response
        detail: dict[str, Any] = {"messageId": response.message_id, "text": response.text}
        try:
            value = json.loads(response.text)
        except json.JsonError:
            detail["issues"] = [{"path": "", "message": "the answer is not JSON"}]
            return Failure("MODEL_OUTPUT_INVALID", "the answer is not JSON", detail=detail)
        try:
            validator = self._validator(request.response_schema)
        except SchemaInvalid as error:  # of a run that was accepted before schemas were bounded
            return error.failure
        if issues := validator.issues(value):
            detail["issues"] = [{"path": issue.path, "message": issue.message} for issue in issues]
            return Failure("MODEL_OUTPUT_INVALID", "the answer breaks the requested schema", detail=detail)
        return replace(response, value=value)

    def _validator(self, schema: Any) -> Validator:
        key = json.canonical(dict(schema))
        found = self._validators.pop(key, None) or Validator(schema)
        self._validators[key] = found
        if len(self._validators) > _MAX_VALIDATORS:
            self._validators.popitem(last=False)
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
    delay: float,
    failure: Failure,
    fallback: str | None = None,
) -> ModelRetryScheduled:
    return ModelRetryScheduled(
        message_id=message_id,
        model=config.name,
        provider=config.provider,
        attempt=attempt or 1,
        delay_ms=round(delay * 1000),
        reason=failure.code,
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
        f"no model answered; last: {last.message}",
        any(cause.retryable for _, cause in causes),
        {"causes": chain},
    )
