"""torch.hub: models from a folder of the machine, and state dicts by address."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import importlib.util
import os
import re
import shutil
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any
from urllib.parse import urlparse

from wend._engine.base.errors import ArgumentError, NotImplementedInWend
from wend.serialization import load as load_file

__all__ = [
    "download_url_to_file",
    "get_dir",
    "help",
    "list",
    "load",
    "load_state_dict_from_url",
    "set_dir",
]


class _Silent:
    """Stands in for `tqdm.tqdm` where that is not installed: no bar is drawn."""

    def __init__(self, iterable: Any = None, *args: Any, **kwargs: Any) -> None:
        self.iterable = iterable

    def __iter__(self) -> Iterator[Any]:
        return iter(self.iterable)

    def __enter__(self) -> _Silent:
        return self

    def __exit__(self, *exception: object) -> None:
        pass

    def update(self, n: int = 1) -> None:
        """Nothing is drawn."""

    def close(self) -> None:
        """Nothing was drawn."""


if TYPE_CHECKING:
    tqdm: Any


def __getattr__(name: str) -> Any:
    if name == "tqdm":
        there = importlib.util.find_spec("tqdm") is not None
        return importlib.import_module("tqdm").tqdm if there else _Silent
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


_chosen: str | None = None
#: `resnet18-bf5a0c36.pth` begins with that checksum.
HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")


def _get_torch_home() -> str:
    """The folder of PyTorch's downloads: $TORCH_HOME, or `torch` in the user's cache."""
    cache = os.getenv("XDG_CACHE_HOME", "~/.cache")
    return os.path.expanduser(os.getenv("TORCH_HOME", os.path.join(cache, "torch")))


def get_dir() -> str:
    """The folder of models and checkpoints."""
    return _chosen if _chosen is not None else os.path.join(_get_torch_home(), "hub")


def set_dir(d: str | os.PathLike[str]) -> None:
    """Choose the folder of models and checkpoints."""
    global _chosen
    _chosen = os.path.expanduser(d)


@contextlib.contextmanager
def _entries(folder: str, source: str) -> Iterator[ModuleType]:
    """The module `hubconf` of a folder, which may import modules of the folder."""
    if source == "github":
        raise NotImplementedInWend(
            "torch.hub: programs are not fetched; download the folder, and pass source='local'"
        )
    if source != "local":
        raise ArgumentError(f"torch.hub: source is 'local' or 'github', not {source!r}")
    path = os.path.join(os.path.abspath(os.path.expanduser(folder)), "hubconf.py")
    sys.path.insert(0, os.path.dirname(path))
    try:
        spec = importlib.util.spec_from_file_location("hubconf", path)
        assert spec is not None and spec.loader is not None  # the name ends in .py
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        yield module
    finally:
        sys.path.remove(os.path.dirname(path))


def _entry(module: ModuleType, name: str) -> Callable[..., Any]:
    entry = vars(module).get(name)
    if not callable(entry):
        raise RuntimeError(f"torch.hub: hubconf has no function {name!r}")
    missing = [
        needed
        for needed in vars(module).get("dependencies", ())
        if importlib.util.find_spec(needed) is None
    ]
    if missing:
        raise RuntimeError(f"torch.hub: missing dependencies: {', '.join(missing)}")
    function: Callable[..., Any] = entry
    return function


def list(
    github: str,
    force_reload: bool = False,
    skip_validation: bool = False,
    trust_repo: Any = "check",
    verbose: bool = True,
    source: str = "local",
) -> Any:
    """Names of the functions in a folder's `hubconf.py`."""
    with _entries(github, source) as module:
        return [n for n, value in vars(module).items() if callable(value) and n[0] != "_"]


def help(
    github: str,
    model: str,
    force_reload: bool = False,
    skip_validation: bool = False,
    trust_repo: Any = "check",
    source: str = "local",
) -> str | None:
    """Docstring of a function in a folder's `hubconf.py`."""
    with _entries(github, source) as module:
        return _entry(module, model).__doc__


def load(
    repo_or_dir: str,
    model: str,
    *args: Any,
    source: str = "github",
    trust_repo: Any = None,
    force_reload: bool = False,
    verbose: bool = True,
    skip_validation: bool = False,
    **kwargs: Any,
) -> Any:
    """Call a function of a folder's `hubconf.py`. Raises NotImplementedInWend for 'github'."""
    with _entries(repo_or_dir, source) as module:
        return _entry(module, model)(*args, **kwargs)


def download_url_to_file(
    url: str, dst: str, hash_prefix: str | None = None, progress: bool = True
) -> None:
    """Copy the contents of an address to a file; the SHA-256 must begin with the prefix.

    progress: whether a bar on standard error shows how far the copy is, where tqdm is installed
    """
    target = Path(dst).expanduser()
    digest = hashlib.sha256()
    request = urllib.request.Request(url, headers={"User-Agent": "torch.hub"})
    descriptor, part = tempfile.mkstemp(dir=target.parent, suffix=".partial")
    try:
        with urllib.request.urlopen(request) as source, os.fdopen(descriptor, "wb") as file:
            size = source.headers.get("Content-Length")
            total = int(size) if size else None
            settings = {"disable": not progress, "unit": "B", "unit_scale": True}
            bar_of = sys.modules[__name__].tqdm
            with bar_of(total=total, unit_divisor=1024, **settings) as bar:
                while block := source.read(1 << 17):
                    digest.update(block)
                    file.write(block)
                    bar.update(len(block))
        checksum = digest.hexdigest()
        if hash_prefix and not checksum.startswith(hash_prefix):
            raise RuntimeError(f"torch.hub: {url} has checksum {checksum}, not {hash_prefix}...")
        shutil.move(part, target)
    finally:
        Path(part).unlink(missing_ok=True)


def load_state_dict_from_url(
    url: str,
    model_dir: str | None = None,
    map_location: Any = None,
    progress: bool = True,
    check_hash: bool = False,
    file_name: str | None = None,
    weights_only: bool = True,
) -> Any:
    """Load a file of `torch.save` from the folder of checkpoints, or else from the address.

    weights_only: as for `torch.load`. PyTorch's default is False, by which a file from a network
    can run any code.
    """
    folder = model_dir if model_dir is not None else os.path.join(get_dir(), "checkpoints")
    os.makedirs(folder, exist_ok=True)
    name = file_name if file_name is not None else os.path.basename(urlparse(url).path)
    path = os.path.join(folder, name)
    if not os.path.exists(path):
        match = HASH_REGEX.search(name) if check_hash else None
        download_url_to_file(url, path, match[1] if match else None, progress)
    return load_file(path, map_location=map_location, weights_only=weights_only)
