"""The user's key: machine code from disk is believed only where the key has signed it.

The key is 32 random bytes in a file of the user's state folder, mode 0600, made when needed first.
WEND_KEY_FILE names another file, as where several machines are to believe the same code.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from wend._engine.base.system import system

KEY_BYTES: Final = 32
_OPEN: Final = (
    os.O_RDONLY
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)  # a pipe must not be waited for
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
)


def home_folder() -> Path | None:
    """This user's home, or None where the user has no folder."""
    try:
        return Path.home()
    except RuntimeError:
        # There is no home folder: machine code is not kept between processes, and no key is kept.
        return None


def default_secret(environment: Mapping[str, str] | None = None) -> Path | None:
    """The file of this user's key, or None where the user has no folder."""
    env = os.environ if environment is None else environment
    if env.get("WEND_KEY_FILE"):
        return Path(env["WEND_KEY_FILE"])
    home = home_folder()
    return None if home is None else system.state_folder(home, env) / "wend" / "objects.key"


def user_key() -> bytes | None:
    """Return this user's key, made if missing; None where the user has no folder to keep one in."""
    path = default_secret()
    return None if path is None else key_at(path)


def signature(key: bytes, purpose: str, name: str, body: bytes) -> str:
    """Return the keyed digest (HMAC-SHA256) of named bytes, for a purpose."""
    mac = hmac.new(key, f"{purpose}\0{name}\0".encode(), hashlib.sha256)
    mac.update(body)
    return mac.hexdigest()


def read_own(path: Path, others: int) -> bytes:
    """Return a file's contents. Raises PermissionError if foreign, a link or open to others."""
    descriptor = os.open(path, _OPEN)
    with open(descriptor, "rb", buffering=0) as file:
        # The status is that of the open file: a rename could have put another file in its place.
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or not system.owns(status, others):
            raise PermissionError(f"{path} is not this user's own")
        return file.readall()


def key_at(path: Path) -> bytes | None:
    """Return the key in a file, made if missing; None if the key can neither be read nor made.

    A key that other users could read is replaced: files signed with that key are made anew.
    """
    for _ in range(2):
        try:
            key = read_own(path, 0o077)
        except FileNotFoundError:
            # No key yet, or a key that is not private: a new key is made. If that fails, nothing is
            # kept.
            key = b""
        except PermissionError:
            # No key yet, or a key that is not private: a new key is made. If that fails, nothing is
            # kept.
            key = b"open"
        except OSError:
            # No key yet, or a key that is not private: a new key is made. If that fails, nothing is
            # kept.
            return None
        if len(key) == KEY_BYTES:
            return key
        try:
            _make_key(path, replace=bool(key))
        except OSError:
            # No key yet, or a key that is not private: a new key is made. If that fails, nothing is
            # kept.
            return None
    return None


def _make_key(path: Path, replace: bool) -> None:
    """Put a new key there, whole or not at all; a key just put by another process stays."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix="tmp-", dir=path.parent)  # of mode 0600
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(os.urandom(KEY_BYTES))
        if replace:
            os.replace(temporary, path)
            return
        try:
            os.link(temporary, path)
        except FileExistsError:
            # Another process has just put a key there, which stays; without links the last key
            # wins.
            pass
        except OSError:  # a file system without links: the last of several processes wins
            os.replace(temporary, path)
            return
        os.unlink(temporary)
    except BaseException:
        os.unlink(temporary)
        raise
