"""Machine code kept on disk between runs: a folder of files named by what they were made of.

    WEND_CACHE_DIR=path   where; unset: the user's cache folder; empty: nothing is kept

The folder is only used if it belongs to this user and nobody else may write to it: what lies there
is executed. A file carries its checksum; one that is truncated or damaged counts as absent. Files
appear by an atomic rename, so that processes may share the folder. Beyond the limit the files that
were not used for longest are removed. Nothing here raises: a cache that fails is only slow.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

_MAGIC: Final = b"wendobj1"
_HEADER: Final = len(_MAGIC) + hashlib.sha256().digest_size
#: Writes between two looks at how much the folder holds.
_LOOK_EVERY: Final = 64

LIMIT: Final = 256 << 20  # bytes


def default_directory(environment: Mapping[str, str] | None = None) -> Path | None:
    """The folder that the environment and the platform's custom name, or None for no cache."""
    env = os.environ if environment is None else environment
    chosen = env.get("WEND_CACHE_DIR")
    if chosen is not None:
        return Path(chosen) / "objects" if chosen else None
    try:
        home = Path.home()
    except RuntimeError:
        return None
    if sys.platform == "darwin":
        base = home / "Library" / "Caches"
    elif sys.platform == "win32":
        base = Path(env.get("LOCALAPPDATA") or home / "AppData" / "Local")
    else:
        base = Path(env.get("XDG_CACHE_HOME") or home / ".cache")
    return base / "wend" / "objects"


class ObjectCache:
    """Bytes by key (a hexadecimal digest), in one folder; `directory` None keeps nothing."""

    def __init__(self, directory: Path | None, limit: int = LIMIT) -> None:
        self.directory = directory
        self.limit = limit
        self._writes = 0
        self._usable: bool | None = None  # found out at the first use

    def get(self, key: str) -> bytes | None:
        """What was put under this key, or None."""
        if self.directory is None or not self._ready():
            return None
        path = self.directory / key
        try:
            data = path.read_bytes()
        except OSError:
            return None
        body = data[_HEADER:]
        if data[:_HEADER] != _MAGIC + hashlib.sha256(body).digest():
            return None
        try:
            os.utime(path)  # used just now: pruned last
        except OSError:
            pass
        return body

    def put(self, key: str, body: bytes) -> None:
        """Keep these bytes, if that is possible."""
        if self.directory is None or not self._ready():
            return
        try:
            handle, temporary = tempfile.mkstemp(prefix="tmp-", dir=self.directory)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(_MAGIC + hashlib.sha256(body).digest() + body)
                os.replace(temporary, self.directory / key)
            except BaseException:
                os.unlink(temporary)
                raise
        except OSError:
            return
        if self._writes % _LOOK_EVERY == 0:
            self._prune()
        self._writes += 1

    def _ready(self) -> bool:
        if self._usable is None:
            self._usable = self.directory is not None and _private(self.directory)
        return self._usable

    def _prune(self) -> None:
        """Remove the files longest unused until three quarters of the limit are left."""
        assert self.directory is not None
        found = []
        try:
            with os.scandir(self.directory) as entries:
                for entry in entries:
                    status = entry.stat(follow_symlinks=False)
                    found.append((status.st_mtime, status.st_size, entry.path))
        except OSError:
            return
        total = sum(size for _, size, _ in found)
        if total <= self.limit:
            return
        for _, size, path in sorted(found):
            try:
                os.unlink(path)
            except OSError:
                continue
            total -= size
            if total <= self.limit * 3 // 4:
                return


def _private(directory: Path) -> bool:
    """Make the folder if it is not there; whether it is this user's own."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = directory.stat()
    except OSError:
        return False
    if not hasattr(os, "getuid"):
        return True
    return status.st_uid == os.getuid() and not status.st_mode & 0o022
