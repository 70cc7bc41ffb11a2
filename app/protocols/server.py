"""The web application: every route of every protocol, put together."""

from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute
from starlette.types import ASGIApp

from app import __version__
from app.core.metrics import Metrics
from app.protocols.a2a import routes as a2a
from app.protocols.agui import routes as agui
from app.protocols.auth.permissions import guard
from app.protocols.console import route as console
from app.protocols.context import ServerContext, Standby
from app.protocols.edge.cancels import cancels_of
from app.protocols.edge.gate import RequestGate
from app.protocols.edge.limits import InFlight, Rates
from app.protocols.edge.origins import Origins
from app.protocols.edge.request_meter import RequestMeter
from app.protocols.edge.shortcut import Shortcut
from app.protocols.edge.standby_reads import StandbyReads
from app.protocols.http import (
    artifacts,
    datasets,
    digests,
    docs,
    doctor,
    errors,
    evals,
    evidence,
    files,
    health,
    home,
    interrupts,
    jobs,
    judgements,
    keys,
    ledger,
    mcp_servers,
    memory,
    metrics,
    run_views,
    runs,
    schedules,
    sign_in,
    skills,
    stats,
    strictness,
    thread_views,
    threads,
    todos,
    tools,
    ui,
    undo,
    verification,
    webhooks,
    workflows,
    workspace,
)
from app.protocols.http.caller import authorise
from app.protocols.http.straight import straight_handlers
from app.protocols.langgraph import routes as langgraph
from app.protocols.mcp import routes as mcp
from app.protocols.openai import routes as openai
from app.protocols.sessions import (
    capabilities,
    controls,
    discovery,
    entry,
    extensions,
    projects,
    requests,
    rewinding,
    sessions,
    turns,
)
from app.protocols.sessions import (
    jobs as session_jobs,
)
from app.protocols.stream import route as stream


def create_app(server: ServerContext) -> FastAPI:
    """Without the gate nobody is let in: the routes deny whoever it has not named."""
    app = FastAPI(
        title="Holdfast",
        version=__version__,
        summary="Runs AI agents for other programs and never loses an event.",
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
    )
    errors.install(app)
    for module in _ROUTES:
        _add(app, module.routes(server).routes)
    _add(app, home.routes().routes)
    _add(app, console.routes().routes)
    _add(app, docs.routes(lambda: _document(app)).routes)
    guard(app.routes, authorise)
    strictness.mark(app.routes)
    return app


def _document(app: FastAPI) -> dict[str, Any]:
    """With it come the shapes of all answers, which nothing else needs."""
    from app.protocols.openapi import document

    return document(app)


def create_edge(server: ServerContext, app: FastAPI) -> ASGIApp:
    """The application behind its gate: what the web server serves."""
    settings, watch = server.settings, server.metrics.watch
    server.interrupts.denied = server.access.denials.count
    rates = Rates(settings.rate_per_key, server.clock)
    server.share_rates(rates)
    in_flight = InFlight(settings.max_requests, settings.max_requests_per_tenant)
    origins = Origins(settings.hosts, settings.origins)
    meter = RequestMeter(server.metrics, access_log=settings.access_log, log_level=settings.log_level)
    cancels = cancels_of(
        app.routes, settings.rate_per_key, settings.max_requests, settings.max_requests_per_tenant, server.clock
    )
    served: ASGIApp = Shortcut(app, straight_handlers(app.routes))
    gate = RequestGate(
        served if server.standby is None else StandbyReads(served, server.standby),
        server.access,
        origins,
        rates,
        in_flight,
        settings.max_sockets,
        settings.max_upload_bytes,
        cancels,
        meter,
    )
    gate.public_suffix = a2a.CARD if settings.a2a_public_card else None
    watch("requests_in_flight", "Requests being served.", lambda: in_flight.total)
    watch("callers_metered", "Callers whose rate is remembered.", lambda: len(rates))
    watch("sockets", "Open websockets.", lambda: gate.sockets)
    watch("keys_remembered", "Keys that were looked up a moment ago.", lambda: server.access.keys_remembered)
    watch("tokens_remembered", "Tokens whose signature was checked.", lambda: server.access.tokens_remembered)
    watch("denials_counted", "Denied names that are not in the ledger yet.", lambda: len(server.access.denials))
    if server.standby is not None:
        _watch_standby(server.metrics, server.standby)
    return gate


def _watch_standby(metrics: Metrics, standby: Standby) -> None:
    metrics.watch(
        "standby_staleness_seconds", "How far the standby is behind, at most.", lambda: standby.staleness_seconds
    )
    metrics.watch_total("standby_reads", "Queries that the standby answered.", lambda: standby.served)
    metrics.watch_total(
        "standby_refusals", "Queries that the standby could not answer; the primary did.", lambda: standby.refused
    )


def _add(app: FastAPI, routes: Sequence[BaseRoute]) -> None:
    """The routes themselves rather than a router around them: each layer would cost every request its way through."""
    for route in routes:
        if isinstance(route, APIRoute):
            route.operation_id = route.operation_id or _operation_id(route)
        app.router.routes.append(route)


def _operation_id(route: APIRoute) -> str:
    """What generated clients call their methods: `runs_cancel`, `threads_fork`."""
    return "_".join([*map(str, route.tags[:1]), route.name]).replace(" ", "_")


# Looked through from the first on, so the ones that are asked most stand there.
_ROUTES = (
    openai,
    runs,
    health,
    metrics,
    run_views,
    undo,
    jobs,
    todos,
    threads,
    thread_views,
    verification,
    interrupts,
    tools,
    artifacts,
    files,
    extensions,  # before an agent's name could be read there
    workspace,
    digests,
    workflows,
    keys,
    ledger,
    doctor,
    sign_in,
    stats,
    webhooks,
    mcp_servers,
    schedules,
    memory,
    skills,
    ui,
    evidence,
    judgements,
    datasets,
    evals,
    sessions,
    turns,
    controls,
    requests,
    rewinding,
    session_jobs,
    capabilities,
    projects,
    discovery,
    entry,
    stream,
    langgraph,
    mcp,
    agui,
    a2a,
)
