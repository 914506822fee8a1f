"""What child processes that decode untrusted files may do, and their environment variables.

Before such a process imports a decoder, it drops new privileges, core dumps, sockets, other programs and
processes, and all files but those of its work: by prctl(2), a seccomp filter, and Landlock if the kernel has
it. This is irreversible.

The filter denies by list. The runtimes of neural models make calls that differ by version and driver, so a
list of what is allowed would break them at each update.
"""

import contextlib
import ctypes
import errno
import os
import resource
import signal
import struct
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

from msgspec import Struct

import myna

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
_PASSED_ON: Final = frozenset(
    (
        "PATH", "HOME", "LANG", "LANGUAGE", "TZ", "TMPDIR", "TMP", "TEMP", "LD_LIBRARY_PATH",
        "DYLD_LIBRARY_PATH", "PYTHONHOME", "PYTHONPATH", "PYTHONDONTWRITEBYTECODE",
        "PYTHONPYCACHEPREFIX", "VIRTUAL_ENV", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS",
        "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "CUDA_HOME", "CUDA_PATH", "CUDA_CACHE_PATH",
        "NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES",
    )
)  # fmt: skip
"""Full names: a prefix would match secrets such as NVIDIA_API_KEY."""
_PASSED_ON_PREFIXES: Final = ("LC_",)
# prctl(2), landlock(7)
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS = 1, 4, 38
_LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT = 444, 445, 446
_LANDLOCK_VERSION, _PATH_BENEATH = 1, 1
_WRITE_FILE, _READ_FILE, _READ_DIR, _REMOVE_FILE = 1 << 1, 1 << 2, 1 << 3, 1 << 5
_MAKE_DIR, _MAKE_REG, _TRUNCATE = 1 << 7, 1 << 8, 1 << 14
_READING: Final = _READ_FILE | _READ_DIR
_WRITING: Final = _READING | _WRITE_FILE | _REMOVE_FILE | _MAKE_DIR | _MAKE_REG | _TRUNCATE
_OF_A_FILE: Final = _READ_FILE | _WRITE_FILE | _TRUNCATE
_RIGHTS_OF_VERSION: Final = {1: 1 << 13, 2: 1 << 14}
_RIGHTS_SINCE: Final = 1 << 15
_ALL_TCP, _ALL_SCOPES = 0b11, 0b11
_TCP_SINCE, _SCOPES_SINCE = 4, 6
# Files that Python and the libraries read, in addition to those below sys.prefix.
_SYSTEM: Final = (
    *("/usr", "/lib", "/lib64", "/etc/ld.so.cache", "/etc/localtime", "/dev/urandom", "/dev/zero"),
    *("/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/sys/devices/system"),
)
_FILES: Final = "files of others"
_SYSTEM_CALLS: Final = "sockets, other programs and processes, signals, owners and modes of files"


def limit_resources(*, memory_max_bytes: int, file_max_bytes: int) -> None:
    """Disables core dumps, and limits the files that this process writes, and its memory beyond what it has
    loaded."""
    _lower(resource.RLIMIT_CORE, 0)
    _lower(resource.RLIMIT_FSIZE, file_max_bytes)
    if sys.platform == "linux":  # other systems don't enforce RLIMIT_AS
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        _lower(resource.RLIMIT_AS, pages * resource.getpagesize() + memory_max_bytes)


def _lower(limit: int, to: int) -> None:
    hard = resource.getrlimit(limit)[1]
    lower = to if hard == resource.RLIM_INFINITY else min(to, hard)
    resource.setrlimit(limit, (lower, lower))


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


class Confinement(Struct, frozen=True, array_like=True):
    """What could not be dropped, and the Landlock ABI that restricts files; 0 without Landlock."""

    kept: list[str] = []
    landlock_abi: int = 0

    def __str__(self) -> str:
        if self.kept:
            return f"not confined from: {', '.join(self.kept)}"
        scopes = "" if self.landlock_abi >= _SCOPES_SINCE else " (before ABI 6: signals by the filter alone)"
        return f"confined by a system call filter and Landlock ABI {self.landlock_abi}{scopes}"


class AllowedPaths(Struct, frozen=True, array_like=True):
    """The files and folder trees that a child may read, and those that it may also write, encoded by
    `os.fsencode`. The writable ones must exist."""

    reads: tuple[bytes, ...] = ()
    writes: tuple[bytes, ...] = ()

    @classmethod
    def of(cls, *, reads: tuple[Path, ...] = (), writes: tuple[Path, ...] = ()) -> "AllowedPaths":
        packed = (tuple(os.fsencode(path.absolute()) for path in paths) for paths in (reads, writes))
        return cls(*packed)


def child_environ(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that a child gets: an allowlist, so that no secret is passed on."""
    return {
        name: value
        for name, value in environ.items()
        if name in _PASSED_ON or name.startswith(_PASSED_ON_PREFIXES)
    }


def keep_to_ourselves() -> None:
    """Disables core dumps of this process and its children, reads of its memory by other processes of the
    user, and access of other users to files that it creates."""
    os.umask(0o077)
    no_core_dumps()


def end_with_parent(parent_pid: int, number: signal.Signals) -> None:
    """On Linux the kernel sends this process the signal when the thread that started it ends, even by
    SIGKILL."""
    if sys.platform == "linux":
        _libc().prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)
        if os.getppid() != parent_pid:  # it ended before the line above
            os.kill(os.getpid(), number)


def no_core_dumps() -> None:
    """Disables core dumps. On Linux, only root may read this process's memory from now on."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        _libc().prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def confine(files: AllowedPaths | None) -> Confinement:
    """Drops irreversibly what a child does not need. Without `files`, files are not restricted.

    Landlock applies to the calling thread and those that it starts, so call this before threads are started.
    """
    no_core_dumps()
    if sys.platform != "linux":
        return Confinement(kept=["new privileges", _FILES, _SYSTEM_CALLS])
    threads = len(os.listdir("/proc/self/task"))  # noqa: PTH208  names alone
    kept = []
    if _libc().prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        kept.append("new privileges")
    landlock = 0 if files is None else _open_only(files)
    if not landlock:
        kept.append(_FILES)
    elif threads > 1:
        kept.append(f"{_FILES} in threads that ran before ({threads - 1})")
    if not deny_system_calls():
        kept.append(_SYSTEM_CALLS)
    return Confinement(kept, landlock)


@contextlib.contextmanager
def unnamed_file(parts: Iterable[bytes | memoryview]) -> Iterator[str]:
    """The path of a file with this content, for a library that reads files by their paths: in memory on
    Linux, where the process may write no file."""
    with _new_file() as file:
        file.writelines(parts)
        file.flush()
        yield file.name if isinstance(file.name, str) else f"/proc/self/fd/{file.name}"


def _new_file() -> IO[bytes]:
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("myna"), "wb")
    return tempfile.NamedTemporaryFile()


def _libc() -> Any:
    return ctypes.CDLL(None, use_errno=True)


def _landlock_abi() -> int:
    """The version of Landlock in this kernel, -1 without it."""
    return int(_libc().syscall(_LANDLOCK_CREATE, None, 0, _LANDLOCK_VERSION))


def _open_only(files: AllowedPaths) -> int:
    """Denies access to all other files. Returns the Landlock ABI that enforces it, 0 without Landlock."""
    syscall, version = _libc().syscall, _landlock_abi()
    if version < 1:
        return 0
    rights = _RIGHTS_OF_VERSION.get(version, _RIGHTS_SINCE) - 1
    tcp = _ALL_TCP if version >= _TCP_SINCE else 0
    scopes = _ALL_SCOPES if version >= _SCOPES_SINCE else 0
    attributes = struct.pack("=QQQ", rights, tcp, scopes)
    ruleset = syscall(_LANDLOCK_CREATE, attributes, len(attributes), 0)
    if ruleset < 0:
        return 0
    try:
        for path in (*_readable(), *files.reads):
            _allow(syscall, ruleset, path, _READING & rights)
        for path in (*files.writes, b"/dev/null"):
            _allow(syscall, ruleset, path, _WRITING & rights)
        return version if syscall(_LANDLOCK_RESTRICT, ruleset, 0) == 0 else 0
    finally:
        os.close(ruleset)


def _readable() -> list[bytes]:
    """The files of the interpreter and the packages, and the folders that the operator has set for them."""
    named = [os.environ.get(name, "").split(os.pathsep) for name in ("LD_LIBRARY_PATH", "PYTHONPATH")]
    packages = [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
    paths = (*_SYSTEM, sys.prefix, sys.base_prefix, *myna.__path__, *packages, *chain(*named))
    return [os.fsencode(path) for path in paths if path]


def _allow(syscall: Any, ruleset: int, path: bytes, rights: int) -> None:
    """Adds a rule; a missing file needs none."""
    try:
        handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        if not os.path.isdir(path):  # noqa: PTH112  bytes
            rights &= _OF_A_FILE
        rule = struct.pack("=Qi", rights, handle)
        if syscall(_LANDLOCK_ADD, ruleset, _PATH_BENEATH, rule, 0) != 0:
            raise OSError(ctypes.get_errno(), "a rule of Landlock can't be added")
    finally:
        os.close(handle)
