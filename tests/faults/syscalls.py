"""Makes this process's own fsync and fdatasync fail with EIO, through a seccomp filter that the kernel applies.

From the outside a disk cannot be made to fail its syncs without a device of its own; from the inside it is one
filter. It cannot be taken off again, so it belongs into a process that is meant to die.
"""

import ctypes
import errno
import os
import platform
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Final

# (audit architecture, fsync, fdatasync, seccomp)
_NUMBERS: Final = {"x86_64": (0xC000003E, 74, 75, 317), "aarch64": (0xC00000B7, 82, 83, 277)}

_PR_SET_NO_NEW_PRIVS: Final = 38
_SECCOMP_SET_MODE_FILTER: Final = 1
_ALL_THREADS: Final = 1
_ALLOW: Final = 0x7FFF0000
_FAIL: Final = 0x00050000 | errno.EIO

# Classic BPF: load a word of the system call's data, jump if equal, return.
_LOAD, _JUMP_EQUAL, _RETURN = 0x20, 0x15, 0x06
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]


def fail_syncs(files: Sequence[int] | None = None) -> None:
    """From here on every sync of this process fails, or only those of the given open files."""
    architecture, fsync, fdatasync, seccomp = _NUMBERS[platform.machine()]
    _install(_instructions(architecture, fsync, fdatasync, files), seccomp)


def _install(instructions: list[tuple[int, int, int, int]], seccomp: int) -> None:
    code = b"".join(struct.pack("=HBBI", *instruction) for instruction in instructions)
    program = _Program(len(instructions), code)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "the kernel refused to give up new privileges")
    if libc.syscall(seccomp, _SECCOMP_SET_MODE_FILTER, _ALL_THREADS, ctypes.byref(program)) != 0:
        raise OSError(ctypes.get_errno(), "the kernel refused the filter")


def _instructions(
    architecture: int, fsync: int, fdatasync: int, files: Sequence[int] | None
) -> list[tuple[int, int, int, int]]:
    tests = [(_JUMP_EQUAL, len(files) - place, 0, file) for place, file in enumerate(files)] if files else []
    judged = [(_LOAD, 0, 0, _FIRST_ARGUMENT), *tests, (_RETURN, 0, 0, _ALLOW)] if files else []
    return [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_JUMP_EQUAL, 0, 3, architecture),
        (_LOAD, 0, 0, _NUMBER),
        (_JUMP_EQUAL, 2, 0, fsync),
        (_JUMP_EQUAL, 1, 0, fdatasync),
        (_RETURN, 0, 0, _ALLOW),
        *judged,
        (_RETURN, 0, 0, _FAIL),
    ]


def open_files(path: Path) -> list[int]:
    """The numbers under which this process has the file open."""
    numbers = []
    for entry in Path("/proc/self/fd").iterdir():
        try:
            if os.readlink(entry) == str(path):
                numbers.append(int(entry.name))
        except FileNotFoundError:
            continue  # the listing's own
    return numbers


def fail_writes(error: int) -> None:
    """From here on every write at a place of a file (`pwrite64`) fails with that error, which is how SQLite writes."""
    numbers = {"x86_64": (0xC000003E, 18, 317), "aarch64": (0xC00000B7, 68, 277)}
    architecture, pwrite, seccomp = numbers[platform.machine()]
    _install(
        [
            (_LOAD, 0, 0, _ARCHITECTURE),
            (_JUMP_EQUAL, 0, 3, architecture),
            (_LOAD, 0, 0, _NUMBER),
            (_JUMP_EQUAL, 0, 1, pwrite),
            (_RETURN, 0, 0, 0x00050000 | error),
            (_RETURN, 0, 0, _ALLOW),
        ],
        seccomp,
    )
