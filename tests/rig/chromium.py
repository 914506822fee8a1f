"""Finds Chromium for the tests of the back office. `python -m tests.rig.chromium` installs a missing one.

With apt, as root, it installs Debian's package and fonts for Chinese; elsewhere Playwright downloads its own.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome")
PACKAGES = ("chromium", "fonts-noto-cjk")


def executable() -> Path | None:
    """The browser of the system, else Playwright's own, else None."""
    for name in NAMES:
        if found := shutil.which(name):
            return Path(found)
    with sync_playwright() as playwright:
        own = Path(playwright.chromium.executable_path)
    return own if own.exists() else None


def install() -> None:
    """Installs the browser unless there is one. Raises CalledProcessError."""
    if executable():
        return
    if shutil.which("apt-get") and os.geteuid() == 0:
        subprocess.run(["apt-get", "update", "-qq"], check=True)
        subprocess.run(["apt-get", "install", "-y", "-qq", "--no-install-recommends", *PACKAGES], check=True)
    else:
        subprocess.run([sys.executable, "-m", "playwright", "install", "chromium"], check=True)


if __name__ == "__main__":
    install()
