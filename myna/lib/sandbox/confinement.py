"""Confines processes that decode untrusted files, and selects their environment variables.

Before such a process imports a decoder, it drops new privileges, core dumps, sockets, other programs and
processes, and all files but those of its work: by prctl(2), a seccomp filter, and Landlock if the kernel has
it. This is irreversible.
"""

import ctypes
import os
import resource
import struct
import sys
from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

import myna
from myna.lib.sandbox.system_calls import deny_system_calls

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
_PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS = 4, 38
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
        return cls(tuple(map(_packed, reads)), tuple(map(_packed, writes)))


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


def _libc() -> Any:
    return ctypes.CDLL(None, use_errno=True)


def _packed(path: Path) -> bytes:
    return os.fsencode(path.absolute())


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
