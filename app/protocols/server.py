"""The web application: every route of every protocol, put together."""

from fastapi import Depends, FastAPI
from fastapi.routing import APIRoute

from app import __version__
from app.protocols.context import Server
from app.protocols.http import (
    artifacts,
    body,
    docs,
    documents,
    errors,
    health,
    interrupts,
    metrics,
    run_views,
    runs,
    thread_views,
    threads,
    tools,
    workspace,
)
from app.protocols.openai import routes as openai
from app.protocols.stream import route as stream


def create_app(server: Server) -> FastAPI:
    app = FastAPI(
        title="Holdfast",
        version=__version__,
        summary="Runs AI agents for other programs and never loses an event.",
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        generate_unique_id_function=_operation_id,
        dependencies=[Depends(body.refuse_nul)],
    )
    errors.install(app)
    for module in _ROUTES:
        app.include_router(module.routes(server))
    app.include_router(docs.routes(lambda: documents.document(app)))
    return app


def _operation_id(route: APIRoute) -> str:
    """What generated clients call their methods: `runs_cancel`, `threads_fork`."""
    return "_".join([*map(str, route.tags[:1]), route.name]).replace(" ", "_")


_ROUTES = (
    health, metrics, runs, run_views, threads, thread_views, interrupts, tools, artifacts, workspace, stream,
    openai,
)  # fmt: skip
