"""Machine code kept on disk between runs: a folder of files named by a digest of their source.

    WEND_CACHE_DIR=path   where; unset: the user's cache folder; empty: nothing is kept

The files are executed, so the folder and each file are only used if this user owns them and nobody
else may write there. A file also carries a keyed digest (HMAC-SHA256) of its name and its contents.
Code that came into the folder in another way is not this user's work, whoever the owner: an
unpacked archive, a copy from another machine, a file under another's name. The key is 32 random
bytes in a file of the user's state folder, mode 0600, apart from the cache: who hands over or
restores a cache folder does not hand over the right to be believed. Where there is no such folder
to write to, the key lies beside the cache, and then keeps out strangers' files only.

A file that fails counts as absent: the file is counted in `refused` and made anew. Files appear by
an atomic rename, so that processes may share the folder. Beyond the limit the files that were not
used for longest are removed. Nothing here raises: a cache that fails is only slow.
"""

from __future__ import annotations

import hmac
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from wend._engine.base.system import system
from wend._engine.compiler.llvm_ir.user_key import home_folder, key_at, read_own

_MAGIC: Final = b"wendobj2"
_DIGEST: Final = "sha256"
_HEADER: Final = len(_MAGIC) + 32
#: Writes between two looks at how much the folder holds.
_LOOK_EVERY: Final = 64
LIMIT: Final = 256 << 20  # bytes


def default_directory(environment: Mapping[str, str] | None = None) -> Path | None:
    """The folder that the environment and the platform's custom name, or None for no cache."""
    env = os.environ if environment is None else environment
    chosen = env.get("WEND_CACHE_DIR")
    if chosen is not None:
        return Path(chosen) / "objects" if chosen else None
    home = home_folder()
    return None if home is None else system.cache_folder(home, env) / "wend" / "objects"


class ObjectCache:
    """Bytes by key (a hexadecimal digest), in a folder.

    directory: the folder; None keeps nothing
    secret: the file of the user's key; None: a file beside the folder, as where `secret` can
        neither be read nor made
    refused: how many files were found and not believed
    """

    def __init__(
        self, directory: Path | None, limit: int = LIMIT, secret: Path | None = None
    ) -> None:
        self.directory = directory
        self.limit = limit
        self.secret = secret
        self.refused = 0
        self._writes = 0
        self._usable: bool | None = None  # found out at the first use
        self._key = b""

    def get(self, key: str) -> bytes | None:
        """Return the bytes that were put under this key, or None."""
        if self.directory is None or not self._ready():
            return None
        path = self.directory / key
        try:
            data = read_own(path, 0o022)
        except FileNotFoundError:  # no file, or none that can be read: the kernel is compiled
            return None
        except OSError:  # no file, or none that can be read: the kernel is compiled
            self.refused += 1
            return None
        body = data[_HEADER:]
        if not hmac.compare_digest(data[:_HEADER], self._header(key, body)):
            self.refused += 1
            return None
        try:
            os.utime(path)  # used just now: pruned last
        except OSError:  # no file, or none that can be read: the kernel is compiled
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
                    file.write(self._header(key, body) + body)
                os.replace(temporary, self.directory / key)
            except BaseException:
                os.unlink(temporary)
                raise
        except OSError:  # the disk is full or read-only: the kernel is used without being kept
            return
        if self._writes % _LOOK_EVERY == 0:
            self._prune()
        self._writes += 1

    def _header(self, key: str, body: bytes) -> bytes:
        """Return the bytes before the code in the file of that name."""
        digest = hmac.new(self._key, key.encode() + b"\0", _DIGEST)
        digest.update(body)
        return _MAGIC + digest.digest()

    def _ready(self) -> bool:
        if self._usable is None:
            self._usable = self.directory is not None and self._prepare(self.directory)
        return self._usable

    def _prepare(self, directory: Path) -> bool:
        """Whether the folder and a key are this user's own. Both are made if missing."""
        if not _private(directory):
            return False
        beside = directory.with_name(directory.name + ".key")
        for path in [beside] if self.secret is None else [self.secret, beside]:
            key = key_at(path)
            if key is not None:
                self._key = key
                return True
        return False

    def _prune(self) -> None:
        """Remove the files longest unused until three quarters of the limit are left."""
        assert self.directory is not None
        files = []
        try:
            with os.scandir(self.directory) as entries:
                for entry in entries:
                    status = entry.stat(follow_symlinks=False)
                    files.append((status.st_mtime, status.st_size, entry.path))
        except OSError:  # another process has taken the file or the folder away; pruning is tidying
            return
        total = sum(size for _, size, _ in files)
        if total <= self.limit:
            return
        for _, size, path in sorted(files):
            try:
                os.unlink(path)
            except OSError:
                # Another process has taken the file or the folder away; pruning is tidying.
                continue
            total -= size
            if total <= self.limit * 3 // 4:
                return


def _private(directory: Path) -> bool:
    """Make a missing folder. Returns whether the folder is this user's own."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = directory.stat()
    except OSError:  # a folder that cannot be looked at is not trusted
        return False
    return system.owns(status, 0o022)
