"""Takes the console's libraries from their npm packages into the repository, with licences and hashes.

Bare imports become relative ones, because a page with a strict policy has no import map. Run it to update a version:
`python -m scripts.console_vendor`. Leaves to others: checking that the files are still the same (a test does).
"""

import io
import re
import subprocess
import tarfile
import tempfile
from hashlib import sha256
from pathlib import Path
from typing import Final

from app.core import json
from app.protocols.console.assets import FOLDER

VENDOR: Final = FOLDER / "vendor"
RECORD: Final = VENDOR / "vendor.json"
PACKAGES: Final = {
    "preact@11.2.0": {"dist/preact.mjs": "preact.js", "hooks/dist/hooks.mjs": "hooks.js"},
    "htm@3.1.1": {"dist/htm.mjs": "htm.js"},
    "@preact/signals-core@1.14.5": {"dist/signals-core.mjs": "signals-core.js"},
    "@preact/signals@2.11.4": {"dist/signals.mjs": "signals.js"},
    "uplot@1.6.32": {"dist/uPlot.esm.js": "uplot.js", "dist/uPlot.min.css": "uplot.css"},
    "@dagrejs/dagre@3.1.3": {"dist/dagre.esm.js": "dagre.js"},
}
IMPORTS: Final = {
    "preact": "./preact.js",
    "preact/hooks": "./hooks.js",
    "@preact/signals-core": "./signals-core.js",
}
_BARE: Final = re.compile(r'(from\s*|import\s*)"([^"./\s][^"\s]*)"')
_MAP: Final = re.compile(r"\n?//# sourceMappingURL=\S+\s*$")


def vendor() -> None:
    VENDOR.mkdir(parents=True, exist_ok=True)
    record = {}
    for package, files in PACKAGES.items():
        content = _packed(package)
        name = package.rpartition("@")[0].lstrip("@").replace("/", "-")
        licence = f"{name}.LICENSE.txt"
        (VENDOR / licence).write_bytes(content["LICENSE"])
        made = {}
        for source, target in files.items():
            (VENDOR / target).write_text(_relative(content[source].decode()), encoding="utf-8")
            made[target] = sha256((VENDOR / target).read_bytes()).hexdigest()
        made[licence] = sha256(content["LICENSE"]).hexdigest()
        record[package] = made
    RECORD.write_bytes(json.pretty(record) + b"\n")


def _packed(package: str) -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["npm", "pack", "--silent", package], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        (archive,) = Path(folder).glob("*.tgz")
        with tarfile.open(fileobj=io.BytesIO(archive.read_bytes())) as members:
            found = {}
            for member in members:
                file = members.extractfile(member)
                if file is not None:
                    found[member.name.removeprefix("package/")] = file.read()
            return found


def _relative(text: str) -> str:
    return _MAP.sub("\n", _BARE.sub(lambda found: f'{found[1]}"{IMPORTS[found[2]]}"', text))


if __name__ == "__main__":
    vendor()
