"""Installs the servers that `bench.peers` compares with, each into a virtual environment of its own.

`python -m bench.peers.install [--folder FOLDER] [NAME ...]`; one after the other, from the package registry that pip is
configured for, into FOLDER (or BENCH_PEERS). What cannot be installed is reported and left out of the comparison.
"""

import argparse
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

FOLDER = Path(os.environ.get("BENCH_PEERS") or Path.home() / ".cache" / "holdfast-peers")
PACKAGES = {
    "agno": ["agno", "openai", "fastapi", "uvicorn", "sqlalchemy[asyncio]", "python-multipart"],
    "langgraph": ["langgraph-cli[inmem]", "langchain-openai"],
    "litellm": ["litellm[proxy]"],
    "adk": ["google-adk", "litellm", "sqlalchemy[asyncio]", "aiosqlite"],
}
VERSION_OF = {"agno": "agno", "langgraph": "langgraph-api", "litellm": "litellm", "adk": "google-adk"}


def python_of(name: str, folder: Path = FOLDER) -> Path:
    return folder / name / "bin" / "python"


def version_of(name: str, folder: Path = FOLDER) -> str | None:
    """None if it is not installed."""
    program = f"from importlib.metadata import version; print(version({VERSION_OF[name]!r}))"
    try:
        found = subprocess.run([python_of(name, folder), "-c", program], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return found.stdout.strip()


def install(name: str, folder: Path) -> str | None:
    """The reason why it could not be installed."""
    if version_of(name, folder) is not None:
        return None
    shutil.rmtree(folder / name, ignore_errors=True)
    venv.create(folder / name, with_pip=True)
    command = [str(python_of(name, folder)), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    nice = ["nice", "-n", "19"] if shutil.which("nice") else []
    done = subprocess.run([*nice, *command, *PACKAGES[name]], capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else done.stderr.strip().splitlines()[-1]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.peers.install")
    parser.add_argument("names", nargs="*", help=f"of {', '.join(PACKAGES)}; all if absent")
    parser.add_argument("--folder", type=Path, default=FOLDER)
    options = parser.parse_args()
    failed = False
    for name in options.names or PACKAGES:
        reason = install(name, options.folder)
        failed = failed or reason is not None
        print(
            f"{name}: {version_of(name, options.folder) if reason is None else 'not installed: ' + reason}", flush=True
        )
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
