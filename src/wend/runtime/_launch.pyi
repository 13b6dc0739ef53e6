from collections.abc import Callable
from typing import Any

class Frame:
    memory: Any
    table: int
    patches: int
    n_patches: int
    fault: int
    leaves: tuple[int, ...]
    outs: tuple[tuple[Callable[..., Any], tuple[int, ...], Any], ...]
    numbers: tuple[tuple[int, Any, int], ...]
    moves: tuple[tuple[int, ...], ...]
    weights: tuple[tuple[int, Any, int, int, int, int], ...]
    steps: tuple[Any, ...]
    types: tuple[Any, ...]
    places: tuple[int, ...]
    sizes: tuple[int, ...]
    results: tuple[int, ...]
    arena_bytes: int
    release: bool
    busy: bool
    plain: bool
    needs_types: bool
    owner: Any
    arena: Any
    found: Any
    def __init__(self, memory: Any) -> None: ...

class Track:
    path: Any
    roots: tuple[int, ...]
    grad_leaves: tuple[int, ...]
    saved: tuple[int, ...]
    type_of: Callable[..., Any]
    frame: Frame | None
    def __init__(
        self, path: Any, roots: tuple[int, ...], grad_leaves: tuple[int, ...], saved: tuple[int, ...]
    ) -> None: ...

def run(track: Track, batch: Any) -> int: ...
def run_bound(
    track: Track, frame: Frame, batch: Any, values: list[Any], args: list[Any]
) -> int: ...
def set_note(function: Callable[..., None]) -> None: ...
def use_arrays(cls: type, api: Any) -> None: ...
def large(shape: tuple[int, ...], dtype: Any) -> Any: ...
def draw_blocks(out: Any, first: int, seed: int, kind: int, retry: int) -> None: ...
def address_of(array: Any) -> int: ...
def launch(
    frame: Frame,
    values: list[Any],
    types: list[Any],
    args: list[Any],
    arena: int,
    touched: list[Any] | None,
) -> list[Any] | None: ...
def moved(row: tuple[int, ...], args: list[Any]) -> int: ...
def sizes_among(places: tuple[int, ...], args: list[Any]) -> tuple[int, ...]: ...
def same_sizes(
    leaves: tuple[int, ...],
    types: tuple[Any, ...],
    values: list[Any],
    places: tuple[int, ...],
    sizes: tuple[int, ...],
    args: list[Any],
) -> bool: ...
def write_word(address: int, word: int) -> None: ...
