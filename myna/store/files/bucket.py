"""A bucket of an object store: Amazon S3 and what speaks its protocol, Google Cloud Storage, Azure.

obstore retries a request, sends a file of more than 5 MiB by parts, and gives its parts up if one fails.
"""

import contextlib
import logging
import re
import secrets
import time
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from myna.errors import ConfigError, StorageUnavailable
from myna.lib.files import FOLDER_MODE, remove
from myna.lib.setting_kinds import with_secret_files
from myna.store.files.storage import MARKER, Stored

try:
    import obstore
    from obstore.exceptions import BaseError
    from obstore.store import from_url
except ImportError:
    raise ConfigError("MYNA_STORAGE: a bucket needs Myna's extra 'storage', which isn't installed.") from None

log = logging.getLogger(__name__)

SECRETS: Final = (
    "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN",
    "AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_CLIENT_SECRET", "AZURE_STORAGE_SAS_KEY",
    "GOOGLE_SERVICE_ACCOUNT_KEY",
)  # fmt: skip
"""Variables of obstore that may also be files: NAME_FILE."""
_PREFIXES: Final = {"s3": "AWS_", "gs": "GOOGLE_", "az": "AZURE_"}
RETRIES: Final[Any] = {
    "max_retries": 4,
    "retry_timeout": timedelta(seconds=20),
    "backoff": {
        "init_backoff": timedelta(milliseconds=100),
        "max_backoff": timedelta(seconds=2),
        "base": 2,
    },
}
_CONCURRENT_PARTS: Final = 4
USABLE_S: Final = 10.0
"""How long the storage counts as usable after it was: each look is a request, which costs money."""
_OF_A_FILE: Final = ("read", "delete")
"""What fails because a file is missing. All else fails because the bucket is."""
_BLOCK_BYTES: Final = 2**20
_TYPES: Final = {".mp3": "audio/mpeg", ".wav": "audio/wav"}
_CODE: Final = re.compile(r"<Code>(\w{1,60})</Code>")
_CAUSE: Final = re.compile(r"status code: (\d{3} [\w ]{1,40})|(?:HTTP error: )?([\w ]{1,80})\s*(?:\n|$)")


class Bucket:
    """The bucket of a URL such as s3://BUCKET/PREFIX. Its files are made in a folder of the data folder."""

    remote = True

    def __init__(self, url: str, data_folder: Path, environ: Mapping[str, str]) -> None:
        """Raises ConfigError."""
        self.label = url
        self.working = data_folder / "unsent"
        self._usable_until = 0.0
        prefix = _PREFIXES[url.partition(":")[0]]
        secret = [name for name in SECRETS if name.startswith(prefix)]
        named = {name: environ.get(name, "") for one in secret for name in (one, f"{one}_FILE")}
        given: Any = {
            name.lower(): value for name, value in with_secret_files(named, secret).items() if value
        }
        options: Any = {  # a typed dictionary of its own
            "allow_http": environ.get(f"{prefix}ALLOW_HTTP", "").lower() == "true",
            "connect_timeout": timedelta(seconds=5),
            "timeout": timedelta(seconds=30),
        }
        try:
            self._store: Any = from_url(
                url,
                config=given,
                client_options=options,
                retry_config=RETRIES,
            )
        except (BaseError, ValueError) as error:
            raise ConfigError(f"MYNA_STORAGE: {url} can't be used: {_reason(error)}.") from None

    def keep(self, key: str) -> None:
        path = self.working / key
        self.put(key, path)
        path.unlink(missing_ok=True)

    def put(self, key: str, data: bytes | Path) -> None:
        kind = _TYPES.get(Path(key).suffix, "text/plain")
        with self._asking("write"):
            self._store.put(key, data, attributes={"Content-Type": kind}, max_concurrency=_CONCURRENT_PARTS)

    def stat(self, key: str) -> Stored | None:
        try:
            with self._asking("read"):
                found = self._store.head(key)
        except FileNotFoundError:
            return None
        return Stored(found["size"], found["last_modified"].timestamp())

    def read(self, key: str, first: int, count: int) -> bytes:
        with self._asking("read"):
            return bytes(self._store.get_range(key, start=first, length=count)) if count else b""

    def fetch(self, key: str) -> Path:
        target = self.working / key.partition("/")[0] / f".{secrets.token_hex(8)}.part"
        target.parent.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        try:
            with self._asking("read"), target.open("xb") as file:
                for block in self._store.get(key).stream(min_chunk_size=_BLOCK_BYTES):
                    file.write(block)
        except BaseException:
            remove(target)
            raise
        return target

    def delete(self, key: str) -> None:
        with self._asking("delete"), contextlib.suppress(FileNotFoundError):
            self._store.delete(key)

    def walk(self, folder: str) -> Iterator[tuple[str, Stored]]:
        with self._asking("list"):
            for page in self._store.list(f"{folder}/"):
                for one in page:
                    if one["path"] != MARKER:
                        yield one["path"], Stored(one["size"], one["last_modified"].timestamp())

    def signed(self, key: str, seconds: int) -> str:
        with self._asking("sign an address in"):
            return str(obstore.sign(self._store, "GET", key, timedelta(seconds=seconds)))

    def usable(self) -> bool:
        """Looks for the marker, whose absence means that the storage has become another one's."""
        if time.monotonic() >= self._usable_until:
            try:
                if self.stat(MARKER) is None:
                    return False
            except StorageUnavailable:
                return False
            self._usable_until = time.monotonic() + USABLE_S
        return True

    @contextlib.contextmanager
    def _asking(self, what: str) -> Iterator[None]:
        """Logs a failure, without what the server was sent, and raises StorageUnavailable for it."""
        try:
            yield
        except (BaseError, OSError) as error:
            if isinstance(error, FileNotFoundError) and what in _OF_A_FILE:
                raise
            log.warning("can't %s %s: %s", what, self.label, _reason(error))
            raise StorageUnavailable from None


def _reason(error: Exception) -> str:
    """The server's status and code, or what failed, without addresses and what was signed."""
    code = _CODE.search(str(error))
    if code:
        return code[1]
    head = str(error).partition("Debug source")[0].strip().rpartition(" - ")[2]
    found = _CAUSE.search(head)
    return (found and (found[1] or found[2]).strip()) or type(error).__name__
