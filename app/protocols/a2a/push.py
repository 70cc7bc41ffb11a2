"""Push notification configs of a task as clients set, read, list and delete them, of 1.0 and of 0.3.

Leaves to `runtime.automation`: keeping them and sending.
"""

import re
from typing import Any, Final

from app.core.errors import Failure
from app.core.json import JsonObject, present
from app.protocols.a2a.tasks import AgentDesk
from app.protocols.dialects.a2a_errors import NO_PUSH, PARAMS, TASK_NOT_FOUND, A2aError
from app.protocols.http.errors import HttpProblem
from app.views.push_config import PushConfig
from app.views.run import Run

MAX_TOKEN: Final = 1000
MAX_CREDENTIALS: Final = 4000
_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,100}")
_SCHEME: Final = re.compile(r"[A-Za-z0-9._~+-]{1,50}")
_VISIBLE: Final = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")
"""What a header can say."""


def push_wanted(params: JsonObject) -> Any:
    """The config that comes with a message, if one does."""
    configuration = params.get("configuration") or {}
    return configuration.get("taskPushNotificationConfig") or configuration.get("pushNotificationConfig")


def check_push(desk: AgentDesk, given: Any) -> None:
    """Before anything is started: whether the config can be one. Its address is checked here as well."""
    require_possible(desk)
    config = _config(desk, "run_", given, old=False)
    refused = desk.server.webhooks.refusal(desk.caller.tenant, config.url)
    if refused is not None:
        raise HttpProblem(refused)


def require_possible(desk: AgentDesk) -> None:
    if not desk.server.pushes.possible:
        raise A2aError(NO_PUSH, "This server sends no push notifications: its workspace lists no host for webhooks.")


async def set_push(desk: AgentDesk, run: Run, given: Any, *, old: bool) -> PushConfig:
    desk.require("runs:write")
    config = _config(desk, run.id, given, old=old)
    refused = await desk.server.pushes.put(desk.caller, config)
    if isinstance(refused, Failure):
        raise HttpProblem(refused)
    return config


async def perform_push(desk: AgentDesk, what: str, params: JsonObject, *, old: bool) -> Any:
    """`what` is one of set, find, list and delete. 0.3 calls the task `id`, except where it sets."""
    require_possible(desk)
    run = await desk.run(params.get("id" if old and what != "set" else "taskId"))
    if what == "set":
        given = params.get("pushNotificationConfig") if old else params
        return _shown(await set_push(desk, run, given, old=old), old=old)
    if what == "list":
        found = await desk.server.pushes.of_run(desk.caller.tenant, run.id)
        shown = [_shown(one, old=old) for one in found]
        return shown if old else {"configs": shown}
    config_id = params.get("pushNotificationConfigId" if old else "id")
    if old and what == "find" and not config_id:
        config_id = run.id  # what a config without an id is called
    if what == "delete":
        desk.require("runs:write")
    one = None
    if isinstance(config_id, str):
        one = await desk.server.pushes.find(desk.caller.tenant, run.id, config_id)
    if one is None:
        raise A2aError(TASK_NOT_FOUND, "The task has no such push notification config.")
    if what == "find":
        return _shown(one, old=old)
    await desk.server.pushes.delete(desk.caller, one)
    return None if old else {}


def _config(desk: AgentDesk, run_id: str, given: Any, *, old: bool) -> PushConfig:
    """A config without an id has that of its task, so that a message that is sent again makes no second one."""
    if not isinstance(given, dict):
        raise A2aError(PARAMS, "The push notification config must be an object.")
    url = given.get("url")
    if not isinstance(url, str) or not url:
        raise A2aError(PARAMS, "The push notification config has no url.")
    scheme, credentials = _authentication(given.get("authentication"))
    return PushConfig(
        run_id,
        _text(given, "id", _ID, 100) or run_id,
        url,
        token=_text(given, "token", _VISIBLE, MAX_TOKEN),
        scheme=scheme,
        credentials=credentials,
        base_url=desk.base_url,
        old=old,
    )


def _authentication(given: Any) -> tuple[str | None, str | None]:
    if not given:
        return None, None
    if not isinstance(given, dict):
        raise A2aError(PARAMS, "authentication must be an object.")
    schemes = given.get("schemes")
    if "scheme" not in given and isinstance(schemes, list) and schemes:  # of 0.3, which offers several
        given = {**given, "scheme": schemes[0]}
    return _text(given, "scheme", _SCHEME, 50), _text(given, "credentials", _VISIBLE, MAX_CREDENTIALS)


def _text(given: JsonObject, name: str, pattern: re.Pattern[str], length: int) -> str | None:
    found = given.get(name)
    if found is None or found == "":
        return None
    if not isinstance(found, str) or len(found) > length or not pattern.fullmatch(found):
        raise A2aError(PARAMS, f"{name} must be a text of at most {length} characters that a header or an id can have.")
    return found


def _shown(config: PushConfig, *, old: bool) -> JsonObject:
    """Without token and credentials: they are given, and shown to nobody."""
    if old:
        authentication: JsonObject | None = {"schemes": [config.scheme]} if config.scheme else None
        inner = present({"id": config.id, "url": config.url, "authentication": authentication})
        return {"taskId": config.run_id, "pushNotificationConfig": inner}
    authentication = {"scheme": config.scheme} if config.scheme else None
    ids = {"id": config.id, "taskId": config.run_id}
    return {**ids, **present({"url": config.url, "authentication": authentication})}
