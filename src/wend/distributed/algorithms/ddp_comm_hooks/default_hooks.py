"""The average of gradients, as such or with fewer bits on the way.

`DistributedDataParallel` does the work of `allreduce_hook`, `fp16_compress_hook` and
`bf16_compress_hook` by itself, while the backward pass is still computed. The functions are there
for hooks that call them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wend._engine.base.dtypes import DType, bfloat16, float16
from wend._engine.core._hot import Tensor
from wend.distributed._group import AnyGroup
from wend.futures import Future

__all__ = [
    "allreduce_hook",
    "bf16_compress_hook",
    "bf16_compress_wrapper",
    "fp16_compress_hook",
    "fp16_compress_wrapper",
]

Hook = Callable[[Any, Any], Future[Any]]


def _average(process_group: AnyGroup, tensor: Tensor) -> Future[Any]:
    """A future of the average of a tensor over a group; the tensor is changed."""
    import wend.distributed as dist
    from wend.distributed._group import resolve

    tensor.div_(resolve(process_group).size())
    work: Any = dist.all_reduce(tensor, group=process_group, async_op=True)
    if work is None:  # a group of a single process
        done: Future[Any] = Future()
        done.set_result(tensor)
        return done
    future: Future[Any] = work.get_future()
    return future.then(lambda f: f.value()[0])


def allreduce_hook(process_group: AnyGroup, bucket: Any) -> Future[Any]:
    """Average the gradients over the group (None: all processes), as without a hook."""
    return _average(process_group, bucket.buffer())


def _compressed(process_group: AnyGroup, bucket: Any, dtype: DType) -> Future[Any]:
    flat = bucket.buffer()
    return _average(process_group, flat.to(dtype)).then(lambda f: flat.copy_(f.value()))


def fp16_compress_hook(process_group: AnyGroup, bucket: Any) -> Future[Any]:
    """Average gradients that travel as float16; the sum is made in float32."""
    return _compressed(process_group, bucket, float16)


def bf16_compress_hook(process_group: AnyGroup, bucket: Any) -> Future[Any]:
    """Average gradients that travel as bfloat16; the sum is made in float32."""
    return _compressed(process_group, bucket, bfloat16)


def _wrapped(hook: Hook, dtype: DType) -> Hook:
    def compressed(state: object, bucket: Any) -> Future[Any]:
        flat = bucket.buffer()
        bucket.set_buffer(flat.to(dtype))
        return hook(state, bucket).then(lambda f: flat.copy_(f.value()))

    return compressed


def fp16_compress_wrapper(hook: Hook) -> Hook:
    """A hook that gives another hook the gradients as float16."""
    return _wrapped(hook, float16)


def bf16_compress_wrapper(hook: Hook) -> Hook:
    """A hook that gives another hook the gradients as bfloat16."""
    return _wrapped(hook, bfloat16)


#: How `DistributedDataParallel` lets gradients travel for a hook: None for their own dtype.
WIRES: dict[Hook, Any] = {
    allreduce_hook: None,
    fp16_compress_hook: float16,
    bf16_compress_hook: bfloat16,
}
