"""The filter of system calls as the kernel would run it, for both architectures, call by call."""

import errno
import struct
from collections.abc import Sequence
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.outside.sandbox import seccomp
from app.outside.sandbox.seccomp import Reach, program

ALLOW, KILL = 0x7FFF0000, 0x80000000
AUDIT: Final = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
SERVER: Final = 4711
ALONE: Final = Reach(network=False, shared=False, same_user=True)
SHARED: Final = Reach(network=False, shared=True, same_user=True, protected=[SERVER])
ONLINE: Final = Reach(network=True, shared=False, same_user=True)


def run(code: bytes, number: int, arguments: Sequence[int], architecture: int) -> int:
    """What the filter answers: a small copy of the kernel's machine, with only what filters of ours use."""
    padded = [argument & 0xFFFF_FFFF_FFFF_FFFF for argument in [*arguments, 0, 0, 0, 0, 0, 0][:6]]
    data = struct.pack("=iIQ6Q", number if number < 2**31 else number - 2**32, architecture, 0, *padded)
    steps = [struct.unpack_from("=HBBI", code, at) for at in range(0, len(code), 8)]
    value, at = 0, 0
    while True:
        operation, if_so, if_not, constant = steps[at]
        at += 1
        match operation:
            case 0x20:
                (value,) = struct.unpack_from("=I", data, constant)
            case 0x54:
                value &= constant
            case 0x06:
                return int(constant)
            case 0x15:
                at += if_so if value == constant else if_not
            case 0x25:
                at += if_so if value > constant else if_not
            case 0x35:
                at += if_so if value >= constant else if_not
            case 0x45:
                at += if_so if value & constant else if_not
            case _:
                raise AssertionError(f"unknown operation {operation:#x}")


def answer(reach: Reach, machine: str, name: str, *arguments: int) -> int | str:
    number = seccomp._NUMBERS[name][0 if machine == "x86_64" else 1]
    if number is None:
        return errno.EPERM  # there is no such call
    result = run(program(reach, machine), number, arguments, AUDIT[machine])
    return "allowed" if result == ALLOW else result & 0xFFFF


@pytest.mark.requirement("S15")
@pytest.mark.parametrize("machine", AUDIT)
@pytest.mark.parametrize("name", [*seccomp._REFUSED, *seccomp._ABSENT])
def test_what_no_program_needs_is_refused_whatever_its_arguments(machine: str, name: str) -> None:
    assert answer(ALONE, machine, name, 1, 2, 3, 4, 5, 6) in (errno.EPERM, errno.ENOSYS)


CASES: Final = [
    (ALONE, "socket", (2, 1, 0), errno.EPERM), (ALONE, "socket", (1, 1, 0), errno.EPERM),
    (ONLINE, "socket", (2, 1, 0), "allowed"), (ONLINE, "socket", (10, 2 | 0o2000000, 0), "allowed"),
    (ONLINE, "socket", (2, 3, 1), errno.EPERM), (ONLINE, "socket", (1, 1, 0), errno.EAFNOSUPPORT),
    (ONLINE, "socket", (40, 1, 0), errno.EAFNOSUPPORT), (ONLINE, "socket", (17, 3, 0), errno.EAFNOSUPPORT),
    (ONLINE, "socket", (16, 3, 0), "allowed"), (ONLINE, "socket", (16, 3, 12), errno.EAFNOSUPPORT),
    (ONLINE, "socket", (38, 5, 0), errno.EAFNOSUPPORT),
    (ALONE, "socketpair", (1, 1 | 0o4000, 0), "allowed"), (ALONE, "socketpair", (1, 2, 0), errno.EPERM),
    (ALONE, "prlimit64", (0, 7), "allowed"), (ALONE, "prlimit64", (SERVER, 7), errno.EPERM),
    (ALONE, "clone", (0x1200011,), "allowed"), (ALONE, "clone", (0x3D0F00,), "allowed"),
    (ALONE, "clone", (0x10000011,), errno.EPERM), (ALONE, "clone", (0x00020011,), errno.EPERM),
    (ALONE, "unshare", (0x400,), "allowed"), (ALONE, "unshare", (0x80,), errno.EPERM),
    (ALONE, "unshare", (0x40000000,), errno.EPERM),
    (ALONE, "personality", (0xFFFFFFFF,), "allowed"), (ALONE, "personality", (0x40000,), errno.EPERM),
    (ALONE, "ioctl", (0, 0x5412), errno.EPERM), 
    (ALONE, "ioctl", (0, 1 << 32 | 0x5412), errno.EPERM), (ALONE, "ioctl", (0, 0x5401), "allowed"),
    (ALONE, "kill", (SERVER, 9), "allowed"), (ALONE, "chmod", (0, 0), "allowed"),
    (SHARED, "kill", (SERVER, 9), errno.EPERM), (SHARED, "kill", (-SERVER, 9), errno.EPERM),
    (SHARED, "kill", (-1, 9), errno.EPERM), (SHARED, "kill", (SERVER + 1, 9), "allowed"),
    (SHARED, "kill", (0, 9), "allowed"), (SHARED, "tgkill", (SERVER, SERVER, 9), errno.EPERM),
    (SHARED, "tkill", (SERVER, 9), errno.EPERM), (SHARED, "pidfd_send_signal", (3, 9), errno.EPERM),
    (SHARED, "rt_sigqueueinfo", (SERVER, 9), errno.EPERM),
    (SHARED, "sched_setaffinity", (SERVER,), errno.EPERM), (SHARED, "sched_setaffinity", (0,), "allowed"),
    (SHARED, "setpriority", (0, SERVER), errno.EPERM), (SHARED, "setpriority", (2, 0), errno.EPERM),
    (SHARED, "setpriority", (0, 0), "allowed"), (SHARED, "ioprio_set", (3, 0), errno.EPERM),
    (SHARED, "fchmod", (3, 0), 0), (SHARED, "fchmodat2", (3, 0), 0), (SHARED, "fchown", (3, 0), errno.EPERM),
    (SHARED, "setxattr", (3, 0), errno.EOPNOTSUPP), (ALONE, "fallocate", (3, 0), errno.EOPNOTSUPP),
]  # fmt: skip


@pytest.mark.requirement("S15")
@pytest.mark.parametrize("machine", AUDIT)
@pytest.mark.parametrize(("reach", "name", "arguments", "expected"), CASES)
def test_a_call_is_judged_by_its_arguments(
    machine: str, reach: Reach, name: str, arguments: tuple[int, ...], expected: int | str
) -> None:
    if name == "chmod" and machine == "aarch64":
        return  # it has only fchmodat
    assert answer(reach, machine, name, *arguments) == expected


@pytest.mark.requirement("S15")
@pytest.mark.parametrize("machine", AUDIT)
@given(number=st.integers(0, 2**32 - 1), reach=st.sampled_from([ALONE, SHARED, ONLINE]), argument=st.integers(0, 2**64))
def test_every_call_gets_an_answer_and_none_that_is_newer_or_of_another_abi_is_allowed(
    machine: str, number: int, reach: Reach, argument: int
) -> None:
    code = program(reach, machine)
    result = run(code, number, [argument] * 6, AUDIT[machine])
    assert number <= seccomp._NEWEST or result == 0x00050000 | errno.ENOSYS
    assert run(code, number, [argument] * 6, 0x40000003) == KILL  # 32-bit x86
    assert len(code) // 8 <= 4096  # the kernel takes no longer one
