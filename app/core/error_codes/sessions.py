"""Codes of projects and of what a session's controls forbid."""

from typing import Final

from app.core.error_codes.code import Code

CODES: Final[dict[str, Code]] = {
    "PROJECT_NOT_FOUND": Code("There is no such project.", "Check the id; `GET /api/projects` lists them."),
    "PROJECT_EXISTS": Code(
        "A project of the tenant has this name already.", "Choose another name, or use that project."
    ),
    "SESSION_HAS_NO_CONTEXT": Code(
        "Nothing was said in the session yet, so nothing can be suggested.", "Send a message first, or give a draft."
    ),
    "SESSION_CONTROL_DENIED": Code(
        "The session's controls or settings do not allow what a tool call would do.",
        "If the call is wanted, change `networkAccess`, `filesystemSandbox`, `cwd` or the settings `allowedTools` and "
        "`deniedTools`; they can only narrow what the workspace allows.",
    ),
}
