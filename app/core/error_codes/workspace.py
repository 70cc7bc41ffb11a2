"""What can go wrong with a workspace, and with reaching out from it."""

from typing import Final

from app.core.error_codes.code import Code

CODES: Final[dict[str, Code]] = {
    # -- workspace ---------------------------------------------------------------------------------
    "WORKSPACE_INVALID": Code(
        "The workspace has mistakes and was not loaded.",
        "Run `holdfast check`. It reports file, line and remedy of each mistake.",
    ),
    "WORKSPACE_UNAVAILABLE": Code(
        "Another server of the installation loaded a workspace that this server cannot load, so it takes no new runs.",
        "Send the request to another server. Deploy the same packages and settings to every server.",
    ),
    "WORKSPACE_NOT_LOADED": Code(
        "No workspace has been loaded yet.",
        "Wait until the server has started, or correct what `holdfast check` reports.",
    ),
    "EXPRESSION_INVALID": Code(
        "A CEL expression does not compile to a boolean.", "Correct it at the named position; it must be a bool."
    ),
    "EXPRESSION_FAILED": Code(
        "A CEL expression could not be evaluated on these values.",
        "Test optional fields with has(...) and compare values of one type.",
    ),
    "EXPRESSION_TOO_COSTLY": Code(
        "A CEL expression needs more work than the limit allows.",
        "Send less data, or rewrite the expression without nested loops over lists.",
    ),
    "SECRET_MISSING": Code(
        "An environment variable to which the workspace refers is not set.", "Set it in the server's environment."
    ),
    "TEMPLATE_VALUE_MISSING": Code(
        "A template refers to a value that does not exist.", "Send the argument, or give it a default in the schema."
    ),
    # -- outside -----------------------------------------------------------------------------------
    "ADDRESS_REFUSED": Code(
        "An outgoing request to this address is not allowed.",
        "Use a public http(s) address. To allow an internal server, list its host in `outgoing.private` of the "
        "Runtime, and in `outgoing.hosts` if the Runtime has that list (docs/workspace.md, Internal hosts).",
    ),
    "REDIRECT_REFUSED": Code(
        "An outgoing request was redirected to an address that is not allowed.", "Use the final address directly."
    ),
    "OUTSIDE_UNREACHABLE": Code(
        "The connection to a remote host failed.", "Check the address and that the host is running, then try again."
    ),
    "OUTSIDE_TIMEOUT": Code("A remote host did not respond in time.", "Try again, or raise the timeout."),
    "OUTSIDE_CUT_OFF": Code("A remote host closed the connection early.", "Try again, or check the remote host's log."),
    "OUTSIDE_TOO_LARGE": Code(
        "The response of a remote host is larger than the limit.", "Request less data, or raise the limit."
    ),
    "OUTSIDE_UNSENDABLE": Code(
        "An outgoing request has a method, path or header that is not valid in HTTP.",
        "Look for a line break or a control character, often at the end of an API key.",
    ),
}
