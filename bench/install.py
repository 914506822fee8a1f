"""`make bench-setup`: nginx and wrk from Debian, the peers in throw-away environments under .dev/bench.

What can't be installed is said and left out: the benchmark then names it as missing.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from bench import processes

PEERS = Path(__file__).parents[1] / ".dev" / "bench"
LITELLM, PORTKEY, COMPILED = PEERS / "litellm", PEERS / "portkey", PEERS / "compiled"
GATEWAY = PORTKEY / "node_modules" / "@portkey-ai" / "gateway"
PORTKEY_PACKAGE = """{
  "private": true,
  "dependencies": {"@portkey-ai/gateway": "*"},
  "overrides": {"@hono/node-server": "1.13.8"}
}
"""
"""Newer versions of its HTTP server, which its own range allows, answer each stream with a 500:
the headers of a response are then those of `fetch`, which can't be changed."""
DEBIAN = {"nginx": "nginx-light", "wrk": "wrk"}


def main() -> int:
    """Exit 1 if anything is missing in the end."""
    missing = [
        _debian(),
        _wheels("LiteLLM", LITELLM / "bin" / "litellm", "litellm[proxy]"),
        _wheels("gateways in Rust and Go", COMPILED / "bin" / "ferrogw", "rolter", "smg", "ferrogw"),
        _portkey(),
    ]
    for what in filter(None, missing):
        print(f"not installed: {what}")
    return int(any(missing))


def node() -> str:
    """Node.js: the one on the path, else the one that a wheel brought."""
    return shutil.which("node") or str(Path(sys.executable).with_name("node"))


def _debian() -> str:
    wanted = [package for command, package in DEBIAN.items() if not processes.installed(command)]
    if not wanted:
        return ""
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        return f"{' and '.join(wanted)} (install these packages yourself, as root)"
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    install = ["apt-get", "install", "-qq", "--no-install-recommends", *wanted]
    for command in (["apt-get", "update", "-qq"], install):
        if reason := _failed(command, PEERS, quiet):
            return f"{' and '.join(wanted)}: {reason}"
    return ""


def _wheels(what: str, program: Path, *packages: str) -> str:
    """Installs packages with this program into an environment of their own."""
    if program.exists():
        return ""
    for command in (
        [sys.executable, "-m", "venv", str(program.parents[1])],
        [str(program.with_name("python")), "-m", "pip", "install", "--quiet", *packages],
    ):
        if reason := _failed(command, PEERS):
            return f"{what}: {reason}"
    return ""


def _portkey() -> str:
    package = PORTKEY / "package.json"
    if GATEWAY.exists() and package.read_text(encoding="utf-8") == PORTKEY_PACKAGE:
        return ""
    npm = shutil.which("npm") or str(Path(sys.executable).with_name("npm"))
    PORTKEY.mkdir(parents=True, exist_ok=True)
    package.write_text(PORTKEY_PACKAGE, encoding="utf-8")
    (PORTKEY / "package-lock.json").unlink(missing_ok=True)
    install = [npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", "--no-save"]
    reason = _failed(install, PORTKEY)
    return f"Portkey's gateway: {reason}" if reason else ""


def _failed(command: list[str], folder: Path, environ: dict[str, str] | None = None) -> str:
    """Runs it; the end of what it said if it failed."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, check=False)
    except OSError as error:
        return str(error)
    return (done.stderr.strip()[-300:] or "it failed") if done.returncode else ""


if __name__ == "__main__":
    sys.exit(main())
