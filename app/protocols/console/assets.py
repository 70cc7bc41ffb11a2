"""The console's files as they are served: bytes, type, hash and a compressed form, read once.

A name is looked up in a list of the folder, so no path can lead out of it. Leaves to others: answering (`route`),
joining modules into one script (`pack`).
"""

import gzip
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Final

from app.core.value import value
from app.protocols.console.pack import script, style_sheet

FOLDER: Final = Path(__file__).parent / "static"
PAGE: Final = "index.html"
SCRIPT: Final = "console.js"
STYLES: Final = "console.css"
TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".json": "application/json",
}
"""A file with another ending is not served."""


@value(frozen=True, slots=True)
class Asset:
    content: bytes
    media_type: str
    etag: str

    @property
    def compressed(self) -> bytes:
        return _compressed(self.content)

    @property
    def version(self) -> str:
        """Names this content: an address with it may be kept for ever."""
        return self.etag.strip('"')


@cache
def assets() -> dict[str, Asset]:
    """Every file by its path below the folder, and the two that are made of them: about 1 MB, read only once."""
    found = sorted(path for path in FOLDER.rglob("*") if path.is_file() and path.suffix in TYPES)
    read = {path.relative_to(FOLDER).as_posix(): path.read_bytes() for path in found}
    texts = {name: content.decode() for name, content in read.items()}
    made = {SCRIPT: script(texts).encode(), STYLES: style_sheet(texts).encode()}
    served = {name: _asset(name, content) for name, content in {**read, **made}.items()}
    page = read[PAGE]
    for name in made:
        page = page.replace(f'"{name}"'.encode(), f'"{name}?v={served[name].version}"'.encode())
    return {**served, PAGE: _asset(PAGE, page)}


@cache
def _compressed(content: bytes) -> bytes:
    """When it is asked for: most files are only read as a part of the script."""
    return gzip.compress(content, mtime=0)


def _asset(name: str, content: bytes) -> Asset:
    return Asset(content, TYPES[Path(name).suffix], f'"{sha256(content).hexdigest()[:32]}"')
