"""torch.distributed.rendezvous: a store, a rank and a number of ranks from an address."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import urlparse

from wend._engine.base.errors import ArgumentError
from wend.distributed._rendezvous import asked_for
from wend.distributed._stores.network import TCPStore
from wend.distributed._stores.tables import FileStore, Store

__all__ = ["register_rendezvous_handler", "rendezvous"]

_handlers: dict[str, Callable[..., Iterator[Any]]] = {}


def register_rendezvous_handler(scheme: str, handler: Callable[..., Iterator[Any]]) -> None:
    """Let `handler(url, **keywords)` answer `rendezvous` for addresses of a scheme."""
    if scheme in _handlers:
        raise ArgumentError(f"Rendezvous handler for {scheme}:// already registered")
    _handlers[scheme] = handler


def rendezvous(
    url: str, rank: int = -1, world_size: int = -1, **kwargs: Any
) -> Iterator[tuple[Store, int, int]]:
    """Yields (store, rank, number of ranks) once; url: env://, tcp://host:port, file:///path.

    Raises ArgumentError (a ValueError) for other addresses, and where a rank, a number of ranks or
    a host is missing.
    """
    parts = urlparse(url)
    if parts.scheme in _handlers:
        return _handlers[parts.scheme](url, rank=rank, world_size=world_size, **kwargs)
    return _own(url, rank, world_size, kwargs.get("timeout", timedelta(seconds=300)))


def _own(
    url: str, rank: int, world_size: int, timeout: timedelta
) -> Iterator[tuple[Store, int, int]]:
    place = asked_for(url, rank, world_size)
    parts = urlparse(url)
    if place.rank is None or place.size is None:
        raise ArgumentError(f"rendezvous: {url}: rank and world_size are missing")
    store: Store
    if parts.scheme == "file":
        store = FileStore(parts.path, place.size)
    else:
        host, port = parts.hostname, parts.port
        if parts.scheme == "env":
            for name in ("MASTER_ADDR", "MASTER_PORT"):
                if name not in os.environ:
                    raise ArgumentError(
                        "Error initializing torch.distributed using env:// rendezvous: "
                        f"environment variable {name} expected, but not set"
                    )
            host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        if host is None or port is None:
            raise ArgumentError(f"rendezvous: {url}: port number missing")
        store = TCPStore(host, port, place.size, place.rank == 0, timeout, wait_for_workers=False)
    yield store, place.rank, place.size
