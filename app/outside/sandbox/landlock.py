"""Landlock: which files a program may open, and that it cannot signal or connect out of its domain.

Landlock only allows, so a folder with something hidden in it is allowed by its other entries, one by one.
"""

import os
import struct
from collections.abc import Sequence
from typing import Final

from app.outside.sandbox.kernel import (
    LANDLOCK_ADD_RULE,
    LANDLOCK_CREATE_RULESET,
    LANDLOCK_RESTRICT_SELF,
    LIBC,
    call,
)

_EXECUTE, _WRITE_FILE, _READ_FILE, READ_DIR = 1, 2, 4, 8
READ: Final = _EXECUTE | _READ_FILE | READ_DIR
_DEVICES: Final = (1 << 6) | (1 << 11) | (1 << 15)  # making them, and talking to them
WRITE: Final = 0xFFFF & ~_DEVICES
# What each version can deny, by its number of known rights.
_RIGHTS_BY_ABI: Final = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
_FILE_ONLY: Final = _EXECUTE | _WRITE_FILE | _READ_FILE | (1 << 14) | (1 << 15)
_TCP: Final = 3  # bind and connect
_SCOPES: Final = 3  # abstract unix sockets and signals
SCOPES_SIGNALS: Final = 6  # the first version that does
MAX_ENTRIES: Final = 20_000
"""Of the folders that lead to something hidden, all together. A rule for each entry is made at each start."""
_DEVICE_FILES: Final = ("/dev/null", "/dev/zero", "/dev/urandom", "/dev/random")


class CannotHide(Exception):
    """Something that must be hidden is among too many entries."""


def version() -> int:
    """0 where the kernel has none."""
    return max(0, int(LIBC.syscall(LANDLOCK_CREATE_RULESET, None, 0, 1)))


def restrict(read: Sequence[tuple[str, int]], write: Sequence[str], *, network: bool) -> None:
    """For this process and all it starts, for good. Needs no_new_privs."""
    abi = version()
    handled = (1 << _RIGHTS_BY_ABI.get(abi, 16)) - 1
    attributes = struct.pack("QQQ", handled, 0 if network or abi < 4 else _TCP, _SCOPES if abi >= SCOPES_SIGNALS else 0)
    size = 24 if abi >= SCOPES_SIGNALS else 16 if abi >= 4 else 8
    rules = call(LANDLOCK_CREATE_RULESET, attributes, size, 0)
    for path, rights in read:
        _allow(rules, path, rights & handled)
    for path in write:
        _allow(rules, path, WRITE & handled)
    for path in _DEVICE_FILES:
        _allow(rules, path, (_READ_FILE | _WRITE_FILE) & handled)
    call(LANDLOCK_RESTRICT_SELF, rules, 0)
    os.close(rules)


def around(paths: Sequence[str], hidden: Sequence[str]) -> list[tuple[str, int]]:
    """The paths with the rights to give them, so that nothing hidden is among what they cover.

    Where only files are hidden, the folder around them can still be listed; where a folder is, it cannot,
    because that right would cover the hidden folder too.
    """
    found: list[tuple[str, int]] = []
    left = [MAX_ENTRIES]
    for path in paths:
        _around(os.path.realpath(path), hidden, found, left)
    return found


def _around(path: str, hidden: Sequence[str], found: list[tuple[str, int]], left: list[int]) -> None:
    inside = [one for one in hidden if one == path or one.startswith(path.rstrip("/") + "/")]
    if not inside:
        found.append((path, READ))
    elif path not in inside:
        if not any(os.path.isdir(one) for one in inside):
            found.append((path, READ_DIR))
        with os.scandir(path) as entries:
            for entry in entries:
                left[0] -= 1
                if left[0] < 0:
                    raise CannotHide
                # A rule holds for what a link leads to, which may be anywhere; what is inside has its own rule.
                if not entry.is_symlink():
                    _around(entry.path, inside, found, left)


def _allow(rules: int, path: str, rights: int) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return  # nothing to allow
    try:
        if not os.path.isdir(path):
            rights &= _FILE_ONLY
        if rights:
            call(LANDLOCK_ADD_RULE, rules, 1, struct.pack("=Qi", rights, place), 0)
    finally:
        os.close(place)
