"""The sandbox against attacks, as root and as another user, with and without what the kernel may refuse.

`attacks` has the programs. Each of these tests starts it in a process of its own: what a filter took from a process
does not come back.
"""

import functools
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

ROOT: Final = Path(__file__).parents[2]
NOBODY: Final = 65534
REFUSED: Final = {"EPERM", "EACCES", "ENOENT", "ENOSYS", "ESRCH", "EROFS", "EAFNOSUPPORT"}
# What a program may do, or what has no effect on anybody else; each of these is checked by itself.
ALLOWED: Final = {"workspace", "own file", "own prlimit", "stream pair", "own child", "capabilities"}
HARMLESS: Final = {"data listing", "data mode", "priority of the user"}
FACTS: Final = {"listed", "read", "capabilities held", "unharmed", "udp heard", "unix heard", "status", "small files",
                "deleted files", "bomb", "left over", "sandbox"}  # fmt: skip
ATTACKS: Final = {
    "udp", "tcp", "unix", "unix pair", "abstract unix", "vsock", "raw socket", "packet socket", "netfilter", "prlimit",
    "priority", "affinity", "kill", "kill group", "tgkill", "ptrace", "environ", "memory", "io_uring",
    "user namespace", "clone user namespace", "clone3", "mount", "keyctl", "bpf", "perf", "userfaultfd", "by handle",
    "personality", "tiocsti", "shared memory", "memory file", "newest call", "database", "dotenv", "deep dotenv",
    "linked dotenv", "write workspace",
}  # fmt: skip

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox is Linux's")


@functools.cache
def interpreter() -> str | None:
    """One that another user may start: ours may be in a home folder."""
    named = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for found in (sys.executable, shutil.which(named, path="/usr/bin:/usr/local/bin:/opt/bin")):
        if found is not None:
            try:
                subprocess.run([found, "-c", ""], user=NOBODY, group=NOBODY, extra_groups=[], check=True)
            except (OSError, subprocess.CalledProcessError):
                continue
            return found
    return None


def attack(user: str, mode: str, network: str) -> dict[str, Any]:
    own = user == ("root" if os.geteuid() == 0 else "another user")
    found = sys.executable if own else interpreter()
    if found is None or (not own and os.geteuid() != 0):
        pytest.skip(f"cannot become {user} here, or there is no interpreter that they may start")
    paths = [str(ROOT), *(path for path in sys.path if path.endswith("site-packages"))]
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": os.pathsep.join(paths), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [found, "-m", "tests.outside.attacks", mode, network]
    if own:
        done = subprocess.run(command, env=environment, cwd="/tmp", capture_output=True, timeout=120)
    else:
        done = subprocess.run(
            command, env=environment, cwd="/tmp", capture_output=True, timeout=120,
            user=NOBODY, group=NOBODY, extra_groups=[],
        )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    result: dict[str, Any] = json.loads(done.stdout)
    return result


@pytest.mark.requirement("S15")
@pytest.mark.parametrize("network", ["none", "network"])
@pytest.mark.parametrize("mode", ["all there is", "no namespaces", "no landlock"])
@pytest.mark.parametrize("user", ["root", "another user"])
def test_no_attack_on_the_server_or_the_machine_succeeds(user: str, mode: str, network: str) -> None:
    result = attack(user, mode, network)
    expected = ATTACKS - ({"udp", "tcp"} if network == "network" else set())
    assert {name: result.get(name) for name in expected if result.get(name) not in REFUSED} == {}
    assert {name for name in result if name not in ATTACKS | ALLOWED | HARMLESS | FACTS | {"x32"}} == set()
    assert {name: result[name] for name in ALLOWED} == dict.fromkeys(ALLOWED, "done")
    assert (result["read"], result.get("listed", []), result["status"]) == ("fine", [], 0)
    assert result["unharmed"]
    assert not result["unix heard"]
    assert result["udp heard"] == (network == "network")
    if network == "none":
        assert (result["small files"], result["deleted files"], result["bomb"]) == ("stopped", "stopped", "stopped")
        assert result["left over"] == []
    if "capabilities" not in result["sandbox"]["missing"]:
        assert result["capabilities held"] == 0


@pytest.mark.requirement("S15")
def test_without_landlock_and_namespaces_nothing_runs_because_the_data_folder_would_be_open() -> None:
    result = attack("another user", "no namespaces, no landlock", "none")
    assert result["refused"] == "SANDBOX_INCOMPLETE"
    assert "data folder" in result["why"]


@pytest.mark.requirement("S15")
def test_a_required_sandbox_refuses_a_machine_that_lacks_a_part_and_names_it() -> None:
    result = attack("another user", "no namespaces, no landlock, required", "none")
    assert result["refused"] == "SANDBOX_INCOMPLETE"
    assert "lacks here: files, signals" in result["why"]
