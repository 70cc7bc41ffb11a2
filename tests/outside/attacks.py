"""Attacks on the sandbox, as programs, and the body that runs them: `python -m tests.outside.attacks MODE NETWORK`.

Started by `test_sandbox` as root and as another user, because most holes are there for only one of them. Prints what
became of each attack as JSON.
"""

import asyncio
import contextlib
import errno
import json
import os
import resource
import socket
import struct
import sys
import tempfile
from pathlib import Path
from typing import Any

from app.outside import process
from app.outside.process import ProcessError, ProcessLimits, Program
from app.outside.sandbox import kernel, seccomp

# Each line tries one thing and says "done" or the error. What it needs to know is in `K`.
PRELUDE = """
import ctypes, errno, json, os, resource, socket, sys
K = json.loads(sys.stdin.read())
libc = ctypes.CDLL(None, use_errno=True)
found = {}
def attempt(name, act):
    try:
        act()
    except OSError as error:
        found[name] = errno.errorcode.get(error.errno, str(error))
    except BaseException as error:
        found[name] = type(error).__name__
    else:
        found[name] = "done"
def call(number, *arguments):
    if libc.syscall(number, *(ctypes.c_long(a) if isinstance(a, int) else a for a in arguments)) < 0:
        raise OSError(ctypes.get_errno(), "")
def udp():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.sendto(b"out", ("127.0.0.1", K["udp"]))
def tcp():
    socket.create_connection(("127.0.0.1", K["tcp"]), 2).close()
def unix(path):
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(path)
def unix_by_pair(path):
    one, two = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    one.sendto(b"out", path)
def effective():
    # capget: version 3, two halves
    header, data = ctypes.create_string_buffer(8), ctypes.create_string_buffer(24)
    header[:4] = (0x20080522).to_bytes(4, "little")
    if libc.capget(header, data):
        raise OSError(ctypes.get_errno(), "")
    found["capabilities held"] = int.from_bytes(data.raw, "little")
"""

ATTEMPTS = """
attempt("udp", udp)
attempt("tcp", tcp)
attempt("unix", lambda: unix(K["unix"]))
attempt("unix pair", lambda: unix_by_pair(K["unix datagram"]))
attempt("abstract unix", lambda: unix(K["abstract"]))
attempt("vsock", lambda: socket.socket(40, socket.SOCK_STREAM).close())
attempt("raw socket", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1).close())
attempt("packet socket", lambda: socket.socket(17, socket.SOCK_RAW).close())
attempt("netfilter", lambda: socket.socket(16, socket.SOCK_RAW, 12).close())
attempt("prlimit", lambda: resource.prlimit(K["server"], resource.RLIMIT_NOFILE, (3, 3)))
attempt("priority", lambda: os.setpriority(os.PRIO_PROCESS, K["server"], 19))
attempt("priority of the user", lambda: os.setpriority(os.PRIO_USER, 0, 19))
attempt("affinity", lambda: os.sched_setaffinity(K["server"], {0}))
attempt("kill", lambda: os.kill(K["server"], 10))
attempt("kill group", lambda: os.killpg(K["group"], 10))
attempt("tgkill", lambda: call(K["tgkill"], K["server"], K["server"], 10))
attempt("ptrace", lambda: call(K["ptrace"], 0x4206, K["server"], 0, 0))
attempt("environ", lambda: open("/proc/%d/environ" % K["server"], "rb").read())
attempt("memory", lambda: open("/proc/%d/mem" % K["server"], "rb").read(1))
attempt("io_uring", lambda: call(425, 8, ctypes.create_string_buffer(200)))
attempt("user namespace", lambda: call(K["unshare"], 0x10000000))
attempt("clone user namespace", lambda: call(K["clone"], 0x10000011, 0, 0, 0, 0))
attempt("clone3", lambda: call(435, ctypes.create_string_buffer(88), 88))
attempt("mount", lambda: call(K["mount"], b"x", b"/usr", b"tmpfs", 0, None))
attempt("keyctl", lambda: call(K["keyctl"], 0, -3, 0, 0, 0))
attempt("bpf", lambda: call(K["bpf"], 0, ctypes.create_string_buffer(64), 64))
attempt("perf", lambda: call(K["perf_event_open"], ctypes.create_string_buffer(128), 0, -1, -1, 0))
attempt("userfaultfd", lambda: call(K["userfaultfd"], 1))
attempt("by handle", lambda: call(K["open_by_handle_at"], 0, ctypes.create_string_buffer(64), 0))
attempt("personality", lambda: call(K["personality"], 0x0040000))
attempt("tiocsti", lambda: call(K["ioctl"], 0, 0x5412, b"x"))
attempt("shared memory", lambda: call(K["shmget"], 0, 4096, 0o1600))
attempt("memory file", lambda: call(K["memfd_create"], b"x", 0))
attempt("newest call", lambda: call(469, 0, 0, 0, 0, 0))
if K["x32"]:
    attempt("x32", lambda: call(0x40000000 + 39))
attempt("database", lambda: open(K["data"] + "/holdfast.db", "rb").read())
attempt("data listing", lambda: found.__setitem__("listed", os.listdir(K["data"])))
attempt("data mode", lambda: os.chmod(K["data"] + "/holdfast.db", 0))
attempt("dotenv", lambda: found.__setitem__("dotenv content", open(K["workspace"] + "/.env").read()))
attempt("deep dotenv", lambda: open(K["workspace"] + "/deep/er/.env.local").read())
attempt("linked dotenv", lambda: open(K["workspace"] + "/plain-name").read())
attempt("write workspace", lambda: open(K["workspace"] + "/script.txt", "w"))
attempt("workspace", lambda: found.__setitem__("read", open(K["workspace"] + "/script.txt").read()))
attempt("own file", lambda: open("own", "w").write("x"))
attempt("own prlimit", lambda: resource.prlimit(0, resource.RLIMIT_NOFILE, (64, 64)))
attempt("stream pair", lambda: [end.close() for end in socket.socketpair()])
attempt("own child", lambda: (lambda p: (os.kill(p, 9), os.waitpid(p, 0)))(os.fork() or os.execv("/bin/sleep", ["sleep", "9"])))
attempt("capabilities", effective)
print(json.dumps(found))
"""  # noqa: E501  # a table

SMALL_FILES = """
import os
for number in range(10**7):
    os.makedirs(f"d{number % 50}", exist_ok=True)
    open(f"d{number % 50}/f{number}", "wb").write(b"x" * 4096)
"""
DELETED_FILES = """
held = []
import os, time
for number in range(100):
    file = open("x", "wb", buffering=0)
    os.unlink("x")
    held.append(file)
    for _ in range(8):
        file.write(b"x" * (4 << 20))
time.sleep(9)
"""
BOMB = """
import os, time
while True:
    try: os.fork()
    except OSError: time.sleep(0.01)
"""


def deny(numbers: dict[int, int]) -> None:
    """For this process and the sandbox in it: these system calls give these errors, as on a lesser machine."""
    steps = [(0x20, 0, 0, 0)]
    for number, error in numbers.items():
        steps += [(0x15, 0, 1, number), (0x06, 0, 0, 0x00050000 | error)]
    steps.append((0x06, 0, 0, 0x7FFF0000))
    code = b"".join(struct.pack("=HBBI", *step) for step in steps)
    kernel.control(kernel.PR_SET_NO_NEW_PRIVS, 1)
    import ctypes

    loaded = seccomp._Program(len(steps), code)
    kernel.control(kernel.PR_SET_SECCOMP, 2, ctypes.addressof(loaded))


def number_of(name: str) -> int:
    number = seccomp._NUMBERS[name][0 if kernel.MACHINE == "x86_64" else 1]
    assert number is not None
    return number


def lessen(mode: str) -> None:
    if "no namespaces" in mode:  # as in a container: the runtime's own filter refuses them
        deny({number_of("unshare"): errno.EPERM})
    if "no landlock" in mode:
        deny({kernel.LANDLOCK_CREATE_RULESET: errno.ENOSYS})


async def attack(folder: Path, mode: str, network: bool) -> dict[str, Any]:
    data, workspace = folder / "workspace" / "data", folder / "workspace"
    with contextlib.ExitStack() as closing:
        facts = make_place(data, workspace, closing)
        program = Program(
            [sys.executable, "-I", "-S", "-c", PRELUDE + ATTEMPTS], Path(tempfile.mkdtemp(dir=folder)),
            json.dumps(facts).encode(), {"TOKEN": "sk-environment"}, [workspace], network=network,
            limits=ProcessLimits(wall_seconds=60), scratch=True, required="required" in mode,
            hidden=[data, workspace / ".env", workspace / "deep/er/.env.local", workspace / "plain-name"],
        )  # fmt: skip
        lessen(mode)
        before = resource.getrlimit(resource.RLIMIT_NOFILE), os.getpriority(os.PRIO_PROCESS, 0), os.sched_getaffinity(0)
        try:
            finished = await process.run(program)
        except ProcessError as error:
            return {"refused": error.code, "why": str(error)}
        after = resource.getrlimit(resource.RLIMIT_NOFILE), os.getpriority(os.PRIO_PROCESS, 0), os.sched_getaffinity(0)
        result = json.loads(finished.stdout) if finished.stdout else {"stderr": finished.stderr.decode()}
        result["unharmed"] = before == after and (data / "holdfast.db").stat().st_mode & 0o777 == 0o600
        result["udp heard"] = heard(closing_sockets["udp"])
        result["unix heard"] = heard(closing_sockets["unix datagram"])
        result["status"] = finished.status
        status = await process.probe()
        result["sandbox"] = {"level": status.level, "uses": status.uses, "missing": status.missing}
    if network:  # what follows has nothing to do with it
        return result
    bounded = await process.run(scribbler(folder, SMALL_FILES))
    result["small files"] = "stopped" if bounded.disk_full or b"No space" in bounded.stderr else str(bounded)
    kept = await process.run(scribbler(folder, DELETED_FILES))
    result["deleted files"] = "stopped" if kept.disk_full or b"No space" in kept.stderr else str(kept)
    bomb = await process.run(
        Program([sys.executable, "-I", "-S", "-c", BOMB], Path(tempfile.mkdtemp(dir=folder)), scratch=True,
                limits=ProcessLimits(wall_seconds=1, processes=12))
    )  # fmt: skip
    result["bomb"] = "stopped" if bomb.timed_out else str(bomb)
    result["left over"] = children_left()
    return result


closing_sockets: dict[str, socket.socket] = {}


def make_place(data: Path, workspace: Path, closing: contextlib.ExitStack) -> dict[str, Any]:
    """A workspace with secrets and the data folder in it, and listeners that this process owns."""
    (workspace / "deep" / "er").mkdir(parents=True)
    data.mkdir(mode=0o700)
    (data / "holdfast.db").touch(0o600)
    (data / "holdfast.db").write_text("the log")
    (workspace / ".env").write_text("KEY=sk-dotenv")
    (workspace / "plain-name").write_text("KEY=sk-dotenv")
    (workspace / "deep/er/.env.local").write_text("KEY=sk-dotenv")
    (workspace / "script.txt").write_text("fine")
    facts: dict[str, Any] = {"server": os.getpid(), "group": os.getpgrp(), "data": str(data)}
    facts |= {"workspace": str(workspace), "x32": kernel.MACHINE == "x86_64"}
    for name, family, kind, address in (
        ("udp", socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0)),
        ("tcp", socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0)),
        ("unix", socket.AF_UNIX, socket.SOCK_STREAM, str(workspace / "s")),
        ("unix datagram", socket.AF_UNIX, socket.SOCK_DGRAM, str(workspace / "d")),
        ("abstract", socket.AF_UNIX, socket.SOCK_STREAM, f"\0holdfast-{os.getpid()}"),
    ):
        listener = closing.enter_context(socket.socket(family, kind))
        listener.bind(address)
        listener.setblocking(False)
        if kind == socket.SOCK_STREAM:
            listener.listen()
        closing_sockets[name] = listener
        facts[name] = listener.getsockname()[1] if family == socket.AF_INET else address
    for name in ("tgkill", "ptrace", "unshare", "clone", "mount", "keyctl", "bpf", "perf_event_open", "userfaultfd",
                 "open_by_handle_at", "personality", "ioctl", "shmget", "memfd_create"):  # fmt: skip
        facts[name] = number_of(name)
    return facts


def heard(listener: socket.socket) -> bool:
    try:
        return bool(listener.recv(10))
    except BlockingIOError:
        return False


def scribbler(folder: Path, code: str) -> Program:
    limits = ProcessLimits(wall_seconds=60, disk_bytes=32 << 20, disk_files=2_000)
    return Program([sys.executable, "-I", "-S", "-c", code], Path(tempfile.mkdtemp(dir=folder)), limits=limits,
                   scratch=True)  # fmt: skip


def children_left() -> list[str]:
    listed = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return [Path(f"/proc/{pid}/cmdline").read_text() for pid in listed]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="attacks-") as place:
        print(json.dumps(asyncio.run(attack(Path(place).resolve(), sys.argv[1], sys.argv[2] == "network"))))
