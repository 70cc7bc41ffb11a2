"""The supervisor of one sandboxed program. Run as a script by `process`, never imported by the server.

It becomes the reaper of everything its program leaves behind, starts the program in its own session with
limits and Landlock, and when the program ends, or its control pipe does (the server closed it, or died),
kills all that is left. A program may double-fork and change its session: it stays a descendant of ours.

Arguments: one JSON document (see `process._policy`), the descriptor of the control pipe's read end, and one
for a report. The exit status is the program's; 125 says that the sandbox could not be built, the report why.
"""

import contextlib
import ctypes
import json
import os
import resource
import select
import signal
import struct
import sys
from typing import Any

CANNOT = 125

_PR_SET_NO_NEW_PRIVS, _PR_SET_CHILD_SUBREAPER, _PR_SET_KEEPCAPS, _PR_CAP_AMBIENT = 38, 36, 8, 47
_CAPABILITY_VERSION, _CAP_DAC_OVERRIDE, _CAP_DAC_READ_SEARCH = 0x20080522, 1, 2
_SYS_CREATE_RULESET, _SYS_ADD_RULE, _SYS_RESTRICT_SELF = 444, 445, 446
_CLONE_NEWNET = 0x40000000

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 2, 4, 8
_READ = _EXECUTE | _READ_FILE | _READ_DIR
# What each version of Landlock can deny, by its number of known rights.
_RIGHTS_BY_ABI = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
_FILE_ONLY = _EXECUTE | _WRITE_FILE | _READ_FILE | (1 << 14) | (1 << 15)

libc = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    policy, control, report = json.loads(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    wake_read, wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wake_write)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # meant for the program; we outlive it to clean up
    child = os.fork()
    if child == 0:
        os.close(control)
        become(policy, report)
    os.close(report)
    for stream in (0, 1, 2):
        os.close(stream)  # the pipes must end with the program, not with us
    status = watch(child, control, wake_read)
    sweep(child)
    if os.WIFSIGNALED(status):
        os._exit(128 + os.WTERMSIG(status))
    os._exit(os.WEXITSTATUS(status))


def watch(child: int, control: int, wake: int) -> int:
    """Until the program ends. One byte on the control pipe asks it to stop, the end of the pipe kills it."""
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status
        ready, _, _ = select.select([control, wake], [], [])
        if control in ready:
            asked = os.read(control, 1)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child, signal.SIGTERM if asked else signal.SIGKILL)
            if not asked:
                return os.waitpid(child, 0)[1]
        if wake in ready:
            with contextlib.suppress(BlockingIOError):
                while os.read(wake, 512):
                    pass


def sweep(child: int) -> None:
    """Kill what is left: its group, then whoever was handed to us as their reaper, until there is nobody."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)
    while True:
        for pid in descendants():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            select.select([], [], [], 0.005)


def descendants() -> list[int]:
    parents: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with (
                contextlib.suppress(OSError, ValueError, IndexError),
                open(f"/proc/{name}/stat", "rb") as stat,
            ):
                parent = int(stat.read().rpartition(b")")[2].split()[1])
                parents.setdefault(parent, []).append(int(name))
    found, todo = [], [os.getpid()]
    while todo:
        below = parents.get(todo.pop(), [])
        found += below
        todo += below
    return found


def become(policy: dict[str, Any], report: int) -> None:
    """In the forked child: session, limits, user, Landlock, then the program. Any failure ends it here."""
    try:
        os.setsid()
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGCHLD, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        os.chdir(policy["cwd"])
        isolated_network = not policy["network"] and without_network()
        limit(policy)
        libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        enclosed = enclose(policy, isolated_network)
        drop(policy.get("uid"), may_read=enclosed, may_write=enclosed and policy["may_write"])
        os.set_inheritable(report, False)  # closed by a successful exec: silence means it began
        os.execve(policy["program"], policy["argv"], policy["env"])  # noqa: S606  # no shell is the point
    except BaseException as error:
        os.write(report, f"{type(error).__name__}: {error}".encode()[:500])
    os._exit(CANNOT)


def limit(policy: dict[str, Any]) -> None:
    for name, value in (
        (resource.RLIMIT_CPU, policy["cpu_seconds"]),
        (resource.RLIMIT_AS, policy["memory_bytes"]),
        (resource.RLIMIT_FSIZE, policy["file_bytes"]),
        (resource.RLIMIT_NOFILE, policy["open_files"]),
        (resource.RLIMIT_CORE, 0),
    ):
        _, hard = resource.getrlimit(name)
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(name, (value, value))
    # Processes are counted by user, so what this user already runs has to be added to the allowance.
    allowance = policy["processes"] + running_of(policy.get("uid"))
    resource.setrlimit(resource.RLIMIT_NPROC, (allowance, allowance))


def running_of(uid: int | None) -> int:
    if uid is not None:
        return 1  # a user of this sandbox alone: only ourselves
    mine, count = os.getuid(), 0
    for name in os.listdir("/proc"):
        with contextlib.suppress(OSError):
            if name.isdigit() and os.stat(f"/proc/{name}").st_uid == mine:
                count += len(os.listdir(f"/proc/{name}/task"))
    return count


def drop(uid: int | None, *, may_read: bool, may_write: bool) -> None:
    """Root gives the program a user of its own. Inside Landlock it keeps the right to read past permission
    bits, since interpreters live below private folders, and to write where it was given a folder of the server's;
    which places those are, Landlock decided."""
    if uid is None:
        return
    os.setgroups([])
    libc.prctl(_PR_SET_KEEPCAPS, 1 if may_read else 0, 0, 0, 0)
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    if may_read:
        header = struct.pack("=Ii", _CAPABILITY_VERSION, 0)
        kept = [_CAP_DAC_READ_SEARCH, *([_CAP_DAC_OVERRIDE] if may_write else [])]
        only = sum(1 << capability for capability in kept)
        check(libc.capset(header, struct.pack("=6I", only, only, only, 0, 0, 0)))
        for capability in kept:
            check(libc.prctl(_PR_CAP_AMBIENT, 2, capability, 0, 0))


def without_network() -> bool:
    return bool(libc.unshare(_CLONE_NEWNET) == 0)


def enclose(policy: dict[str, Any], isolated_network: bool) -> bool:
    abi = libc.syscall(_SYS_CREATE_RULESET, None, 0, 1)
    if abi < 1:
        if policy["require_landlock"]:
            raise OSError("the kernel has no Landlock")
        return False
    handled = (1 << _RIGHTS_BY_ABI.get(abi, 16)) - 1
    deny_network = 3 if abi >= 4 and not policy["network"] and not isolated_network else 0
    attributes = struct.pack("QQQ", handled, deny_network, 3 if abi >= 6 else 0)
    size = 24 if abi >= 6 else 16 if abi >= 4 else 8
    rules = check(libc.syscall(_SYS_CREATE_RULESET, attributes, size, 0))
    for path in policy["read"]:
        allow(rules, path, _READ & handled)
    for path in policy["write"]:
        allow(rules, path, handled)
    for path in ("/dev/null", "/dev/zero", "/dev/urandom", "/dev/random"):
        allow(rules, path, (_READ_FILE | _WRITE_FILE) & handled)
    check(libc.syscall(_SYS_RESTRICT_SELF, rules, 0))
    os.close(rules)
    return True


def allow(rules: int, path: str, rights: int) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return  # nothing to allow
    try:
        if not os.path.isdir(path):
            rights &= _FILE_ONLY
        check(libc.syscall(_SYS_ADD_RULE, rules, 1, struct.pack("=Qi", rights, place), 0))
    finally:
        os.close(place)


def check(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


if __name__ == "__main__":
    main()
