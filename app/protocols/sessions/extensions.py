"""/api/agents/extensions: which extensions are loaded, and loading them again."""

from typing import Any

from fastapi import APIRouter, Request, Response

from app.core.clock import iso
from app.extensions.loader import Extension
from app.extensions.manifest import CORE_API, MANIFEST, PROFILE, PROFILE_VERSION
from app.protocols.context import ServerContext
from app.protocols.http.answers import json_answer
from app.protocols.http.caller import Caller
from app.protocols.sessions.late_shapes import extension_shapes as shapes
from app.protocols.sessions.route import SessionRefused, SessionRoute


def routes(server: ServerContext) -> APIRouter:
    router = APIRouter(prefix="/api/agents/extensions", tags=["extensions"], route_class=SessionRoute)

    @router.get("", response_model=shapes.ExtensionList, summary="The extensions in use")
    async def list_extensions(_caller: Caller) -> Response:
        snapshot = server.extensions.snapshot
        suspended = {name for name, _ in server.extensions.suspended}
        failed = [
            {"extension": one.extension, "code": one.code, "message": one.message} for one in server.extensions.errors
        ]
        return json_answer(
            {
                "status": "ok",
                "snapshotVersion": snapshot.version,
                "loadedAt": iso(snapshot.loaded_at),
                "modules": [_module(one, one.id in suspended) for one in snapshot.extensions],
                "errors": failed,
            }
        )

    @router.post(
        "/reload",
        response_model=shapes.ExtensionsReloadedAnswer,
        summary="Load the extensions again: all of them, or none",
        responses={
            400: {"model": shapes.ReloadFailed, "description": "`reload_failed`: the old set stays in use"},
            409: {"model": shapes.ReloadBusy, "description": "`reload_in_progress`"},
        },
    )
    async def reload_extensions(request: Request, caller: Caller) -> Response:
        """Recorded in the ledger with who asked for it."""
        done = await server.extensions.reload(caller, _origin(request))
        if done is None:
            message = "another reload is under way"
            raise SessionRefused(409, {"status": "error", "code": "reload_in_progress", "message": message})
        values = {"reloadId": done.id, "snapshotVersion": done.snapshot.version}
        if done.errors:
            errors = [{"extension": one.extension, "code": one.code, "message": one.message} for one in done.errors]
            message = "at least one extension could not be loaded; the old set stays in use"
            raise SessionRefused(
                400, {"status": "error", "code": "reload_failed", "message": message, **values, "errors": errors}
            )
        modules = [
            {"name": one.found.manifest.name, "version": one.found.manifest.version, "agentId": one.id,
             "events": _events(one)}
            for one in done.snapshot.extensions
        ]  # fmt: skip
        counts = {"loadedCount": len(modules), "failedCount": 0, "loadedAt": iso(done.snapshot.loaded_at)}
        return json_answer({"status": "ok", **values, **counts, "modules": modules})

    return router


def _origin(request: Request) -> dict[str, str]:
    found = {"userAgent": request.headers.get("user-agent", "")[:200]}
    if request.client is not None:
        found["ip"] = request.client.host
    return found


def _events(one: Extension) -> list[str]:
    return sorted({handler.event_type for handler in one.handlers})


def _module(one: Extension, suspended: bool) -> dict[str, Any]:
    manifest, declared = one.found.manifest, one.found.manifest.capabilities
    runs = "in the server" if one.in_process else "in the sandbox"
    diagnostics = [f"runs {runs}", f"digest {one.found.digest}"]
    diagnostics += ["a handler took too long too often and is suspended until the next reload"] if suspended else []
    return {
        "moduleName": one.module,
        "name": manifest.name,
        "version": manifest.version,
        "agentId": one.id,
        "displayName": manifest.display_name,
        "manifestPath": f"extensions/{one.module}/{MANIFEST}",
        "entrypointPath": f"extensions/{one.module}/{manifest.entrypoints.events}",
        "events": _events(one),
        "origin": {"type": one.found.origin, "path": one.module},
        "compatibility": {
            "apiVersion": manifest.runtime.core_api_version,
            "apiVersionRange": manifest.runtime.core_api_version_range,
            "runtimeVersion": str(CORE_API),
            "profileId": PROFILE,
            "profileVersion": PROFILE_VERSION,
            "compatible": True,
            "reasons": [],
        },
        "capabilities": {
            "events": list(declared.events) if declared is not None else [],
            "actions": list(declared.actions) if declared is not None else [],
        },
        "trust": {
            "mode": one.mode,
            "status": "accepted_with_warnings" if one.warnings else "accepted",
            "warnings": list(one.warnings),
            "errors": [],
        },
        "diagnostics": diagnostics,
    }
