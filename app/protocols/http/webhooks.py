"""/api/webhooks: create, change and delete webhooks, and what was sent to them. A secret is in one answer only."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Response
from fastapi import Request as HttpRequest
from pydantic import AfterValidator, Field

from app.core.errors import Failure
from app.events.webhook_types import WEBHOOK_EVENTS, matches_nothing
from app.protocols.context import ServerContext
from app.protocols.http.answers import json_answer, page_answer
from app.protocols.http.body import read_model
from app.protocols.http.caller import Caller
from app.protocols.http.deferred_route import DeferredRoute
from app.protocols.http.documents import may_answer, takes
from app.protocols.http.errors import HttpProblem
from app.protocols.http.late_shapes import shapes
from app.protocols.http.parameters import Limit
from app.protocols.http.request_fields import Labels
from app.protocols.http.submission import Request
from app.views.webhook import delivery_json, webhook_json


def _sent(pattern: str) -> str:
    if matches_nothing(pattern):
        raise ValueError(f"webhooks are not sent events of this type; there are {WEBHOOK_EVENTS}")
    return pattern


_Pattern = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[A-Za-z0-9_.*?]+$"), AfterValidator(_sent)]
_Events = Annotated[list[_Pattern], Field(max_length=50, description="types, or patterns such as `runtime.job.*`")]
_Agents = Annotated[list[Annotated[str, Field(max_length=200)]], Field(max_length=100)]
_Url = Annotated[str, Field(min_length=1, max_length=2000)]
_LAST = 2**62


class CreateWebhook(Request):
    """Where to send which events."""

    url: _Url
    events: _Events = Field(default_factory=list)
    agents: _Agents = Field(default_factory=list, description="only of runs of these agents")
    labels: Labels = Field(default_factory=dict, description="only of runs that have all of these labels")
    description: str | None = Field(None, max_length=1000)


class ChangeWebhook(Request):
    """What is to change; fields that are left out stay."""

    url: _Url | None = None
    events: _Events | None = None
    agents: _Agents | None = None
    labels: Labels | None = None
    description: str | None = Field(None, max_length=1000)
    enabled: bool | None = None


class Redeliver(Request):
    """Which delivery; without one, every dead one."""

    delivery_id: Annotated[str, Field(pattern=r"^[0-9]{1,18}$")] | None = None


def _ok(answer: Any) -> Any:
    if isinstance(answer, Failure):
        raise HttpProblem(answer)
    return answer


def routes(server: ServerContext) -> APIRouter:
    router = APIRouter(route_class=DeferredRoute, prefix="/api/webhooks", tags=["webhooks"])
    _add_managing(router, server)
    _add_deliveries(router, server)
    return router


def _add_managing(router: APIRouter, server: ServerContext) -> None:
    desk = server.webhooks

    @router.post(
        "",
        status_code=201,
        response_model=shapes.NewWebhookShape,
        summary="Create a webhook",
        openapi_extra=takes(CreateWebhook),
        responses=may_answer("WEBHOOK_ADDRESS_REFUSED", "WEBHOOK_LIMIT", "STORAGE_FULL"),
    )
    async def create(request: HttpRequest, caller: Caller) -> Response:
        """The secret that signs its deliveries is in this answer and in no other."""
        body, _ = await read_model(request, CreateWebhook)
        webhook, secret = _ok(await desk.create(caller, body.model_dump()))
        return json_answer({**webhook_json(webhook), "secret": secret}, 201)

    @router.get("", response_model=shapes.WebhookPage, summary="The webhooks of the tenant")
    async def list_webhooks(caller: Caller) -> Response:
        return page_answer([webhook_json(one) for one in await desk.of_tenant(caller.tenant)])

    @router.get(
        "/{webhook_id}",
        response_model=shapes.WebhookShape,
        summary="One webhook",
        responses=may_answer("WEBHOOK_NOT_FOUND"),
    )
    async def show(webhook_id: str, caller: Caller) -> Response:
        found = await desk.find(caller.tenant, webhook_id)
        if found is None:
            raise HttpProblem(Failure("WEBHOOK_NOT_FOUND", "There is no such webhook."))
        return json_answer(webhook_json(found[0]))

    @router.patch(
        "/{webhook_id}",
        response_model=shapes.WebhookShape,
        summary="Change a webhook, enable or disable it",
        openapi_extra=takes(ChangeWebhook),
        responses=may_answer(
            "WEBHOOK_NOT_FOUND", "WEBHOOK_ADDRESS_REFUSED", "WEBHOOK_DECLARED", "WEBHOOK_OF_RUNS", "STORAGE_FULL"
        ),
    )
    async def change(webhook_id: str, request: HttpRequest, caller: Caller) -> Response:
        body, _ = await read_model(request, ChangeWebhook)
        changed = _ok(await desk.change(caller, webhook_id, body.model_dump(exclude_none=True)))
        return json_answer(webhook_json(changed))

    @router.delete(
        "/{webhook_id}",
        status_code=204,
        summary="Delete a webhook and its deliveries",
        responses=may_answer("WEBHOOK_NOT_FOUND", "WEBHOOK_DECLARED", "WEBHOOK_OF_RUNS", "STORAGE_FULL"),
    )
    async def delete(webhook_id: str, caller: Caller) -> Response:
        _ok(await desk.delete(caller, webhook_id))
        return Response(status_code=204)

    @router.post(
        "/{webhook_id}/rotate-secret",
        response_model=shapes.NewWebhookShape,
        summary="Give a webhook a new secret",
        responses=may_answer("WEBHOOK_NOT_FOUND", "WEBHOOK_DECLARED", "STORAGE_FULL"),
    )
    async def rotate_secret(webhook_id: str, caller: Caller) -> Response:
        """For a day the former one signs as well. `_runs` has the secret for the URLs that runs name."""
        webhook, secret = _ok(await desk.rotate(caller, webhook_id))
        return json_answer({**webhook_json(webhook), "secret": secret})


def _add_deliveries(router: APIRouter, server: ServerContext) -> None:
    desk = server.webhooks

    @router.get(
        "/{webhook_id}/deliveries",
        response_model=shapes.DeliveryPage,
        summary="What was sent to the webhook, or is to be, newest first",
        responses=may_answer("WEBHOOK_NOT_FOUND"),
    )
    async def deliveries(
        webhook_id: str,
        caller: Caller,
        status: Annotated[Literal["pending", "delivered", "dead"] | None, Query()] = None,
        after: Annotated[str, Query(pattern=r"^[0-9]{0,18}$")] = "",
        limit: Limit = 100,
    ) -> Response:
        before = int(after) if after else _LAST
        found = _ok(await desk.deliveries(caller.tenant, webhook_id, status, before, limit))
        return page_answer([delivery_json(one) for one in found], found[-1].id if len(found) == limit else None)

    @router.post(
        "/{webhook_id}/redeliver",
        status_code=202,
        response_model=shapes.Redelivered,
        summary="Send a delivery that has ended again, or every dead one",
        openapi_extra=takes(Redeliver),
        responses=may_answer("WEBHOOK_NOT_FOUND", "DELIVERY_NOT_FOUND", "STORAGE_FULL"),
    )
    async def redeliver(webhook_id: str, request: HttpRequest, caller: Caller) -> Response:
        body, _ = await read_model(request, Redeliver)
        one = None if body.delivery_id is None else int(body.delivery_id)
        return json_answer({"count": _ok(await desk.redeliver(caller.tenant, webhook_id, one))}, 202)
