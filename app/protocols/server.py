"""The web application: every route of every protocol, put together."""

from fastapi import Depends, FastAPI

from app import __version__
from app.protocols.context import Server
from app.protocols.http import body, errors, health, interrupts, metrics, runs, threads, workspace
from app.protocols.stream import route as stream


def create_app(server: Server) -> FastAPI:
    app = FastAPI(
        title="Holdfast", version=__version__, docs_url=None, redoc_url=None, dependencies=[Depends(body.refuse_nul)]
    )
    errors.install(app)
    for module in (health, metrics, runs, threads, interrupts, workspace, stream):
        app.include_router(module.routes(server))
    return app
