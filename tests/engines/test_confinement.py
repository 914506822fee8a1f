"""A child can't read our keys or other files, open a socket, start a program or dump a core."""

import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from myna.engines.espeak.engine import VOICES, Espeak
from myna.engines.interface import EngineFailed, EngineLimits, Utterance
from myna.engines.pool.pool import Pool
from tests.engines.conftest import child_pool, started
from tests.engines.process_child import Command, Word
from tests.rig.calls import call
from tests.rig.commands import output_of
from tests.rig.processes import children, proc_file
from tests.rig.service import ServiceMaker

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="of Linux")
DENIED = "PermissionError"


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where `readable`, `writable` and `elsewhere` are, each with a file."""
    made = tmp_path_factory.mktemp("confined")
    for name in ("readable", "writable", "elsewhere"):
        (made / name).mkdir()
        (made / name / "file").write_text(f"what is {name}")
    return made


@pytest.fixture(scope="module")
async def pool(folders: Path) -> AsyncIterator[Pool[Word]]:
    """One process for all tests, which survives what they ask of it; it may read `readable` and write
    `writable`."""
    async with started(
        child_pool(job_deadline_s=30), reads=(folders / "readable",), writes=(folders / "writable",)
    ) as pool:
        yield pool


async def done(pool: Pool[Word], what: str, word: object = "") -> str:
    return (await pool.run(Command(what, str(word)), 20)).word


@pytest.mark.parametrize("family", ["AF_INET", "AF_INET6", "AF_UNIX", "AF_NETLINK", "AF_PACKET"])
async def test_a_child_opens_no_socket(pool: Pool[Word], family: str) -> None:
    assert await done(pool, "socket_of", family) == DENIED


async def test_a_child_starts_no_program(pool: Pool[Word]) -> None:
    assert await done(pool, "program", sys.executable) == DENIED


async def test_a_child_reads_and_writes_only_its_own_files(pool: Pool[Word], folders: Path) -> None:
    assert await done(pool, "read", folders / "readable/file") == "what is readable"
    assert await done(pool, "read", folders / "writable/file") == "what is writable"
    assert await done(pool, "read", folders / "elsewhere/file") == DENIED
    assert await done(pool, "read", "/etc/passwd") == DENIED
    assert await done(pool, "read", Path("/proc", str(os.getpid()), "environ")) == DENIED
    assert await done(pool, "write", folders / "writable/ab/new") == "written"
    assert await done(pool, "write", folders / "readable/new") == DENIED
    assert await done(pool, "write", folders / "elsewhere/file") == DENIED
    assert (folders / "elsewhere/file").read_text() == "what is elsewhere"


async def test_a_child_can_signal_only_itself(pool: Pool[Word]) -> None:
    assert await done(pool, "signal_to", os.getpid()) == DENIED


SIGCHLD, CLONE_NEWUSER, CLONE_NEWNET = 17, 0x10000000, 0x40000000
THREAD = 0x00010F00  # with the same memory, files and signals; without a stack it is never created


@pytest.mark.parametrize(
    "attempt",
    [
        *("chmod {file} 511", "fchmod 2 511", "fchmodat -100 {file} 511 0", "chown {file} -1 -1"),
        *("lchown {file} -1 -1", "fchownat -100 {file} -1 -1 0", "utime {file} 0", "utimes {file} 0"),
        *("utimensat -100 {file} 0 0", "setxattr {file} user.a b 1 0", "lsetxattr {file} user.a b 1 0"),
        *("fsetxattr 2 user.a b 1 0", "removexattr {file} user.a", "truncate {file} 0"),
    ],
)
async def test_a_child_cannot_change_metadata_of_files_it_may_not_write(
    pool: Pool[Word], folders: Path, attempt: str
) -> None:
    file = folders / "elsewhere/file"
    before = file.stat()
    assert await done(pool, "libc", attempt.format(file=file)) == "EPERM"
    assert file.stat() == before


@pytest.mark.parametrize(
    "attempt",
    [
        "kill {parent} 0",
        "kill 0 0",
        "kill -1 0",
        "syscall 434 {parent} 0",  # pidfd_open
        "syscall 424 2 0 0 0",  # pidfd_send_signal
        "prlimit {parent} 7 0 0",
        "ptrace 16 {parent} 0 0",
        "process_vm_readv {parent} 0 0 0 0 0",
        "process_vm_writev {parent} 0 0 0 0 0",
        "setpriority 0 {parent} 19",
        "sched_setaffinity {parent} 0 0",
        "sched_setscheduler {parent} 0 0",
        "fcntl 2 8 {parent}",  # F_SETOWN: who gets a descriptor's signals
        "unshare {namespace}",
        "unshare 0",
        "setns 2 0",
        "ioctl 2 21522 0",  # TIOCSTI: types into the terminal
        "ioctl 0 35073 0",  # FIOSETOWN: F_SETOWN of a socket
        "ioctl 0 35074 0",  # SIOCSPGRP: the same
        "socketpair 1 1 0 0",
        "socketpair 1 2 0 0",
        "connect 0 address 2",
        "bind 0 address 2",
        "sendto 0 word 4 0 address 2",
        "sendto 0 word 4 0 4294967296 2",  # an address whose lower half is 0
        "sendmsg 0 0 0",
        "sendmmsg 0 0 1 0",
    ],
)
async def test_a_child_reaches_no_other_process(pool: Pool[Word], attempt: str) -> None:
    said = await done(pool, "libc", attempt.format(parent=os.getpid(), namespace=CLONE_NEWUSER))
    assert said == "EPERM"


@pytest.mark.parametrize(
    "flags",
    [SIGCHLD, SIGCHLD | CLONE_NEWUSER, SIGCHLD | CLONE_NEWUSER | CLONE_NEWNET, THREAD | CLONE_NEWUSER],
)
async def test_a_child_makes_no_process_and_no_namespace(pool: Pool[Word], flags: int) -> None:
    assert await done(pool, "new_process", flags) == "EPERM"


async def test_a_child_may_make_the_system_calls_its_libraries_need(pool: Pool[Word]) -> None:
    assert await done(pool, "new_thread", "said in a thread") == "said in a thread"
    assert await done(pool, "libc", "prlimit 0 7 0 0") == "0"
    assert await done(pool, "libc", "raise 0") == "0"
    assert await done(pool, "libc", "send 0 nothing 0 0") in ("0", "ENOTSOCK")
    assert await done(pool, "libc", "sched_getaffinity 0 0 0") == "EINVAL"


async def test_threads_that_a_module_starts_are_confined_too(pool: Pool[Word], folders: Path) -> None:
    assert await done(pool, "read_in_thread", folders / "readable/file") == "what is readable"
    assert await done(pool, "read_in_thread", folders / "elsewhere/file") == DENIED


CONFINED = """
import os, signal, sys, threading
from myna.lib import sandbox
{before}
confined = sandbox.confine(sandbox.AllowedPaths())
{after}
"""


def confined(after: str, before: str = "") -> subprocess.CompletedProcess[str]:
    """Runs a process that is confined between the two pieces of code."""
    program = CONFINED.format(before=before, after=after)
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)


def test_a_thread_started_before_the_confinement_is_reported() -> None:
    """Landlock restricts the calling thread only, so the earlier thread can read any file."""
    before = """
go = threading.Event()
thread = threading.Thread(target=lambda: (go.wait(), print(open("/etc/passwd").name)))
thread.start()
"""
    done = confined("go.set(); thread.join(); print(confined)", before)
    assert done.stdout == ("/etc/passwd\nnot confined from: files of others in threads that ran before (1)\n")


def test_landlock_without_signal_scopes_is_reported_and_the_filter_denies_signals() -> None:
    older = "sandbox._landlock_abi = lambda: 5"
    done = confined("print(confined); os.kill(os.getppid(), 0)", older)
    assert done.stdout == (
        "confined by a system call filter and Landlock ABI 5 (before ABI 6: signals by the filter alone)\n"
    )
    assert done.stderr.endswith("PermissionError: [Errno 1] Operation not permitted\n")


def test_missing_landlock_and_an_unknown_processor_are_reported() -> None:
    without = "sandbox._landlock_abi = lambda: -1; sandbox._MACHINES.clear()"
    done = confined("print(confined)", without)
    assert done.stdout == (
        "not confined from: files of others, sockets, other programs and processes, signals, owners and"
        " modes of files\n"
    )


async def test_a_child_dumps_no_core_and_gains_no_privileges(pool: Pool[Word]) -> None:
    assert await done(pool, "dropped_privileges") == "core (0, 0), dumpable 0, no new privileges 1"


async def test_a_child_sees_no_key_of_an_upstream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "MYNA_CHAT_KEY", "THE_KEY_OF_A_CHANNEL", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "secret")
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    async with started(child_pool(job_deadline_s=30), reads=()) as pool:
        seen = await done(pool, "all_environ")
    assert "secret" not in seen
    assert "LC_ALL=C.UTF-8" in seen


async def test_the_embedded_voice_writes_only_to_allowed_folders(tmp_path: Path) -> None:
    own, elsewhere = tmp_path / "audio", tmp_path / "elsewhere"
    for folder in (own, elsewhere):
        folder.mkdir()
    async with started(
        Espeak(EngineLimits(processes=1, queue_max=5, job_deadline_s=60)), writes=(own,)
    ) as espeak:
        for number, voice in enumerate(VOICES):
            utterance = Utterance("你好，2024年有1/3。", voice.voice_id, 0.3)
            assert (await espeak.speak(utterance, own / "ab" / f"{number}.mp3", 60)).seconds > 0.5
        with pytest.raises(EngineFailed, match=r"^Permission denied$"):
            await espeak.speak(utterance, elsewhere / "said.mp3", 60)


def test_the_service_dumps_no_core_and_its_audio_is_private(make_service: ServiceMaker) -> None:
    service = make_service(chat_url="parrot:")
    audio = service.folder / "data" / "audio"
    audio.mkdir(mode=0o755)
    service.start()
    key = service.account(units=10).key().plain
    assert call("POST", f"{service.base_url}/tts", key=key, data={"text": "你好"}).status == 200
    modes = {(path.is_dir(), path.stat().st_mode & 0o777) for path in (audio, *audio.rglob("*"))}
    assert modes == {(True, 0o700), (False, 0o600)}
    for pid in (service.pid, *children(service.pid)):
        (limit,) = (line for line in proc_file(pid, "limits").splitlines() if line.startswith("Max core"))
        assert limit.split()[4:6] == ["0", "0"]
    assert "processes of myna.engines.espeak.child are confined by a system call filter and" in service.stderr


INSTALLED = """
import asyncio
from pathlib import Path
from myna.engines.espeak.engine import EspeakConfig
from myna.engines.interface import EngineLimits
from myna.lib.sandbox import AllowedPaths

async def main():
    engine = EspeakConfig().build(EngineLimits(processes=1, queue_max=1, job_deadline_s=60), Path())
    try:
        await engine.start(AllowedPaths.of())
    finally:
        await engine.close()

asyncio.run(main())
"""


def test_a_child_reads_the_package_where_it_is_installed(tmp_path: Path) -> None:
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    output_of([sys.executable, "-c", INSTALLED], env, tmp_path)
