"""`DistributedDataParallel`: a module trained by several processes, each with its own data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from wend._engine.base.devices import DeviceLike, device, usable
from wend._engine.base.errors import ArgumentError, ArgumentTypeError, DeviceError, GraphError
from wend._frontend.autograd.grad_modes import is_grad_enabled
from wend._frontend.autograd.watching import watch
from wend.nn.modules.module import Module
from wend.nn.parallel._precision import MixedTypes as _MixedPrecision
from wend.nn.parallel._precision import cast_buffers, cast_parameters, check_types
from wend.nn.parallel.data_parallel import tree_to
from wend.nn.parallel.scatter_gather import gather, scatter_kwargs
from wend.nn.parameter import is_lazy

if TYPE_CHECKING:
    from wend.distributed._engine import Channel
    from wend.distributed._replicas.reducer import Reducer

__all__ = ["DistributedDataParallel"]

MEGABYTE = 1 << 20
#: The number of buckets, and the bytes of a bucket at least, where nobody says.
PARTS, LEAST = 12, MEGABYTE // 4
#: Bytes of the first bucket, which is to be on its way early.
FIRST = MEGABYTE


class DistributedDataParallel(Module):
    """The wrapped module; gradients are averaged over all processes after each backward pass.

    Each process calls the module with a part of a batch. `module` then has the gradients of the
    whole batch in all processes, where the loss is a mean and the parts are of equal size.
    Processes may take different paths: the gradient of a parameter counts as zeros in processes
    that do not use the parameter. A parameter that no process uses keeps its gradient, or has none.
    All processes make as many backward passes through the module (see `join` for uneven inputs).

    The gradients of several backward passes within `wend.batched` are averaged once, at the end of
    that call.

    module: the same in all processes; its parameters and buffers are taken from the first process
    process_group: the processes; all by default. A group of a single process costs nothing
    bucket_cap_mb: megabytes of gradients that are reduced by a single call; by default a twelfth
        of all gradients, but 0.25 to 25
    broadcast_buffers, forward_sync_buffers: give all processes the buffers of the first process
        before a call of the module that follows a call in training
    init_sync: whether parameters and buffers are compared and sent at the beginning

    mixed_precision: a `_MixedPrecision`: types of parameters within a call, of buffers, and in
        which gradients travel. Parameters and gradients keep their types

    `find_unused_parameters`, `static_graph`, `gradient_as_bucket_view` and
    `skip_all_reduce_unused_params` are accepted and change nothing: which parameters are used is
    known from the recorded path, and gradients are views of buckets always. `device_ids` names the
    accelerator of the parameters, to which inputs are moved; on a CPU nothing is named. `dim`,
    `output_device`, `check_reduction` and `batched_grad_copy` change nothing.
    Hooks of single parameters (`delay_all_reduce_named_params`) are not available.

    Raises NoProcessGroup (a ValueError) before `init_process_group`; GraphError (a RuntimeError)
    for a module without parameters that require gradients, or unlike modules in the processes.
    """

    def __init__(
        self,
        module: Module,
        device_ids: Sequence[Any] | None = None,
        output_device: DeviceLike = None,
        dim: int = 0,
        broadcast_buffers: bool | None = None,
        init_sync: bool = True,
        process_group: Any = None,
        bucket_cap_mb: float | None = None,
        find_unused_parameters: bool = False,
        check_reduction: bool = False,
        gradient_as_bucket_view: bool = False,
        static_graph: bool = False,
        delay_all_reduce_named_params: Any = None,
        param_to_hook_all_reduce: Any = None,
        mixed_precision: Any = None,
        device_mesh: Any = None,
        skip_all_reduce_unused_params: bool = False,
        bucket_cap_mb_list: list[float] | None = None,
        batched_grad_copy: bool = False,
        forward_sync_buffers: bool | None = None,
    ) -> None:
        super().__init__()
        from wend.distributed._group import resolve

        if process_group is not None and device_mesh is not None:
            raise GraphError(
                "DistributedDataParallel: cannot specify both process_group and device_mesh "
                "arguments"
            )
        for argument, name in (
            (delay_all_reduce_named_params, "delay_all_reduce_named_params"),
            (param_to_hook_all_reduce, "param_to_hook_all_reduce"),
        ):
            if argument is not None:
                raise ArgumentError(
                    f"DistributedDataParallel: {name} is not available; leave it out, and give "
                    "`register_comm_hook` a function of whole buckets"
                )
        group = resolve(process_group if device_mesh is None else device_mesh)
        if not any(p.requires_grad for p in module.parameters()):
            raise GraphError(
                "DistributedDataParallel is not needed when a module doesn't have any parameters "
                "that require a gradient."
            )
        if bucket_cap_mb is not None and bucket_cap_mb <= 0:
            raise ArgumentError(
                f"DistributedDataParallel: bucket_cap_mb must be positive, got {bucket_cap_mb}"
            )
        _check_initialized(module)
        self.module = module
        self.process_group = group
        self.device = next(module.parameters()).device
        self.device_ids, self.output_device = _devices(self.device, device_ids, output_device)
        self.dim = dim
        sync_buffers = broadcast_buffers if forward_sync_buffers is None else forward_sync_buffers
        self._sends_buffers = True if sync_buffers is None else bool(sync_buffers)
        self.find_unused_parameters = find_unused_parameters
        self.gradient_as_bucket_view = gradient_as_bucket_view
        self.static_graph = static_graph
        self.require_forward_param_sync = True
        self.require_backward_grad_sync = True
        if bucket_cap_mb is None:
            self.bucket_bytes_cap = _even_parts(module)
        else:
            self.bucket_bytes_cap = int(bucket_cap_mb * MEGABYTE)
        first = min(FIRST, self.bucket_bytes_cap)
        if bucket_cap_mb_list:
            first, *rest = [int(mb * MEGABYTE) for mb in bucket_cap_mb_list]
            self.bucket_bytes_cap = rest[0] if rest else first
        self.parameters_to_ignore = set(getattr(module, "_ddp_params_and_buffers_to_ignore", ()))
        self.mixed_precision: _MixedPrecision | None = check_types(mixed_precision)
        if self.mixed_precision is not None and self.mixed_precision.buffer_dtype is not None:
            cast_buffers(module, self.mixed_precision.buffer_dtype, self.parameters_to_ignore)
        self._begin(group, first, init_sync)

    @property
    def broadcast_buffers(self) -> bool:
        """Whether calls begin by giving all processes the buffers of the first."""
        return self._sends_buffers

    def _begin(self, group: Any, first_bytes: int, init_sync: bool) -> None:
        """Connect the processes."""
        named = [
            (name, p)
            for name, p in self.module.named_parameters()
            if name not in self.parameters_to_ignore
        ]
        self._buffers_used = False  # whether a call in training may have changed the buffers
        self._hook: Any = None
        from wend.distributed.algorithms.join import DISABLED

        self._join_config: Any = DISABLED
        self._divides_by_all = True
        reducer: Reducer | None = None
        channel: Channel | None = None
        if group.size() > 1:
            from wend.distributed._replicas.reducer import Reducer, own_channel
            from wend.distributed._replicas.same_state import broadcast_all, check_same

            channel = own_channel(group, "gradients")
            if init_sync:
                check_same(channel, named)
                broadcast_all(channel, [p for _, p in named] + self._synced_buffers(), 0)
            reducer = Reducer([p for _, p in named], channel, first_bytes, self.bucket_bytes_cap)
            types = self.mixed_precision
            if types is not None and types.wire is not None:
                reducer.wire = types.wire.numpy
            watch(reducer)
        object.__setattr__(self, "reducer", reducer)
        object.__setattr__(self, "_channel", channel)

    def _synced_buffers(self) -> list[Any]:
        return [
            b for name, b in self.module.named_buffers() if name not in self.parameters_to_ignore
        ]

    # -- calls ------------------------------------------------------------------------------

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """The wrapped module's result."""
        if self.device_ids:
            inputs, kwargs = tree_to(inputs, self.device), tree_to(kwargs, self.device)
        if self.reducer is not None:
            self._before_call()
        types = self.mixed_precision
        if types is None or types.param_dtype is None:
            return self.module(*inputs, **kwargs)
        from wend.distributed._replicas.casts import cast_tensors

        inputs, kwargs = cast_tensors((inputs, kwargs), types.param_dtype)
        with cast_parameters(self.module, types.param_dtype, self.parameters_to_ignore):
            return self.module(*inputs, **kwargs)

    def to_kwargs(self, inputs: object, kwargs: dict[str, Any], device_id: DeviceLike) -> Any:
        """The arguments for a device: those for the CPU, in tuples with a single entry."""
        return scatter_kwargs(inputs, kwargs, [device_id], self.dim)

    def scatter(self, inputs: Any, kwargs: Any, device_ids: Sequence[Any]) -> Any:
        """The arguments for each device: see `nn.parallel.scatter`."""
        return scatter_kwargs(inputs, kwargs, device_ids, self.dim)

    def gather(self, outputs: Any, output_device: DeviceLike) -> Any:
        """The result of all devices: see `nn.parallel.gather`."""
        return gather(outputs, output_device, self.dim)

    def _before_call(self) -> None:
        """Do all that the processes do together before a call of the module."""
        reducer = self.reducer
        joins = self._join_config.enable
        if joins:
            self._take_step()
        if self.will_sync_module_buffers():
            self._sync_buffers()
        training = is_grad_enabled() and self.module.training
        if training:
            self._buffers_used = True
        syncs = is_grad_enabled() and self.require_backward_grad_sync
        if syncs:
            reducer.armed = True
        self.require_forward_param_sync = syncs or not is_grad_enabled()
        if joins:
            from wend.distributed._replicas.joining import most

            most(self._channel, int(syncs))

    def _take_step(self) -> None:
        """Tell processes without data that this process has some."""
        from wend.distributed.algorithms.join import Join

        count = Join.notify_join_context(self)
        if count is not None and not self._divides_by_all:
            self.reducer.divisor = count

    def will_sync_module_buffers(self) -> bool:
        """Whether the next call begins by giving all processes the same buffers."""
        return (
            self.require_forward_param_sync
            and self.broadcast_buffers
            and (self._buffers_used or self._join_config.enable)
            and bool(self._synced_buffers())
        )

    def _sync_buffers(self) -> None:
        from wend.distributed._replicas.same_state import broadcast_all

        root = 0
        if self._join_config.enable:
            from wend.distributed._replicas.joining import most

            root = most(self._channel, self._channel.line.rank)
        broadcast_all(self._channel, self._synced_buffers(), root)
        self._buffers_used = False

    # -- gradients --------------------------------------------------------------------------

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Context: backward passes add to the gradients of this process alone.

        The first pass behind the block averages the sums. Calls of the module belong into the block
        too.
        """
        before = self.require_backward_grad_sync
        self._let_sync(False)
        try:
            yield
        finally:
            self._let_sync(before)

    def _let_sync(self, on: bool) -> None:
        self.require_backward_grad_sync = on
        if self.reducer is not None:
            self.reducer.sync = on

    def register_comm_hook(self, state: object, hook: Callable[..., Any]) -> None:
        """Let `hook(state, bucket)` reduce each bucket of gradients, in place of the average.

        hook: gets a `GradBucket`, and returns a future of the reduced flat tensor. Hooks of
            `ddp_comm_hooks.default_hooks` run while the backward pass is still computed. Hooks of
            users are called afterwards
        Raises ArgumentTypeError for a hook that is no function, GraphError for a second hook.
        """
        if not callable(hook):
            raise ArgumentTypeError("Communication hook must be callable.")
        if self._hook is not None:
            raise GraphError(
                "register_comm_hook: register_comm_hook or register_builtin_comm_hook can only be "
                "called once."
            )
        self._hook = hook
        if self.reducer is not None:
            self.reducer.use_hook(state, hook)

    def _register_builtin_comm_hook(self, comm_hook_type: object) -> None:
        """Register a native hook of PyTorch's: 'ALLREDUCE', or 'FP16_COMPRESS'."""
        from wend.distributed.algorithms.ddp_comm_hooks import default_hooks

        name = getattr(comm_hook_type, "name", str(comm_hook_type)).upper()
        fp16 = name.endswith("FP16_COMPRESS")
        hook = default_hooks.fp16_compress_hook if fp16 else default_hooks.allreduce_hook
        self.register_comm_hook(None, hook)

    def _set_static_graph(self) -> None:
        """Note that each step takes the same path. Nothing changes by that."""
        self.static_graph = True

    @staticmethod
    def _set_params_and_buffers_to_ignore_for_model(module: Module, names: Iterable[str]) -> None:
        """Leave these parameters and buffers of a module to each process."""
        module._ddp_params_and_buffers_to_ignore = list(names)  # type: ignore[assignment]

    def _get_ddp_logging_data(self) -> dict[str, Any]:
        """Numbers about the rounds so far: see `Counters`."""
        reducer = self.reducer
        known = {} if reducer is None else reducer.counters.as_dict()
        return {
            "world_size": self.process_group.size(),
            "rank": self.process_group.rank(),
            "module_name": type(self.module).__name__,
            "bucket_cap_bytes": self.bucket_bytes_cap,
            "static_graph": self.static_graph,
            "comm_hook": getattr(self._hook, "__qualname__", ""),
            **known,
        }

    # -- uneven inputs ----------------------------------------------------------------------

    def join(
        self,
        divide_by_initial_world_size: bool = True,
        enable: bool = True,
        throw_on_early_termination: bool = False,
    ) -> Any:
        """Context: processes without data left wait here, and take part with zeros.

        divide_by_initial_world_size: average over all processes; else over those with data left
        throw_on_early_termination: raise an error in all processes when the first has no more data
        """
        from wend.distributed.algorithms.join import Join

        return Join(
            [self],
            enable,
            throw_on_early_termination,
            divide_by_initial_world_size=divide_by_initial_world_size,
        )

    def join_hook(self, **kwargs: Any) -> Any:
        """Return the hook of this module for processes without data: see `Join`."""
        from wend.distributed._replicas.joining import ModuleJoinHook

        return ModuleJoinHook(self, kwargs.get("divide_by_initial_world_size", True))

    @property
    def join_device(self) -> Any:
        """The device of the parameters."""
        return self.device

    @property
    def join_process_group(self) -> Any:
        """The processes."""
        return self.process_group

    # -- pickling ---------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        for name in ("process_group", "reducer", "_channel", "_join_config"):
            state.pop(name, None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        from wend.distributed._group import resolve

        super().__setstate__(state)
        self.process_group = resolve(None)
        self.require_forward_param_sync = self.require_backward_grad_sync = True
        self._begin(self.process_group, FIRST, False)


def _even_parts(module: Module) -> int:
    """Bytes of a bucket, where nobody says: the last bucket is never behind other work."""
    total = sum(p.numel() * p.dtype.itemsize for p in module.parameters())
    return min(max(total // PARTS, LEAST), 25 * MEGABYTE)


def _devices(place: device, device_ids: Any, output_device: Any) -> tuple[Any, Any]:
    """(device_ids, output_device) of a module on that device; (None, None) on the CPU.

    Raises DeviceError if `device_ids` names a device that is not that of the parameters.
    """
    if place.index is None or device_ids is None:
        return None, None
    named = [device(place.type, i) if isinstance(i, int) else device(i) for i in device_ids]
    if any(usable(other, "DistributedDataParallel") is not place for other in named):
        raise DeviceError(
            f"DistributedDataParallel: device_ids is {list(device_ids)}, and the parameters lie on "
            f"{place}"
        )
    return [place.index], place.index if output_device is None else output_device


def _check_initialized(module: Module) -> None:
    """Raise GraphError if a parameter has no shape yet."""
    for name, p in module.named_parameters():
        if is_lazy(p):
            raise GraphError(
                "Modules with uninitialized parameters can't be used with "
                f"`DistributedDataParallel`: {name} has no shape yet. Run a dummy forward pass to "
                "correctly initialize the modules"
            )
