"""The walls around one program, put up in its own process just before it begins.

Each wall that the kernel refuses is named in `missing`; whether the program may begin without it is decided here.
Order matters: what needs privileges comes first, then these are given up, and the filter of system calls is last.
"""

import contextlib
import json
import mmap
import os
import resource
import signal
import struct
from typing import Any, Final

from app.outside.sandbox import kernel, landlock, seccomp
from app.outside.sandbox.namespaces import Namespaces, Root

_CAPABILITY_VERSION, _CAP_DAC_READ_SEARCH, _MAX_CAPABILITY = 0x20080522, 2, 63
_OWN_COUNT: Final = (5, 14)  # the first kernel that counts processes by user namespace


class Incomplete(Exception):
    """The program may not begin, because of what the sandbox lacks here."""


class Confinement:
    def __init__(self, policy: dict[str, Any], spaces: Namespaces, users: int, bounded: mmap.mmap) -> None:
        """`bounded` is shared with the supervisor: set when all that can be written to has a fixed size."""
        self._policy, self._spaces, self._users, self._bounded = policy, spaces, users, bounded
        self._own_root = self._landlocked = False
        self._missing: list[str] = []
        self._uses: list[str] = []
        # What its user has to get at by permission bits, as long as there is no root of its own.
        shared = policy["system"]
        self._plain: list[str] = [*(path for path in policy["read"] if path not in shared), *policy["write"][1:]]

    def begin(self) -> bytes:
        """Become the program; returns only for a probe, with what there is and what is missing."""
        policy = self._policy
        os.setsid()
        os.umask(0o022)
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGCHLD, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        allowance = policy["processes"] + self._running()
        self._change_root()
        os.chdir(policy["cwd"])
        self._limit(allowance)
        kernel.control(kernel.PR_SET_NO_NEW_PRIVS, 1)
        self._restrict_files()
        self._drop()
        self._filter()
        self._judge()
        if not policy["probe"]:
            os.execve(policy["program"], policy["argv"], policy["env"])  # noqa: S606  # no shell is the point
        return json.dumps({"uses": self._uses, "missing": self._missing}).encode()

    def _running(self) -> int:
        """Processes are counted by user, so what this user already runs has to be added to the allowance."""
        if self._policy["uid"] is not None and not self._policy["write"][1:]:
            return 1  # a user of this program alone
        release = os.uname().release.split(".")
        if self._spaces.user and (int(release[0]), int(release[1])) >= _OWN_COUNT:
            return 3  # the supervisor, the first process of the namespace and this one
        mine, count = self._policy["uid"] or os.getuid(), 0
        for name in os.listdir("/proc"):
            with contextlib.suppress(OSError):
                if name.isdigit() and os.stat(f"/proc/{name}").st_uid == mine:
                    count += len(os.listdir(f"/proc/{name}/task"))
        return count

    def _change_root(self) -> None:
        spaces, root = self._spaces, Root(self._policy, self._users)
        with contextlib.suppress(OSError):
            root.build()
            self._own_root, self._plain = True, root.plain
            self._bounded[0] = self._policy["scratch"] and not self._policy["write"][1:]
        for there, name in (
            (self._own_root, "mount namespace"),
            (spaces.processes, "pid namespace"),
            (spaces.network, "network namespace"),
            (spaces.user, "user namespace"),
            (self._policy["uid"] is not None, "own user"),
        ):
            if there:
                self._uses.append(name)

    def _limit(self, processes: int) -> None:
        policy = self._policy
        for name, value in (
            (resource.RLIMIT_CPU, policy["cpu_seconds"]),
            (resource.RLIMIT_AS, policy["memory_bytes"]),
            (resource.RLIMIT_FSIZE, policy["file_bytes"]),
            (resource.RLIMIT_NOFILE, policy["open_files"]),
            (resource.RLIMIT_NPROC, processes),
            (resource.RLIMIT_CORE, 0),
        ):
            _, hard = resource.getrlimit(name)
            value = value if hard == resource.RLIM_INFINITY else min(value, hard)
            resource.setrlimit(name, (value, value))

    def _restrict_files(self) -> None:
        policy = self._policy
        version = landlock.version()
        if version < 1:
            return
        hidden = [] if self._own_root else policy["hidden"]
        try:
            read = landlock.around(policy["read"], hidden)
        except landlock.CannotHide:
            message = f"the data folder or a .env file is among more than {landlock.MAX_ENTRIES} entries of a folder"
            raise Incomplete(f"{message} that programs may read; move it elsewhere") from None
        landlock.restrict(read, policy["write"], network=policy["network"])
        self._landlocked = True
        self._uses.append(f"Landlock {version}")

    def _drop(self) -> None:
        """No capability stays, in no set, so that no program file can bring one back."""
        uid = self._policy["uid"]
        kept = (
            uid is not None
            and (self._landlocked or self._own_root)
            and not all(map(self._others_may_read, self._plain))
        )
        for capability in range(_MAX_CAPABILITY + 1):
            with contextlib.suppress(OSError):  # beyond the last one, or not ours to drop
                if not (kept and capability == _CAP_DAC_READ_SEARCH):
                    kernel.control(kernel.PR_CAPBSET_DROP, capability)
        if uid is not None:
            os.setgroups([])
            kernel.control(kernel.PR_SET_KEEPCAPS, 1 if kept else 0)
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
        with contextlib.suppress(OSError):  # kernels before 4.3 have no such set
            kernel.control(kernel.PR_CAP_AMBIENT, 4)
        only = 1 << _CAP_DAC_READ_SEARCH if kept else 0
        header = struct.pack("=Ii", _CAPABILITY_VERSION, 0)
        kernel.check(kernel.LIBC.capset(header, struct.pack("=6I", only, only, only, 0, 0, 0)))
        if kept:
            # Its program or workspace is in a private folder of root's. It reads there past the permission bits,
            # within its own root and what Landlock allows.
            kernel.control(kernel.PR_CAP_AMBIENT, 2, _CAP_DAC_READ_SEARCH)
            self._missing.append("capabilities")

    def _others_may_read(self, path: str) -> bool:
        try:
            if not os.stat(path).st_mode & 0o4:
                return False
            while (path := os.path.dirname(path)) != "/":
                if not os.stat(path).st_mode & 0o1:
                    return False
        except OSError:
            return True  # it is not there
        return True

    def _filter(self) -> None:
        reach = seccomp.Reach(
            self._policy["network"],
            shared=not self._spaces.processes,
            same_user=self._policy["uid"] is None,
            protected=[*self._policy["protected"], os.getppid()],
        )
        if seccomp.is_known():
            with contextlib.suppress(OSError):
                seccomp.install(reach)
                self._uses.append("seccomp")

    def _judge(self) -> None:
        policy, filtered = self._policy, "seccomp" in self._uses
        if not (self._own_root or self._landlocked):
            self._missing.append("files")
        if not policy["network"] and not (self._spaces.network or filtered):
            self._missing.append("network")
        apart = self._spaces.processes or landlock.version() >= landlock.SCOPES_SIGNALS
        if not apart and policy["uid"] is None:
            self._missing.append("signals")
        if not filtered:
            self._missing.append("system calls")
        if policy["probe"]:
            return
        if policy["required"] and self._missing:
            raise Incomplete(f"the sandbox is required and lacks here: {', '.join(self._missing)}")
        # With a user of its own the folder's permissions (0700) hide it.
        if policy["hidden"] and "files" in self._missing and policy["uid"] is None:
            raise Incomplete(
                "the data folder cannot be hidden from programs: there is no Landlock and no mount namespace"
            )
