"""Message parts of a submission: checked, and their content taken out of the request into the thread's blobs.

`{"type": "text", "text"}`, or `image`, `audio`, `video`, `file` with `fileId` (an uploaded file), or with `mime` and
`data` in base64. A run gets a copy that is stored in the commit of its first event, so that it depends on no file.
A list that has anything without a `type` is no list of parts but plain data.
"""

from collections.abc import Sequence
from functools import partial
from hashlib import sha256
from io import BytesIO
from itertools import islice
from typing import Any, Final

from app.core import json
from app.core.base64_text import decode_base64
from app.core.errors import Failure
from app.core.json import JsonObject
from app.core.schemas import Issue, Validator
from app.events.ports import BlobDraft
from app.protocols.http.body import off_loop
from app.protocols.http.errors import MAX_ISSUES, HttpProblem
from app.protocols.http.uploads import clean_mime, clean_name
from app.views.file import Files

MAX_PARTS_BYTES: Final = 32 * 1024 * 1024
"""What the parts of one submission may weigh; it is held in memory for a moment, and models take no more."""

MAX_TEXT: Final = 4 * 1024 * 1024
"""Characters of an input beside its media: about a million tokens, more than models read at once."""

_MEDIA: Final = ("image", "audio", "video", "file")
_NAME: Final = {"type": "string", "minLength": 1, "maxLength": 255}
_PART: Final = Validator(
    {
        "type": "object",
        "required": ["type"],
        "oneOf": [
            {
                "properties": {"type": {"const": "text"}, "text": {"type": "string"}},
                "required": ["text"],
                "additionalProperties": False,
            },
            {
                "properties": {"type": {"const": "json"}, "json": {}},
                "required": ["json"],
                "additionalProperties": False,
            },
            {
                "properties": {"type": {"enum": list(_MEDIA)}, "fileId": _NAME, "name": _NAME},
                "required": ["fileId"],
                "additionalProperties": False,
            },
            {
                "properties": {
                    "type": {"enum": list(_MEDIA)},
                    "mime": {"type": "string", "pattern": "^[a-z0-9.+-]+/[a-z0-9.+-]+$", "maxLength": 100},
                    "data": {"type": "string"},
                    "name": _NAME,
                },
                "required": ["mime", "data"],
                "additionalProperties": False,
            },
        ],
    }
)


def is_parts(given: Any) -> bool:
    return isinstance(given, list) and bool(given) and all(isinstance(part, dict) and "type" in part for part in given)


async def with_content(files: Files, tenant: str, given: Any) -> tuple[Any, tuple[BlobDraft, ...]]:
    """The input with its media by reference, and the content that they refer to."""
    if not is_parts(given):
        refuse_long_text(len(given) if isinstance(given, str) else len(json.dumps(given)))
        return given, ()
    size = sum(len(part["data"]) for part in given if isinstance(part.get("data"), str))
    if wrong := await off_loop(size, partial(_wrong_parts, given)):
        raise HttpProblem(Failure("INVALID_REQUEST", "A message part is wrong."), wrong)
    parts: list[JsonObject] = []
    blobs: list[BlobDraft] = []
    for number, part in enumerate(given):
        if part["type"] in _MEDIA:
            data = None
            if "fileId" not in part:
                data = await off_loop(len(part["data"]), partial(_decoded, part["data"], number))
            part = await by_reference(files, tenant, part, data, blobs)
        parts.append(part)
    refuse_long_text(len(json.dumps(parts)))
    return parts, tuple(blobs)


def _wrong_parts(given: Sequence[Any]) -> list[Issue]:
    found = (Issue(f"/input/{n}", "is no message part") for n, part in enumerate(given) if not _PART.accepts(part))
    return list(islice(found, MAX_ISSUES))


def refuse_long_text(size: int) -> None:
    """For what is not content of media. It is copied, searched and hashed with every event that contains it."""
    if size > MAX_TEXT:
        message = f"The input without its media is larger than {MAX_TEXT} characters."
        raise HttpProblem(Failure("BODY_TOO_LARGE", message))


async def by_reference(
    files: Files, tenant: str, part: JsonObject, content: bytes | None, blobs: list[BlobDraft]
) -> JsonObject:
    """The part without its content, which joins the blobs; None is the content of the uploaded file that it names."""
    room = MAX_PARTS_BYTES - sum(len(blob.data) for blob in blobs)
    if content is None:
        name, mime, data = await _uploaded(files, tenant, part["fileId"], room)
    else:
        name, mime, data = None, clean_mime(part["mime"]), content
        if len(data) > room:
            raise _too_large()
    digest = await off_loop(len(data), lambda: sha256(data).hexdigest())
    blobs.append(BlobDraft(digest, data, mime))
    made: JsonObject = {
        "type": part["type"],
        "mime": mime,
        "blob": {"sha256": digest, "size": len(data), "mime": mime},
    }
    named = part.get("name") or name
    return made if named is None else made | {"name": clean_name(named)}


async def _uploaded(files: Files, tenant: str, file_id: str, room: int) -> tuple[str, str, bytes]:
    file = await files.get(tenant, file_id)
    if file is None:
        raise HttpProblem(Failure("UPLOAD_NOT_FOUND", "The input names a file that is not there."))
    if file.deleted_at is not None:
        raise HttpProblem(Failure("UPLOAD_DELETED", "The input names a file that was deleted."))
    if file.size > room:
        raise _too_large()
    content = BytesIO()  # gives its bytes away without a copy, unlike a list of pieces that is joined
    async for piece in files.read(tenant, file_id):
        content.write(piece)
    return file.name, file.mime, content.getvalue()


def _decoded(data: str, number: int) -> bytes:
    try:
        return decode_base64(data)
    except ValueError:
        issue = Issue(f"/input/{number}/data", "is not base64")
        raise HttpProblem(Failure("INVALID_REQUEST", "A message part is wrong."), [issue]) from None


def _too_large() -> HttpProblem:
    return HttpProblem(Failure("BODY_TOO_LARGE", f"The parts weigh more than {MAX_PARTS_BYTES} bytes."))
