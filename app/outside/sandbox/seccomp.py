"""The filter of system calls: a BPF program that refuses what no tool needs and a break-out does.

It is a list of what is refused, with everything newer than this list refused as well. Calls that only reach other
processes are refused where no pid namespace hides these (`Reach.shared`); there, without a user of its own, changes
of a file's mode and times are ignored too, because Landlock does not cover them.
"""

import ctypes
import errno
import struct
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from app.outside.sandbox.kernel import MACHINE, PR_SET_SECCOMP, control

_ARCHITECTURES: Final = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
_X32_BIT: Final = 0x40000000
_NEWEST: Final = 462
"""The highest number (mseal) that was looked at; what is above it does not exist for a program."""

# Number on x86_64 and on aarch64; None where the architecture has no such call.
_NUMBERS: Final[dict[str, tuple[int | None, int | None]]] = {
    "acct": (163, 89), "add_key": (248, 217), "adjtimex": (159, 171), "bpf": (321, 280), "chmod": (90, None),
    "chown": (92, None), "chroot": (161, 51), "clock_adjtime": (305, 266), "clock_settime": (227, 112),
    "clone": (56, 220), "clone3": (435, 435), "create_module": (174, None), "delete_module": (176, 106),
    "fallocate": (285, 47), "fanotify_init": (300, 262), "fchmod": (91, 52), "fchmodat": (268, 53),
    "fchmodat2": (452, 452), "fchown": (93, 55), "fchownat": (260, 54), "finit_module": (313, 273),
    "fremovexattr": (199, 16), "fsconfig": (431, 431), "fsetxattr": (190, 7), "fsmount": (432, 432),
    "fsopen": (430, 430), "fspick": (433, 433), "futimesat": (261, None), "init_module": (175, 105),
    "io_uring_enter": (426, 426), "io_uring_register": (427, 427), "io_uring_setup": (425, 425), "ioctl": (16, 29),
    "ioperm": (173, None), "iopl": (172, None), "ioprio_set": (251, 30), "kcmp": (312, 272),
    "kexec_file_load": (320, 294), "kexec_load": (246, 104), "keyctl": (250, 219), "kill": (62, 129),
    "lchown": (94, None), "listmount": (458, 458), "lookup_dcookie": (212, 18), "lremovexattr": (198, 15),
    "lsetxattr": (189, 6), "memfd_create": (319, 279), "memfd_secret": (447, 447), "migrate_pages": (256, 238),
    "modify_ldt": (154, None), "mount": (165, 40), "mount_setattr": (442, 442), "move_mount": (429, 429),
    "move_pages": (279, 239), "mq_open": (240, 180), "msgget": (68, 186), "name_to_handle_at": (303, 264),
    "nfsservctl": (180, 42), "open_by_handle_at": (304, 265), "open_tree": (428, 428), "perf_event_open": (298, 241),
    "personality": (135, 92), "pidfd_getfd": (438, 438), "pidfd_send_signal": (424, 424), "pivot_root": (155, 41),
    "prlimit64": (302, 261), "process_madvise": (440, 440), "process_mrelease": (448, 448),
    "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "ptrace": (101, 117), "quotactl": (179, 60),
    "quotactl_fd": (443, 443), "reboot": (169, 142), "removexattr": (197, 14), "request_key": (249, 218),
    "rt_sigqueueinfo": (129, 138), "rt_tgsigqueueinfo": (297, 240), "sched_setaffinity": (203, 122),
    "sched_setattr": (314, 274), "sched_setparam": (142, 118), "sched_setscheduler": (144, 119), "semget": (64, 190),
    "setdomainname": (171, 162), "sethostname": (170, 161), "setns": (308, 268), "setpriority": (141, 140),
    "settimeofday": (164, 170), "setxattr": (188, 5), "shmget": (29, 194), "socket": (41, 198), "socketpair": (53, 199),
    "statmount": (457, 457), "swapoff": (168, 225), "swapon": (167, 224), "sysctl": (156, None), "syslog": (103, 116),
    "tgkill": (234, 131), "tkill": (200, 130), "umount2": (166, 39), "unshare": (272, 97), "uselib": (134, None),
    "userfaultfd": (323, 282), "utime": (132, None), "utimensat": (280, 88), "utimes": (235, None),
    "vhangup": (153, 58),
}  # fmt: skip

_REFUSED: Final = (
    "acct",
    "add_key",
    "adjtimex",
    "bpf",
    "chroot",
    "clock_adjtime",
    "clock_settime",
    "create_module",
    "delete_module",
    "fanotify_init",
    "finit_module",
    "fsconfig",
    "fsmount",
    "fsopen",
    "fspick",
    "init_module",
    "io_uring_enter",
    "io_uring_register",
    "io_uring_setup",
    "ioperm",
    "iopl",
    "kcmp",
    "kexec_file_load",
    "kexec_load",
    "keyctl",
    "lookup_dcookie",
    "migrate_pages",
    "modify_ldt",
    "mount",
    "mount_setattr",
    "move_mount",
    "move_pages",
    "name_to_handle_at",
    "nfsservctl",
    "open_by_handle_at",
    "open_tree",
    "perf_event_open",
    "pidfd_getfd",
    "pivot_root",
    "process_madvise",
    "process_mrelease",
    "process_vm_readv",
    "process_vm_writev",
    "ptrace",
    "quotactl",
    "quotactl_fd",
    "reboot",
    "request_key",
    "setdomainname",
    "sethostname",
    "setns",
    "settimeofday",
    "swapoff",
    "swapon",
    "sysctl",
    "syslog",
    "umount2",
    "uselib",
    "userfaultfd",
    "vhangup",
)
# Memory and objects that outlive a process or that no limit counts. Programs know what to do without them.
_ABSENT: Final = (
    "clone3",
    "listmount",
    "memfd_create",
    "memfd_secret",
    "mq_open",
    "msgget",
    "semget",
    "shmget",
    "statmount",
)
_SCHEDULING: Final = ("sched_setaffinity", "sched_setattr", "sched_setparam", "sched_setscheduler")
_SIGNALS: Final = ("kill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo")
_MODES: Final = ("chmod", "fchmod", "fchmodat", "fchmodat2", "utime", "utimes", "futimesat", "utimensat")
_OWNERS: Final = ("chown", "lchown", "fchown", "fchownat")
_ATTRIBUTES: Final = ("setxattr", "lsetxattr", "fsetxattr", "removexattr", "lremovexattr", "fremovexattr")

_NEW_NAMESPACES: Final = 0x7E020000
_NEW_TIME: Final = 0x80  # only for unshare: in clone's flags these bits are the signal
_AF_UNIX, _AF_INET, _AF_INET6, _AF_NETLINK = 1, 2, 10, 16
_SOCK_STREAM, _SOCK_DGRAM, _SOCK_SEQPACKET, _SOCK_TYPE = 1, 2, 5, 0xF
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_PRIO_USER, _IOPRIO_USER = 2, 3
_NO_PERSONALITY: Final = (0, 0xFFFFFFFF)  # the ordinary one, and the question which it is


class Reach(NamedTuple):
    """What the program could reach if nothing refused it."""

    network: bool
    shared: bool
    """It sees the processes of the whole machine: there is no pid namespace."""
    same_user: bool
    """It has the server's user."""
    protected: Sequence[int] = ()
    """Processes that it must not signal, where nothing else keeps it from that."""


Instruction = tuple[int, int, int, int]
_LOAD, _EQUAL, _GREATER, _GREATER_EQUAL, _SET, _AND, _RETURN = 0x20, 0x15, 0x25, 0x35, 0x45, 0x54, 0x06
_ALLOW: Final[Instruction] = (_RETURN, 0, 0, 0x7FFF0000)
_KILL: Final[Instruction] = (_RETURN, 0, 0, 0x80000000)


def _error(number: int) -> Instruction:
    return (_RETURN, 0, 0, 0x00050000 | number)


def _argument(index: int) -> Instruction:
    return (_LOAD, 0, 0, 16 + 8 * index)  # the low half; both architectures are little-endian


def _unless(values: Iterable[int], then: Instruction, otherwise: Instruction) -> list[Instruction]:
    """`otherwise` if the loaded value is one of these, else `then`."""
    steps: list[Instruction] = []
    for value in values:
        steps += [(_EQUAL, 0, 1, value & 0xFFFFFFFF), otherwise]
    return [*steps, then]


def _only(index: int, values: Iterable[int], number: int = errno.EPERM) -> list[Instruction]:
    return [_argument(index), *_unless(values, _error(number), _ALLOW)]


def _never(index: int, values: Iterable[int], number: int = errno.EPERM) -> list[Instruction]:
    return [_argument(index), *_unless(values, _ALLOW, _error(number))]


def _without(index: int, bits: int) -> list[Instruction]:
    return [_argument(index), (_SET, 0, 1, bits), _error(errno.EPERM), _ALLOW]


def _rules(reach: Reach) -> dict[str, list[Instruction]]:
    refuse, absent = [_error(errno.EPERM)], [_error(errno.ENOSYS)]
    rules = dict.fromkeys(_REFUSED, refuse) | dict.fromkeys(_ABSENT, absent)
    rules["clone"] = _without(0, _NEW_NAMESPACES)
    rules["unshare"] = _without(0, _NEW_NAMESPACES | _NEW_TIME)
    rules["prlimit64"] = _only(0, [0])
    rules["personality"] = _only(0, _NO_PERSONALITY)
    rules["ioctl"] = _never(1, [_TIOCSTI, _TIOCLINUX])
    # Space that is set aside without being written would be gone before the supervisor looks again.
    rules["fallocate"] = [_error(errno.EOPNOTSUPP)]
    rules["socket"] = _sockets(reach.network)
    # A pair talks to itself; but a datagram socket of a pair can be pointed at any other.
    rules["socketpair"] = [
        _argument(1),
        (_AND, 0, 0, _SOCK_TYPE),
        *_unless([_SOCK_STREAM, _SOCK_SEQPACKET], _error(errno.EPERM), _ALLOW),
    ]
    if reach.shared:
        rules |= dict.fromkeys(_SCHEDULING, _only(0, [0]))
        rules["setpriority"] = [_argument(0), (_EQUAL, 0, 1, _PRIO_USER), _error(errno.EPERM), *_only(1, [0])]
        rules["ioprio_set"] = [_argument(0), (_EQUAL, 0, 1, _IOPRIO_USER), _error(errno.EPERM), *_only(1, [0])]
        rules |= {"tkill": refuse, "pidfd_send_signal": refuse}
        targets = [-1, *(sign * pid for pid in reach.protected for sign in (1, -1))]
        rules |= dict.fromkeys(_SIGNALS, _never(0, targets))
        if reach.same_user:
            ignored, unsupported = [_error(0)], [_error(errno.EOPNOTSUPP)]
            rules |= dict.fromkeys(_MODES, ignored) | dict.fromkeys(_OWNERS, refuse)
            rules |= dict.fromkeys(_ATTRIBUTES, unsupported)
    return rules


def _sockets(network: bool) -> list[Instruction]:
    """Without a network none at all. With one: TCP and UDP, and the kernel's list of interfaces and routes."""
    if not network:
        return [_error(errno.EPERM)]
    refused = _error(errno.EAFNOSUPPORT)
    kinds = [_argument(1), (_AND, 0, 0, _SOCK_TYPE), *_unless([_SOCK_STREAM, _SOCK_DGRAM], _error(errno.EPERM), _ALLOW)]
    routes = [_argument(2), *_unless([0], refused, _ALLOW)]
    return [
        _argument(0),
        (_EQUAL, 0, len(routes), _AF_NETLINK),
        *routes,
        (_EQUAL, 1, 0, _AF_INET),
        (_EQUAL, 0, len(kinds), _AF_INET6),
        *kinds,
        refused,
    ]


def is_known() -> bool:
    """Whether there is a filter for this machine."""
    return MACHINE in _ARCHITECTURES


def program(reach: Reach, machine: str = MACHINE) -> bytes:
    """The filter as the kernel takes it."""
    architecture, column = _ARCHITECTURES[machine]
    steps: list[Instruction] = [
        (_LOAD, 0, 0, 4),
        (_EQUAL, 1, 0, architecture),
        _KILL,  # 32-bit calls have other numbers
        (_LOAD, 0, 0, 0),
    ]
    steps += [(_GREATER_EQUAL, 0, 1, _X32_BIT), _error(errno.ENOSYS), (_GREATER, 0, 1, _NEWEST), _error(errno.ENOSYS)]
    for name, block in _rules(reach).items():
        number = _NUMBERS[name][column]
        if number is not None:
            steps += [(_EQUAL, 0, len(block), number), *block]
    return b"".join(struct.pack("=HBBI", *step) for step in (*steps, _ALLOW))


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]


def install(reach: Reach) -> None:
    """For this process and all it starts, for good. Needs no_new_privs. Raises OSError where there is no seccomp."""
    code = program(reach)
    loaded = _Program(len(code) // 8, code)
    control(PR_SET_SECCOMP, 2, ctypes.addressof(loaded))
