"""A seccomp filter for processes that decode untrusted files: which system calls fail, and why.

It denies by list. The runtimes of neural models make calls that differ by version and driver, so a list of
what is allowed would break them at each update.
"""

import ctypes
import errno
import os
import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

# By name, the numbers on x86-64 and arm64 (syscall_64.tbl and asm-generic/unistd.h); -1: there is none.
# fmt: off
_DENIED: Final = {
    # Network: no socket of any family, and what an inherited one could be used for. Standard input and output
    # are stream sockets where the parent runs uvloop, read and written like files. For sendto see below.
    "socket": (41, 198), "socketpair": (53, 199), "connect": (42, 203), "bind": (49, 200),
    "sendmsg": (46, 211), "sendmmsg": (307, 269),
    # Programs and processes, which would outlive this one. For threads see clone below.
    "execve": (59, 221), "execveat": (322, 281), "fork": (57, -1), "vfork": (58, -1),
    # Memory, descriptors and signals of other processes.
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "process_madvise": (440, 440), "kcmp": (312, 272), "pidfd_open": (434, 434), "pidfd_getfd": (438, 438),
    "pidfd_send_signal": (424, 424), "setpriority": (141, 140), "ioprio_set": (251, 30),
    # Owner, mode, times and attributes of any file of the same user: Landlock has no rule for these, nor,
    # before ABI 3, for truncate. Children only make files; the umask sets their modes.
    "chmod": (90, -1), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452),
    "chown": (92, -1), "fchown": (93, 55), "lchown": (94, -1), "fchownat": (260, 54),
    "utime": (132, -1), "utimes": (235, -1), "futimesat": (261, -1), "utimensat": (280, 88),
    "setxattr": (188, 5), "lsetxattr": (189, 6), "fsetxattr": (190, 7), "setxattrat": (463, 463),
    "removexattr": (197, 14), "lremovexattr": (198, 15), "fremovexattr": (199, 16),
    "removexattrat": (466, 466), "file_setattr": (469, 469), "truncate": (76, 45),
    # Namespaces and mounts: inside them a process has capabilities.
    "unshare": (272, 97), "setns": (308, 268), "mount": (165, 40), "umount2": (166, 39),
    "pivot_root": (155, 41), "chroot": (161, 51), "move_mount": (429, 429), "open_tree": (428, 428),
    "open_tree_attr": (467, 467), "fsopen": (430, 430), "fspick": (433, 433), "mount_setattr": (442, 442),
    # Parts of the kernel that have been a way out of filters, and the user's keys.
    "io_uring_setup": (425, 425), "bpf": (321, 280), "perf_event_open": (298, 241),
    "userfaultfd": (323, 282), "open_by_handle_at": (304, 265),
    "keyctl": (250, 219), "add_key": (248, 217), "request_key": (249, 218),
}
# Signals go to this process alone, by its number: abort() and raise() send them.
_TO_ITSELF: Final = {
    "kill": (62, 129), "tkill": (200, 130), "tgkill": (234, 131),
    "rt_sigqueueinfo": (129, 138), "rt_tgsigqueueinfo": (297, 240),
}
# Limits, scheduling and memory of this process alone, by its number or by 0.
_ON_ITSELF: Final = {
    "prlimit64": (302, 261), "sched_setaffinity": (203, 122), "sched_setscheduler": (144, 119),
    "sched_setparam": (142, 118), "sched_setattr": (314, 274), "migrate_pages": (256, 238),
    "move_pages": (279, 239),
}
# fmt: on
# Flags of clone3 are in memory, which a filter can't read. Without it the C library takes clone.
_CLONE: Final = (56, 220)
_CLONE3: Final = (435, 435)
_CLONE_THREAD: Final = 0x00010000
_NEW_NAMESPACES: Final = 0x7E020000
# send(2) is sendto(2) without an address: only to the socket's own peer.
_SENDTO: Final = (44, 206)
# Inherited descriptors must not be used to send signals to a process or input to the terminal.
_FCNTL, _IOCTL = (72, 25), (16, 29)
_F_SETOWN, _F_SETOWN_EX = 8, 15
_FIOSETOWN, _SIOCSPGRP = 0x8901, 0x8902
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C

# seccomp(2), bpf_common.h; offsets are those of struct seccomp_data on a little-endian machine.
_SET_MODE_FILTER, _FILTER_FLAG_TSYNC = 1, 1
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER_AT, _ARCH_AT, _FIRST_AT, _SECOND_AT, _FIFTH_AT, _HIGH_HALF = 0, 4, 16, 24, 48, 4
_X32: Final = 0x40000000


class _Step(NamedTuple):
    """An instruction: its code, how many to skip where it is true and where it is false, its operand."""

    code: int
    if_true: int
    if_false: int
    operand: int


_ALLOW: Final = _Step(_RETURN, 0, 0, 0x7FFF0000)
_DENY: Final = _Step(_RETURN, 0, 0, 0x00050000 | errno.EPERM)
_MISSING: Final = _Step(_RETURN, 0, 0, 0x00050000 | errno.ENOSYS)


class _Machine(NamedTuple):
    """An architecture: its number in audit.h, its seccomp(2), and the column of the tables above."""

    arch: int
    seccomp: int
    column: int


_MACHINES: Final = {"x86_64": _Machine(0xC000003E, 317, 0), "aarch64": _Machine(0xC00000B7, 277, 1)}


def deny_system_calls() -> bool:
    """From here on the calls above fail with EPERM in every thread, for good. False where the kernel has no
    seccomp or the architecture isn't known here; new privileges must have been given up before."""
    machine = _MACHINES.get(os.uname().machine)
    if machine is None:
        return False
    steps = list(_program(machine))
    program = b"".join(struct.pack("=HBBI", *step) for step in steps)
    memory = ctypes.create_string_buffer(program, len(program))
    filters = struct.pack("@HP", len(steps), ctypes.addressof(memory))
    seccomp = ctypes.CDLL(None, use_errno=True).syscall
    return bool(seccomp(machine.seccomp, _SET_MODE_FILTER, _FILTER_FLAG_TSYNC, filters) == 0)


def _program(machine: _Machine) -> Iterator[_Step]:
    """Yields the steps of the filter: for each system call a test of its number, then its action."""
    yield _Step(_LOAD, 0, 0, _ARCH_AT)
    yield from (_Step(_EQUAL, 1, 0, machine.arch), _DENY)  # another architecture's calls have other numbers
    yield _Step(_LOAD, 0, 0, _NUMBER_AT)
    yield from (_Step(_AT_LEAST, 0, 1, _X32), _DENY)
    for numbers, actions in _rules(os.getpid()):
        number = numbers[machine.column]
        if number >= 0:
            yield _Step(_EQUAL, 0, len(actions), number)
            yield from actions
    yield _ALLOW


def _rules(pid: int) -> Iterator[tuple[tuple[int, int], tuple[_Step, ...]]]:
    for numbers in _DENIED.values():
        yield numbers, (_DENY,)
    for numbers in _TO_ITSELF.values():
        yield numbers, _where(_FIRST_AT, (pid,), then=_ALLOW, otherwise=_DENY)
    for numbers in _ON_ITSELF.values():
        yield numbers, _where(_FIRST_AT, (0, pid), then=_ALLOW, otherwise=_DENY)
    yield _FCNTL, _where(_SECOND_AT, (_F_SETOWN, _F_SETOWN_EX), then=_DENY, otherwise=_ALLOW)
    denied = (_TIOCSTI, _TIOCLINUX, _FIOSETOWN, _SIOCSPGRP)
    yield _IOCTL, _where(_SECOND_AT, denied, then=_DENY, otherwise=_ALLOW)
    low, high = _Step(_LOAD, 0, 0, _FIFTH_AT), _Step(_LOAD, 0, 0, _FIFTH_AT + _HIGH_HALF)
    yield _SENDTO, (low, _Step(_EQUAL, 0, 2, 0), high, _Step(_EQUAL, 1, 0, 0), _DENY, _ALLOW)
    yield _CLONE3, (_MISSING,)
    new_namespace = _Step(_ANY_BIT, 1, 0, _NEW_NAMESPACES)
    thread = _Step(_ANY_BIT, 1, 0, _CLONE_THREAD)
    yield _CLONE, (_Step(_LOAD, 0, 0, _FIRST_AT), new_namespace, thread, _DENY, _ALLOW)


def _where(argument_at: int, values: tuple[int, ...], *, then: _Step, otherwise: _Step) -> tuple[_Step, ...]:
    """`then` if the argument is one of the values. The kernel reads its lower 32 bits alone; so does this."""
    tests = (_Step(_EQUAL, len(values) - index, 0, value) for index, value in enumerate(values))
    return (_Step(_LOAD, 0, 0, argument_at), *tests, otherwise, then)
