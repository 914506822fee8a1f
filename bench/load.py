"""wrk as the load: what it sends, and the figures of one round."""

import math
import re
import statistics
import subprocess
import time
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec

from bench import processes
from bench.processes import CannotRun, Program

S = TypeVar("S", bound=msgspec.Struct)
TIMEOUT_S = 30
WARM_S = 2
ANSWERS_EACH, SECONDS_MAX = 3, 20
IDLE_CHECK_S, IDLE_CPU_SHARE, DRAIN_MAX_S = 0.1, 0.3, 20.0
CHAT_PATH = "/v1/chat/completions"
CHAT_BODY = (
    '{"model":"svc-chat","messages":[{"role":"system","content":"You are a helpful assistant."},'
    '{"role":"user","content":"Tell me in one sentence what the fox does, please. 谢谢"}],"temperature":0.2}'
)
KEY_FORMAT = "myna_%040x"
"""Key number n of the load: the load needs no list, and the hashes are spread all the same."""

_LUA = """local head, tail = [==[{head}]==], [==[{tail}]==]
local format, random = string.format, math.random
head, tail = head:gsub('\\n', '\\r\\n'), tail:gsub('\\n', '\\r\\n', {tail_lines})
request = function() return head .. {authorization} .. tail end
done = function(s, l, r)
  local e = s.errors
  local broken = e.connect + e.read + e.write + e.timeout
  io.write(format('FIGURES %d %d %d %d %d %d\\n', s.requests, e.status, broken, s.duration,
    l:percentile(50), l:percentile(99)))
end
"""


class Work(NamedTuple):
    """The request of the load. With `keys`, each call has the key of a random number from 1 to `keys`; else
    all calls have `bearer`."""

    method: str = "POST"
    path: str = CHAT_PATH
    body: str = CHAT_BODY
    keys: int = 0
    bearer: str = ""
    headers: tuple[tuple[str, str], ...] = ()


class Figures(msgspec.Struct, frozen=True):
    """One round of the load, or the median of several. CPU is seconds for 1,000 answers."""

    calls_s: float
    failed_share: float
    p50_ms: float
    p99_ms: float
    cpu_s_per_1000: float
    database_cpu_s_per_1000: float = 0.0


class Target(NamedTuple):
    """A running program, the request to send, and its database server, if that is a separate program."""

    name: str
    port: int
    program: Program
    work: Work
    script: Path
    database: Program | None = None


def target_of(
    name: str, port: int, program: Program, folder: Path, work: Work, database: Program | None = None
) -> Target:
    """A target with its wrk script in `folder`."""
    return Target(
        name=name,
        port=port,
        program=program,
        work=work,
        script=script(folder / f"{name}-{port}.lua", work),
        database=database,
    )


def ask(target: Target) -> bytes:
    """Sends one call of the load. Returns its body. Raises OSError, also for an error status."""
    work = target.work
    bearer = KEY_FORMAT % 1 if work.keys else work.bearer
    headers = {"Authorization": f"Bearer {bearer}", "Content-Type": "application/json", **dict(work.headers)}
    body = work.body.encode() if work.method == "POST" else None
    url = f"http://127.0.0.1:{target.port}{work.path}"
    request = urllib.request.Request(url, body, headers, method=work.method)
    with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
        return bytes(answer.read())


def script(path: Path, work: Work) -> Path:
    """Writes the wrk script of `work` to `path`."""
    headers = [f"{work.method} {work.path} HTTP/1.1", "Host: 127.0.0.1"]
    headers += [f"{name}: {value}" for name, value in work.headers]
    body = work.body if work.method == "POST" else ""
    if body:
        headers += ["Content-Type: application/json", f"Content-Length: {len(body.encode())}"]
    head = "\n".join([*headers, "Authorization: Bearer "])
    number = f"format('{KEY_FORMAT}', random({work.keys}))"
    authorization = number if work.keys else f"'{work.bearer}'"
    # Lua drops the newline right after the bracket, so there is one more.
    text = _LUA.format(head=head, tail="\n\n\n" + body, tail_lines=2, authorization=authorization)
    path.write_text(text, encoding="utf-8")
    return path


class Running:
    """wrk, running against a target."""

    def __init__(self, target: Target, connections: int, seconds: int) -> None:
        target.program.resume()
        self._target = target
        self._cpu_s, self._database_cpu_s = self._used()
        place = ",".join(map(str, processes.cores().load))
        command = [
            "taskset", "-c", place, "wrk", "-t1", f"-c{connections}", f"-d{seconds}s",
            "--timeout", f"{TIMEOUT_S}s", "-s", str(target.script), f"http://127.0.0.1:{target.port}",
        ]  # fmt: skip
        self._wrk = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def figures(self) -> Figures:
        """Waits for the end of the round."""
        said, _ = self._wrk.communicate()
        found = re.search(r"FIGURES (\d+) (\d+) (\d+) (\d+) (\d+) (\d+)", said)
        if not found:
            raise CannotRun(f"wrk said something unexpected: {said}")
        cpu_s, database_cpu_s = self._used()
        requests, refused, broken, micros, p50, p99 = map(int, found.groups())
        thousands = max(requests, 1) / 1000
        return Figures(
            calls_s=requests / micros * 1e6,
            failed_share=(refused + broken) / max(requests + broken, 1),
            p50_ms=p50 / 1000,
            p99_ms=p99 / 1000,
            cpu_s_per_1000=(cpu_s - self._cpu_s) / thousands,
            database_cpu_s_per_1000=(database_cpu_s - self._database_cpu_s) / thousands,
        )

    def _used(self) -> tuple[float, float]:
        database = self._target.database
        return self._target.program.cpu_s(), database.cpu_s() if database else 0.0


def one_round(target: Target, connections: int, seconds: int) -> Figures:
    """One run of wrk against the target, from the load's core."""
    return Running(target, connections, seconds).figures()


def medians(rounds: Sequence[S]) -> S:
    """The median of each figure by itself."""
    columns = zip(*map(msgspec.structs.astuple, rounds), strict=True)
    return type(rounds[0])(*map(statistics.median, columns))


def alternate(
    targets: Sequence[Target],
    connections: int,
    rounds: int,
    seconds: int,
    between: Callable[[], None] = lambda: None,
) -> dict[str, list[Figures]]:
    """Interleaved rounds, so that a drift of the machine's speed affects all targets alike. Every second turn
    has the reverse order, so that no target always follows the same one. The others are stopped during
    a round. A first short round of each is discarded; `between` runs after each turn.

    A round is `seconds` long, or as long as it takes a slow target to answer each connection a few times.
    """
    found: dict[str, list[Figures]] = {target.name: [] for target in targets}
    lasts = dict.fromkeys(found, min(WARM_S, seconds))
    for target in targets:
        target.program.pause()
    for number in range(rounds + 1):
        for target in targets if number % 2 else reversed(targets):
            figures = one_round(target, connections, lasts[target.name])
            _let_finish(target)
            if number:
                found[target.name].append(figures)
            else:
                lasts[target.name] = _long_enough(figures.calls_s, connections, seconds)
        between()
    return found


def _long_enough(calls_s: float, connections: int, seconds: int) -> int:
    wanted = math.ceil(ANSWERS_EACH * connections / calls_s) if calls_s else SECONDS_MAX
    return max(seconds, min(wanted, SECONDS_MAX))


def _let_finish(target: Target) -> None:
    """Stops the target once it has finished the requests that were open when the load disconnected."""
    until = time.monotonic() + DRAIN_MAX_S
    while time.monotonic() < until:
        before = target.program.cpu_s()
        time.sleep(IDLE_CHECK_S)
        if target.program.cpu_s() - before < IDLE_CPU_SHARE * IDLE_CHECK_S:
            break
    target.program.pause()
