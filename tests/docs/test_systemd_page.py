"""The unit on the systemd page is valid, and the page uses settings that exist."""

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
from msgspec import structs

from myna.settings import Settings
from tests.docs.pages import DOCS

PAGE = (DOCS / "systemd.md").read_text(encoding="utf-8")


def here_document(mark: str) -> str:
    """The text of the page between `<<'MARK'` and `MARK`."""
    (found,) = re.findall(rf"<<'{mark}'\n(.*?)^{mark}$", PAGE, re.MULTILINE | re.DOTALL)
    return str(found)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="this machine has no systemd")
def test_systemd_verifies_the_unit(tmp_path: Path) -> None:
    """`verify` requires that the program exists, so the test replaces it by another one."""
    unit = tmp_path / "myna.service"
    unit.write_text(here_document("UNIT").replace("/opt/myna/.venv/bin/myna", "/bin/true"), encoding="utf-8")
    ended = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ended.returncode, ended.stdout + ended.stderr) == (0, "")


def test_the_configuration_uses_settings_that_exist() -> None:
    assert set(tomllib.loads(here_document("TOML"))) <= set(structs.asdict(Settings()))


def test_service_and_commands_read_one_configuration() -> None:
    assert "Environment=MYNA_CONFIG=/etc/myna/myna.toml" in here_document("UNIT")
    assert "MYNA_CONFIG=/etc/myna/myna.toml" in here_document("SH")
