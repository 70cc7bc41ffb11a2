"""What can be wrong with a request: its text, its caller, its address, its place in a queue."""

from typing import Final

from app.core.error_codes.code import Code

CODES: Final[dict[str, Code]] = {
    # -- input -------------------------------------------------------------------------------------
    "JSON_INVALID": Code(
        "The text is not JSON.",
        "Send one JSON document in UTF-8, without NaN, infinities or lone surrogates.",
    ),
    "JSON_DUPLICATE_KEY": Code("An object contains the same key twice.", "Send each key once."),
    "JSON_NUMBER_RANGE": Code("An integer does not fit in 64 bits.", "Send such numbers as strings."),
    "JSON_NUL": Code("A string contains the NUL character.", "Remove it, or send the bytes as a file."),
    "JSON_TOO_DEEP": Code("Values are nested too deeply.", "Flatten the document; the limit is 32 levels."),
    "JSON_TOO_MANY_VALUES": Code(
        "The document has too many values.",
        "Send at most 100,000 values in one body, or upload the data as a file and refer to it.",
    ),
    "JSON_UNENCODABLE": Code(
        "A value cannot be written as JSON.", "Use only strings, 64-bit numbers, booleans, lists and objects."
    ),
    "INVALID_REQUEST": Code("A field of the request is missing or invalid.", "Correct the fields that `issues` lists."),
    "UNKNOWN_PARAMETER": Code(
        "The URL has a parameter that this route does not accept.",
        "Correct the parameters that `issues` lists; it suggests the nearest name.",
    ),
    "BODY_TOO_LARGE": Code(
        "The body is larger than the limit.", "Send a smaller body, or upload a file and refer to it."
    ),
    "RANGE_NOT_SATISFIABLE": Code(
        "The range begins after the end of the content.", "Request a range within the size that `Content-Range` gives."
    ),
    "NOT_FOUND": Code("The caller's tenant has nothing with this id.", "Check the id and the key that was used."),
    "METHOD_NOT_ALLOWED": Code("The path does not support this method.", "See /docs for the methods of each path."),
    "THREAD_DELETED": Code("The thread was deleted.", "Start a new thread; deletion cannot be undone."),
    "THREAD_CLOSED": Code("The thread was closed and accepts no new runs.", "Start a new thread or fork this one."),
    "THREAD_RESERVED": Code("The thread belongs to the system.", "Use a thread whose id does not begin with `sys_`."),
    "THREAD_EXISTS": Code("A thread with this id already exists.", "Use it, or choose another id."),
    # -- http --------------------------------------------------------------------------------------
    "READER_TOO_SLOW": Code("The client reads the stream too slowly.", "Reconnect with the last `seq` as the cursor."),
    "CURSOR_INVALID": Code("The cursor does not come from this list.", "Send `nextCursor` unchanged, or no cursor."),
    "VIEW_TOO_LARGE": Code(
        "The run or thread has too many events to compute this view.",
        "Read its events page by page, or export the thread.",
    ),
    "ARTIFACT_NOT_FOUND": Code("There is no such artifact.", "See the artifacts of the run for the ids."),
    "ARTIFACT_HAS_NO_CONTENT": Code(
        "The artifact is a reference; its content is not stored on this server.", "Follow the reference in its fields."
    ),
    "ARTIFACT_HAS_NO_DIFF": Code(
        "The artifact has no earlier version, or one of the two is not a text of at most 1 MiB.",
        "Fetch both contents and compare them yourself, or name another artifact with `against`.",
    ),
    "UPLOAD_NOT_FOUND": Code("There is no such uploaded file.", "Check the id, or upload the file again."),
    "UPLOAD_DELETED": Code("The uploaded file was deleted.", "Upload it again."),
    "UPLOAD_INVALID": Code(
        "The upload cannot be read.", "Send the bytes as the body, or one file as multipart/form-data."
    ),
    # -- access ------------------------------------------------------------------------------------
    "UNAUTHENTICATED": Code(
        "The request has no valid credentials.",
        "Send `Authorization: Bearer <key>` with a key that is neither revoked nor expired.",
    ),
    "CSRF_TOKEN_INVALID": Code(
        "A browser session changed something without its CSRF token.",
        "Send the `csrfToken` of GET /api/me in the header `X-CSRF-Token`, or use a key instead of the cookie.",
    ),
    "SIGN_IN_REFUSED": Code(
        "These credentials cannot open a browser session.",
        "Sign in with an API key; the token that is printed at the first start only creates the first key.",
    ),
    "FORBIDDEN": Code("The caller does not have the required permission.", "Use a key with the scope in `needs`."),
    "MEMORY_NOT_FOUND": Code(
        "There is no such memory record, or its text was forgotten.", "See GET /api/memory/records for the ids."
    ),
    "MEMORY_RECORD_EXISTS": Code("There is a memory record with that id already.", "Change it, or leave the id out."),
    "MEMORY_RECORD_CHANGED": Code(
        "The memory record was decided, superseded or forgotten meanwhile.", "Read the record again before you act."
    ),
    "MEMORY_NOT_DECLARED": Code(
        "The workspace has no such memory.", "Name a Memory document of the workspace; GET /api/memory lists them."
    ),
    "MEMORY_NOT_AVAILABLE": Code(
        "The caller has no memory that it may use here.", "Give the agent a Memory in `memory` of its document."
    ),
    "MEMORY_KIND_GONE": Code(
        "The kind of a memory is not installed on this server.", "Install the package that brings the kind."
    ),
    "MEMORY_SEARCH_FAILED": Code(
        "A kind of memory failed while it searched; the run went on without it.",
        "Find the cause in the server's log, and correct the kind or its settings.",
    ),
    "MEMORY_PUT_FAILED": Code(
        "A kind of memory failed while it indexed records. They are stored, and are indexed later.",
        "Find the cause in the server's log, and correct the kind or its settings.",
    ),
    "EMBEDDING_NOT_AVAILABLE": Code(
        "The provider of a model makes no embeddings.",
        "Use a Model of the provider openai, gemini or ollama for `embedding`.",
    ),
    "SKILL_CANDIDATE_NOT_FOUND": Code(
        "There is no such skill candidate.", "See `holdfast skills candidates` or GET /api/skills/candidates."
    ),
    "MEMORY_REJECTED": Code(
        "The memory did not accept the text.", "Read the reason; the policy of the Memory document decides."
    ),
    "KEY_NOT_FOUND": Code("There is no such key.", "See `holdfast keys list` or GET /api/keys for the ids."),
    "HOST_REFUSED": Code(
        "The Host header is not one of this server's names.", "Add the name to HOLDFAST_TRUSTED_HOSTS."
    ),
    "ORIGIN_REFUSED": Code(
        "The request comes from a web page of another origin.", "Add the exact origin to HOLDFAST_CORS_ORIGINS."
    ),
    "HEADERS_TOO_LARGE": Code(
        "The URL and headers of the request are larger than 16 KiB.", "Send fewer or shorter headers."
    ),
    "BODY_TIMEOUT": Code("The body did not arrive in time.", "Send it faster, or upload a file and refer to it."),
    "RATE_LIMITED": Code(
        "The caller has sent too many requests.", "Try again after the number of seconds in Retry-After."
    ),
    "TENANT_BUSY": Code(
        "Too many requests or runs of this tenant are active.",
        "Try again after the number of seconds in Retry-After, or send fewer at once.",
    ),
    "OVERLOADED": Code(
        "The server has reached its maximum number of requests.",
        "Try again after the number of seconds in Retry-After.",
    ),
    "ROUTE_UNGUARDED": Code(
        "A route has no permission, so the server cannot start.", "Add it to app/protocols/auth/permissions.py."
    ),
    # -- OpenAI clients ----------------------------------------------------------------------------
    "RESPONSE_NOT_FOUND": Code(
        "There is no such response.", "Use the id of a response that belongs to the caller's tenant."
    ),
    "TOOL_OUTPUTS_MISSING": Code(
        "The request does not have the outputs of all tool calls.",
        "Send one tool message for each call of the last answer, all in one request.",
    ),
    "RUN_WAITING": Code(
        "The run waits for a person.",
        "Answer its interrupt with /api/interrupts, then read the run or the response again.",
    ),
    "RUN_CANCELLED": Code(
        "The run was cancelled before it had an answer.", "Send the request again if you still need the answer."
    ),
    # -- overload ----------------------------------------------------------------------------------
    "SERVER_BUSY": Code(
        "Too many runs wait for a worker.", "Try again after the number of seconds in Retry-After, or add servers."
    ),
}
