"""`autograd.Function` inside of `vmap`: by its own batching rule, or by levels.

A function that defines `vmap(info, in_dims, *args)` is called with whole batches. Without that
method, `forward` runs on tensors that stand for an example each, and so does `backward`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from wend._engine.base.errors import ArgumentError
from wend._engine.core import _hot
from wend._engine.core._hot import Tensor, Value
from wend._engine.core.primitive import ops
from wend._engine.transforms.batch import with_batch_axis
from wend._engine.transforms.hooks import extra_of
from wend._engine.transforms.levels import Level


class VmapInfo(NamedTuple):
    """The first argument of a function's `vmap`."""

    batch_size: int
    randomness: str


def level_of(args: tuple[Any, ...]) -> Level | None:
    """The vmap that runs now, if an argument stands for examples of it."""
    level = _hot.current_trace().symbolic
    if not isinstance(level, Level):
        return None
    _, flags = level.strip([a for a in args if isinstance(a, Tensor)])
    return level if True in flags else None


def by_rule(level: Level, cls: Any, args: tuple[Any, ...]) -> Any:
    """The results of the function's own `vmap`, called with the tensors behind the arguments."""
    inner, in_dims = list(args), [None] * len(args)
    for k, a in enumerate(args):
        if isinstance(a, Tensor):
            (inner[k],), (flag,) = level.strip([a])
            in_dims[k] = 0 if flag else None  # type: ignore[call-overload]
    with level.suspended():
        info = VmapInfo(level.size, level.randomness)
        pair = cls.vmap(info, tuple(in_dims), *inner)
        if not (isinstance(pair, tuple) and len(pair) == 2):
            raise ArgumentError(f"{cls.__name__}.vmap: expected (results, out_dims)")
        results, out_dims = pair
        many = isinstance(results, tuple)
        outs = results if many else (results,)
        dims = out_dims if isinstance(out_dims, tuple) else (out_dims,) * len(outs)
        moved = [ops.movedim(x, d, 0) if d else x for x, d in zip(outs, dims, strict=True)]
    batched = [x if d is None else level.wrap(x) for x, d in zip(moved, dims, strict=True)]
    return tuple(batched) if many else batched[0]


def put_into_graph(inputs: list[Tensor], raw: list[Tensor], record: Any) -> list[Tensor]:
    """The results `raw` of a function's call on `inputs`, with gradient identities."""
    level = _hot.current_trace().symbolic
    if not isinstance(level, Level):
        results: list[Tensor] = ops.user_function(inputs, raw)
        extra_of(results[0].value).function = record
        return results
    (inner_inputs, input_flags), (inner_raw, raw_flags) = level.strip(inputs), level.strip(raw)
    with level.suspended():
        if True not in (*input_flags, *raw_flags):
            return put_into_graph(inner_inputs, inner_raw, record)
        inner_inputs = [
            with_batch_axis(x, on, level.size)
            for x, on in zip(inner_inputs, input_flags, strict=True)
        ]
        inner_raw = [
            with_batch_axis(x, on, level.size) for x, on in zip(inner_raw, raw_flags, strict=True)
        ]
        outputs = put_into_graph(inner_inputs, inner_raw, MappedRecord(record, level))
    return [level.wrap(x) for x in outputs]


class MappedRecord:
    """A call inside of a vmap, as a backward pass over the whole batch meets it."""

    def __init__(self, record: Any, level: Level) -> None:
        self.record = record
        self.level = level

    def __getattr__(self, name: str) -> Any:
        return getattr(self.record, name)

    def backward(self, gradients: list[Any], resolve: Callable[..., Any]) -> list[Any]:
        """Run the user's `backward` for an example; a gradient of the batch per operand."""
        level = self.level
        before, level.outer = level.outer, level.trace.symbolic
        try:
            seeds = [None if g is None else level.wrap(g) for g in gradients]

            def one(number: int, value: Value) -> Tensor:
                with level.suspended():
                    inner = value.extra if value.serial == level.serial else _hot.wrap(value)
                    return level.wrap(resolve(number, _hot.value_of(inner)))

            with level.entered():
                grads = self.record.backward(seeds, one)
                inner, flags = level.strip([g for g in grads if g is not None])
            rows = iter(zip(inner, flags, strict=True))
            return [None if g is None else with_batch_axis(*next(rows), level.size) for g in grads]
        finally:
            level.outer = before
