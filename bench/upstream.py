"""nginx: as the upstream that answers every chat at once, and as a proxy that does nothing else.

One process without a master, so that its time and memory are its own.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from bench import processes
from bench.processes import CannotRun, Started

FAILING = "1%"
ANSWER = (
    '{"id":"chatcmpl-1","object":"chat.completion","created":1700000000,"model":"m","choices":[{"index":0,'
    '"message":{"role":"assistant","content":"The quick brown fox jumps over the lazy dog, 你好。"},'
    '"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":12,"total_tokens":21}}'
)

_HEAD = """daemon off; master_process off; worker_processes 1;
pid {folder}/nginx.pid; error_log {folder}/nginx.log;
worker_rlimit_nofile 16384; events {{ worker_connections 8192; }}
"""
_COMMON = """access_log off; keepalive_requests 100000000; keepalive_timeout 1h;
  client_max_body_size 8m; client_body_buffer_size 512k; client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u;
  scgi_temp_path {folder}/s;"""
_UPSTREAM = """http {{
  {common}
  split_clients "$request_id" $broken {{ {failing} 1; * 0; }}
  server {{
    listen 127.0.0.1:{port}; default_type application/json;
    location / {{ if ($broken) {{ return 500 '{{}}'; }} return 200 '{answer}'; }}
  }}
}}"""
_PROXY = """http {{
  {common}
  upstream target {{ server {target}; keepalive 1024; keepalive_requests 100000000; }}
  server {{
    listen 127.0.0.1:{port};
    location / {{ proxy_pass http://target; proxy_http_version 1.1; proxy_set_header Connection "";
      proxy_buffering {buffering}; }}
  }}
}}"""


@contextlib.contextmanager
def instant(folder: Path) -> Iterator[str]:
    """The upstream on the load's core; one call in a hundred gets a 500. Yields `http://HOST:PORT`."""
    with _nginx(folder / "upstream", _UPSTREAM, processes.cores().load, failing=FAILING) as (url, _):
        yield url


@contextlib.contextmanager
def proxy(folder: Path, target_url: str, *, buffering: bool = True) -> Iterator[tuple[str, Started]]:
    """nginx in front of `target_url`, on the core of the program under test."""
    values = {"target": target_url.removeprefix("http://"), "buffering": "on" if buffering else "off"}
    with _nginx(folder / "proxy", _PROXY, processes.cores().program, **values) as found:
        yield found


@contextlib.contextmanager
def _nginx(folder: Path, http: str, on: set[int], **values: str) -> Iterator[tuple[str, Started]]:
    if not processes.installed("nginx"):
        raise CannotRun("nginx isn't installed")
    folder.mkdir()
    port = processes.free_port()
    common = _COMMON.format(folder=folder)
    answer = ANSWER.replace("'", "\\'")
    text = _HEAD.format(folder=folder) + http.format(common=common, port=port, answer=answer, **values)
    config = folder / "nginx.conf"
    config.write_text(text, encoding="utf-8")
    command = ["nginx", "-p", str(folder), "-c", str(config)]
    with processes.running(command, on, folder / "out", {}) as program:
        processes.wait_for(f"http://127.0.0.1:{port}/", program)
        yield f"http://127.0.0.1:{port}", program
