"""The kernel's calls that Python has no function for, by number, and the check of their results."""

import ctypes
import os
from typing import Final

LIBC: Final = ctypes.CDLL(None, use_errno=True)
MACHINE: Final = os.uname().machine

_PIVOT_ROOT: Final = {"x86_64": 155, "aarch64": 41}
# The same on every architecture, as all calls since Linux 5.
OPEN_TREE, MOVE_MOUNT, MOUNT_SETATTR = 428, 429, 442
LANDLOCK_CREATE_RULESET, LANDLOCK_ADD_RULE, LANDLOCK_RESTRICT_SELF = 444, 445, 446

PR_SET_PDEATHSIG, PR_SET_SECCOMP, PR_CAPBSET_DROP, PR_SET_KEEPCAPS = 1, 22, 24, 8
PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT = 36, 38, 47

CLONE_NEWNS, CLONE_NEWIPC, CLONE_NEWUSER = 0x00020000, 0x08000000, 0x10000000
CLONE_NEWPID, CLONE_NEWNET = 0x20000000, 0x40000000


def check(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return int(result)


def call(number: int, *arguments: object) -> int:
    """A system call; raises OSError. Integers are passed as the kernel's long."""
    return check(LIBC.syscall(ctypes.c_long(number), *(_long(argument) for argument in arguments)))


def control(option: int, *arguments: int) -> int:
    padded = [*arguments, 0, 0, 0, 0][:4]
    return check(LIBC.prctl(option, *(ctypes.c_ulong(argument) for argument in padded)))


def unshare(flags: int) -> None:
    check(LIBC.unshare(flags))


def mount(kind: str | None, target: str, flags: int, options: str = "") -> None:
    data = options.encode() if options else None
    name = kind.encode() if kind is not None else None
    check(LIBC.mount(name, os.fsencode(target), name, ctypes.c_ulong(flags), data))


def unmount(target: str) -> None:
    check(LIBC.umount2(os.fsencode(target), 2))  # MNT_DETACH


def pivot_to_here() -> None:
    """Make the current folder the root, and let go of the one before."""
    number = _PIVOT_ROOT.get(MACHINE)
    if number is None:
        raise OSError(f"no number of pivot_root is known for {MACHINE}")
    call(number, b".", b".")
    unmount(".")  # the old root is stacked on the new one
    os.chdir("/")


def _long(argument: object) -> object:
    return ctypes.c_long(argument) if isinstance(argument, int) else argument
