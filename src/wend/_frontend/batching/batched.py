"""wend.batched: a function of an example, called for many, with ops batched by the engine."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from wend._engine.base import config, random_state
from wend._engine.base.errors import ArgumentError, ArgumentTypeError
from wend._engine.base.random_state import RandomState
from wend._engine.core import _hot
from wend._frontend.autograd.watching import as_one_pass
from wend._frontend.batching.choice import weighing_of

__all__ = ["autobatch", "batched"]

R = TypeVar("R")


def batched(fn: Callable[..., R]) -> Callable[..., list[R]]:
    """A function that calls `fn` on every example and returns the list of results.

        losses = wend.batched(loss_of)(sentences)
        losses = wend.batched(loss_of)(inputs, targets, weight=0.5)     # fn(input, target, weight=)

    The calls take turns. A call runs until it needs a value (`item()`, `if x > 0:`, `print`), then
    the next call runs. When all calls need a value, all recorded ops are computed together,
    batched. Where this turns out to be slower, calls run in sequence (see `autobatch`). `fn` may
    loop, branch and recurse by values, and may call `batched` itself.  Within an example everything
    happens in the written order; across examples it does not.

    Each example draws random numbers from a stream of its own, so that the numbers do not depend on
    batching (`wend.autobatch(False)`: calls run in sequence).

    The first error ends all calls: `finally` blocks of the calls under way run. The error is raised
    with the example's number in `example_index` and in its notes.  Raises ArgumentError for
    arguments with unlike numbers of examples.
    """
    if not callable(fn):
        raise ArgumentTypeError(f"batched: a function is needed, not a {type(fn).__name__}")
    name = getattr(fn, "__name__", type(fn).__name__)

    @functools.wraps(fn, updated=())
    def for_all(*examples: Iterable[Any], **common: object) -> list[R]:
        rows = _rows(name, examples)
        calls = [functools.partial(fn, *row, **common) for row in rows]
        return as_one_pass(lambda: run_calls(fn, calls, streams(len(calls))))

    return for_all


def _rows(name: str, examples: tuple[Iterable[Any], ...]) -> list[tuple[Any, ...]]:
    """The arguments of each call."""
    if not examples:
        raise ArgumentError(f"batched({name}): there are no examples to call it on")
    columns = [list(column) for column in examples]
    counts = [len(column) for column in columns]
    if len(set(counts)) > 1:
        raise ArgumentError(
            f"batched({name}): the arguments have unlike numbers of examples, {counts}: they must "
            "agree; give what is common to all of them by keyword"
        )
    return list(zip(*columns, strict=True))


def streams(count: int) -> list[RandomState]:
    """The random streams of the examples of a call."""
    state = random_state.current()
    _, call = state.reserve(1)
    return [state.substream(call, k) for k in range(count)]


def run_calls(
    fn: Callable[..., Any], calls: Sequence[Callable[[], Any]], own: Sequence[RandomState]
) -> list[Any]:
    """Results of the calls of `fn`: as fibers, or in sequence."""
    from wend._engine.runtime.fibers import fibers  # needs greenlet, which most programs do not

    habits, trace = weighing_of(fn), _hot.current_trace()
    before = trace.ops_before + trace.ops
    together = _together(len(calls))
    chosen = together and _is_weighed()
    if chosen:
        together = habits.choose()
    if together:
        # Calls that wait run together turn by turn; calls that do not leave a single structure
        # behind.
        results, habits.waits = fibers.run_together(calls, own, apart=habits.waits)
    else:
        results = fibers.run_alone(calls, own)
    if chosen:
        habits.worked(trace.ops_before + trace.ops - before)
    return results


def _together(count: int) -> bool:
    """Whether so many calls may run together."""
    settings = config.settings
    return count > 1 and not settings.eager and settings.autobatch


def _is_weighed() -> bool:
    """Whether the quicker way is taken of calls that may run together."""
    settings = config.settings
    alone = _hot.current_trace().fiber is None
    return settings.weigh and not settings.deterministic and alone


class autobatch:
    """Switch batching by the engine on or off, at once or for a `with` block.

    autobatch(False): ops of like structure are computed singly, and `batched` calls the function
    for examples in sequence.  Results differ by rounding only.
    autobatch(True): calls always run together.  By default `batched` takes the way that has been
    quicker for the function's last batches.
    """

    def __init__(self, mode: bool = True) -> None:
        self._before = config.settings.set(autobatch=mode, weigh=False)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exc: object) -> None:
        config.settings.set(**self._before)
