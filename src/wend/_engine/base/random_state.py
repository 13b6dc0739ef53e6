"""Random number state: a seed, and the count of numbers drawn so far.

All of Wend's random numbers are Philox4x32-10 of (seed, position): element i of a draw depends on
(seed, offset + i) and on nothing else. So results do not depend on fusion, batching, dead code or
thread count.  A `RandomState` only hands out ranges of positions; the ops compute the numbers.

    seed, offset = state.reserve(x.numel())     # run-time scalars of a random op

Fibers and parallel calls get substreams: `state.substream(call, example)` depends on the seed and
the two numbers only, never on the content or the order of earlier draws.
"""

from __future__ import annotations

import os
import threading
from typing import Final

from wend._engine.base.errors import ArgumentError, ArgumentTypeError

DEFAULT_SEED: Final = 67280421310721
STATE_BYTES: Final = 16
_MASK32: Final = 0xFFFFFFFF
_MASK64: Final = 0xFFFFFFFFFFFFFFFF
# Multipliers and key increments of Philox4x32 (Salmon, Moraes, Dror, Shaw: Parallel random
# numbers: as easy as 1, 2, 3; SC 2011).
PHILOX_M0: Final = 0xD2511F53
PHILOX_M1: Final = 0xCD9E8D57
PHILOX_W0: Final = 0x9E3779B9
PHILOX_W1: Final = 0xBB67AE85
PHILOX_ROUNDS: Final = 10


def philox(counter: tuple[int, int, int, int], key: tuple[int, int]) -> tuple[int, int, int, int]:
    """Four random 32-bit words: Philox4x32-10 of a 128-bit counter under a 64-bit key."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(PHILOX_ROUNDS):
        p0 = PHILOX_M0 * c0
        p1 = PHILOX_M1 * c2
        c0, c1, c2, c3 = (p1 >> 32) ^ c1 ^ k0, p1 & _MASK32, (p0 >> 32) ^ c3 ^ k1, p0 & _MASK32
        k0 = (k0 + PHILOX_W0) & _MASK32
        k1 = (k1 + PHILOX_W1) & _MASK32
    return c0, c1, c2, c3


def normalize_seed(seed: object, op: str = "manual_seed") -> int:
    """`seed` as an unsigned 64-bit number; negative seeds count from 2**64, as in PyTorch.

    Raises ArgumentTypeError for a seed that is no int, ArgumentError beyond 64 bits.
    """
    if isinstance(seed, bool) or not hasattr(seed, "__index__"):
        if not (isinstance(seed, float) and seed.is_integer()):
            raise ArgumentTypeError(f"{op}: the seed must be an int, not {type(seed).__name__}")
        number = int(seed)
    else:
        number = int(seed.__index__())
    if not -(2**63) <= number < 2**64:
        raise ArgumentError(
            f"{op}: seed {number} is out of range; it must lie in [-2**63, 2**64 - 1]"
        )
    return number & _MASK64


def as_signed(number: int) -> int:
    """The int64 with the bits of an unsigned 64-bit number: how seeds and offsets reach ops."""
    return number - 2**64 if number >= 2**63 else number


class RandomState:
    """A stream of random numbers: `seed` names the stream, `offset` counts the numbers drawn."""

    __slots__ = ("_lock", "offset", "seed")

    seed: int
    offset: int

    def __init__(self, seed: int = DEFAULT_SEED) -> None:
        self._lock = threading.Lock()
        self.seed = normalize_seed(seed)
        self.offset = 0

    def manual_seed(self, seed: int) -> None:
        """Restart as the stream of that seed."""
        number = normalize_seed(seed)
        with self._lock:
            self.seed, self.offset = number, 0

    def reseed(self) -> int:
        """Restart as the stream of a seed from the operating system, which is returned."""
        number = int.from_bytes(os.urandom(8), "little")
        self.manual_seed(number)
        return number

    def reserve(self, count: int) -> tuple[int, int]:
        """(seed, offset) for a draw of `count` numbers, as int64: no later draw uses these."""
        with self._lock:
            offset = self.offset
            # Draws start at even positions: normal numbers come in pairs.
            self.offset = (offset + count + (count & 1)) & _MASK64
            seed = self.seed
        if seed < 2**63 > offset:
            return seed, offset
        return as_signed(seed), as_signed(offset)

    def get_state(self) -> bytes:
        """The state as 16 bytes: seed and offset, little-endian."""
        with self._lock:
            return self.seed.to_bytes(8, "little") + self.offset.to_bytes(8, "little")

    def set_state(self, state: bytes) -> None:
        """Go back to a state from `get_state`. Raises ArgumentError for bytes that are no state."""
        if len(state) != STATE_BYTES:
            raise ArgumentError(
                f"set_state: a random state has {STATE_BYTES} bytes, and {len(state)} were given; "
                "pass what get_state returned"
            )
        with self._lock:
            self.seed = int.from_bytes(state[:8], "little")
            self.offset = int.from_bytes(state[8:], "little")

    def substream(self, call: int, example: int) -> RandomState:
        """The stream of example number `example` in call number `call` under this seed."""
        return _Substream(self.seed, call, example)

    def clone(self) -> RandomState:
        """Another state that will draw the same numbers."""
        other = RandomState(self.seed)
        other.set_state(self.get_state())
        return other

    def __reduce__(self) -> tuple[object, ...]:
        return _restore, (self.get_state(),)

    def __repr__(self) -> str:
        return f"RandomState(seed={self.seed}, offset={self.offset})"


class _Substream(RandomState):
    """A stream whose seed is computed when somebody asks: most examples draw nothing."""

    __slots__ = ("_origin", "_seed")

    def __init__(self, seed: int, call: int, example: int) -> None:
        """See `RandomState.substream`."""
        self._lock = threading.Lock()
        self._origin = seed, call, example
        self._seed = -1
        self.offset = 0

    @property
    def seed(self) -> int:
        """The number that names the stream."""
        if self._seed < 0:
            self._seed = derived_seed(*self._origin)
        return self._seed

    @seed.setter
    def seed(self, number: int) -> None:
        self._seed = number


def derived_seed(seed: int, call: int, example: int) -> int:
    """The seed of example number `example` in call number `call` under another seed."""
    # The last counter word keeps these apart from every word that a draw may use.
    key = (seed & _MASK32, seed >> 32)
    inner = philox((call & _MASK32, (call >> 32) & _MASK32, 0, _MASK32), key)
    words = philox((example & _MASK32, (example >> 32) & _MASK32, inner[2], inner[3]), inner[:2])
    return words[0] | words[1] << 32


def _restore(state: bytes) -> RandomState:
    restored = RandomState()
    restored.set_state(state)
    return restored


class _Current(threading.local):
    """The stream that a thread, or its running fiber, draws from, if not the process's."""

    state: RandomState | None = None


default: Final = RandomState()
here: Final = _Current()


def current() -> RandomState:
    """The state that draws without a generator use: the running fiber's, or the process's."""
    return here.state or default


def swap(state: RandomState | None) -> RandomState | None:
    """Make this thread draw from `state` (None: the process's); returns the former state."""
    before = here.state
    here.state = state
    return before


def _renew_locks() -> None:
    # A lock that another thread held during fork would stay held in the child for ever.
    default._lock = threading.Lock()
    if here.state is not None:
        here.state._lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_locks)
