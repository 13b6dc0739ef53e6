"""`Optimizer`: parameters in groups, a state for each, and steps that change them."""

from __future__ import annotations

import sys
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from itertools import chain
from typing import Any

from wend._engine.base.errors import ArgumentError, GraphError
from wend._engine.base.interrupts import is_interrupt
from wend._engine.core._hot import current_trace
from wend._engine.core._types import off_mode
from wend._engine.core.holdings import NAMERS
from wend._engine.core.provenance import one_site
from wend._engine.core.whole import (
    Headroom,
    cuts_short,
    is_undone,
    last_rebinding,
    one_at_a_time,
    position,
    take_back,
)
from wend._engine.runtime.measure.taps import SOURCES, Taps
from wend._engine.transforms.hooks import MADE_OF_PARTS, made_of_parts
from wend._frontend.toolkit import Tensor, enable_grad, no_grad, synchronize, tensor
from wend.nn._base.gradients import clear_gradients
from wend.nn._base.hooks import HookTable, RemovableHandle
from wend.optim._stepping import Params, counter_dtype

__all__ = [
    "Optimizer",
    "register_optimizer_step_post_hook",
    "register_optimizer_step_pre_hook",
    "swap_in_optimizer_params_and_state",
]


class _Required:
    def __repr__(self) -> str:
        return "<required parameter>"


required: _Required = _Required()

#: Sets of parameters that an optimizer remembers; and the number of steps that a set must have had,
#: where there are more sets than these, before the whole set is a single path again.
MOST_SETS, OFTEN = 16, 32

_global_step_pre_hooks = HookTable()
_global_step_post_hooks = HookTable()


def register_optimizer_step_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(optimizer, args, kwargs)` before every step of every optimizer."""
    return _global_step_pre_hooks.add(hook)


def register_optimizer_step_post_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(optimizer, args, kwargs)` after every step of every optimizer."""
    return _global_step_post_hooks.add(hook)


class Optimizer:
    """Base of all optimizers.

    params: tensors, (name, tensor) pairs, or dicts of 'params' and further settings of a group
    defaults: settings of groups without their own

    Subclasses either define `_update(group, parameters)`, which records a step for the parameters
    of a group that have gradients, or override `step` as a whole. `_update_sparse` is for gradients
    that are sparse tensors.
    """

    #: Whether a step that fails half-way leaves the state as it was.
    _whole_steps = True
    #: Whether the update of an element depends on the whole parameter.
    _needs_wholes = False

    OptimizerPreHook = Callable[..., Any]
    OptimizerPostHook = Callable[..., Any]

    #: Entries of a parameter's state that are numbers here and 0-d tensors in state dicts.  A class
    #: of the user's has none: a `step` of any kind is kept as it is.
    _counters: tuple[str, ...] = ()
    #: While a step is taken, where the step began: see `whole.position`, and the states then.
    #: A value of the class, for wrappers that do not call `__init__`.
    _begun: tuple[int, dict[Any, dict[str, Any]]] | None = None

    def __init__(self, params: Params, defaults: dict[str, Any]) -> None:
        if isinstance(params, Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or "
                f"dicts, but got {type(params)}"
            )
        self.defaults = defaults
        self._set_up()
        self.state: defaultdict[Any, Any] = defaultdict(dict)
        self.param_groups: list[dict[str, Any]] = []
        groups: list[Any] = list(params)
        if len(groups) == 0:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(dict(group))
        # Initial values are computed now: the first step is then the same path as all later steps.
        if any(p.value.buffer is None for group in self.param_groups for p in group["params"]):
            synchronize()

    def _set_up(self) -> None:
        """Initialise all that is neither state nor settings."""
        #: How many steps there have been of sets of parameters, by ids: those met last.
        self._sets: dict[tuple[int, ...], int] = {}
        self._varies = False  # whether there have been more
        self._begun = None
        self._optimizer_step_pre_hooks = HookTable()
        self._optimizer_step_post_hooks = HookTable()
        self._optimizer_state_dict_pre_hooks = HookTable()
        self._optimizer_state_dict_post_hooks = HookTable()
        self._optimizer_load_state_dict_pre_hooks = HookTable()
        self._optimizer_load_state_dict_post_hooks = HookTable()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        own = cls.__dict__.get("step")
        if own is not None and not getattr(own, "hooked", False):
            type.__setattr__(cls, "step", _with_hooks(own))  # editors go on seeing `step` itself

    def __getstate__(self) -> dict[str, Any]:
        return {
            "defaults": self.defaults,
            "state": self.state,
            "param_groups": self.param_groups,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if "_optimizer_step_pre_hooks" not in self.__dict__:
            self._set_up()
        for group in self.param_groups:
            for name, default in self.defaults.items():
                group.setdefault(name, default)

    def __repr__(self) -> str:
        lines = [type(self).__name__ + " ("]
        for i, group in enumerate(self.param_groups):
            lines += [""] * (i > 0) + [f"Parameter Group {i}"]
            lines += [f"    {key}: {group[key]}" for key in sorted(group) if key != "params"]
        return "\n".join(lines) + "\n)"

    # -- steps -----------------------------------------------------------------------------

    def _update(self, group: dict[str, Any], parameters: list[Tensor]) -> None:
        """Record a step for the parameters of a group; each has a gradient."""
        raise NotImplementedError(f"{type(self).__name__} defines neither step nor _update")

    def _update_sparse(self, group: dict[str, Any], parameters: list[Tensor]) -> None:
        """Record a step for parameters of a group whose gradients are sparse tensors."""
        raise GraphError(
            f"{type(self).__name__} does not support sparse gradients, please consider SparseAdam "
            "instead"
        )

    def _update_all(self, group: dict[str, Any], parameters: list[Tensor]) -> None:
        """Record a step for parameters of a group, with dense and with sparse gradients."""
        if MADE_OF_PARTS:
            sparse = [p for p in parameters if made_of_parts(p.grad)]
            if sparse:
                self._update_sparse(group, sparse)
                parameters = [p for p in parameters if not made_of_parts(p.grad)]
                if not parameters:
                    return
        self._update(group, parameters)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Change the parameters once by their gradients.

        closure: computes the loss and the gradients anew; its result is returned
        """
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        if self.defaults.get("differentiable"):
            with enable_grad():
                self._record_step()
        else:
            trace = current_trace()
            mode = trace.mode
            trace.mode = off_mode(mode)  # as `no_grad`, which takes much longer
            try:
                self._record_step()
            finally:
                trace.mode = mode
        return loss

    def _record_step(self) -> None:
        """Record the updates of all groups, in the present mode."""
        parameters_by_group = [
            [p for p in group["params"] if p.grad is not None] for group in self.param_groups
        ]
        if self.defaults.get("differentiable"):
            self._check_histories(parameters_by_group)
        whole = self._comes_back(parameters_by_group) or current_trace().n > 0
        with one_at_a_time():
            for group, parameters in zip(self.param_groups, parameters_by_group, strict=True):
                if not whole:
                    self._update_each(group)
                elif parameters:
                    self._update_all(group, parameters)

    def _check_histories(self, parameters_by_group: list[list[Tensor]]) -> None:
        """Raise GraphError for a leaf that requires grad: a step writes to the parameters."""
        for p in chain.from_iterable(parameters_by_group):
            if p.requires_grad and p.is_leaf:
                raise GraphError(
                    f"{type(self).__name__}: a leaf Variable that requires grad is being used in "
                    f"an in-place operation: a parameter of shape {tuple(p.shape)}; with "
                    "differentiable=True parameters have a history, as p.clone() has"
                )

    def _comes_back(self, parameters_by_group: list[list[Tensor]]) -> bool:
        """Whether a step of these parameters, by group, is a path that is going to be met again.

        Where examples decide which parameters are used, a set hardly comes back: each set would be
        planned anew. A whole set is one path, unless there are many sets.
        """
        sets = self._sets
        key = tuple([id(p) for parameters in parameters_by_group for p in parameters])
        n = sets[key] = sets.pop(key, 0) + 1  # behind those met before
        if len(sets) > MOST_SETS:
            del sets[next(iter(sets))]
            self._varies = True
        return not self._varies or n >= OFTEN

    def _update_each(self, group: dict[str, Any]) -> None:
        """As `_update`, a path for each pair: mostly a layer's, and like layers share the path.

        The pairs depend on the group alone, not on the set.
        """
        every = group["params"]
        stop: BaseException | None = None
        begun: Any = None  # the note of `_begin` for the pair at hand
        k = 0
        while k < len(every):
            try:
                while k < len(every):
                    pair = [p for p in every[k : k + 2] if p.grad is not None]
                    if pair:
                        self._begin([])
                        begun = self._begun
                        self._update_all(group, pair)
                        self._begin(pair)  # the steps of these are taken
                        current_trace().journal = None
                        synchronize()
                    begun, k = None, k + 2
            except BaseException as error:
                if stop is not None or not is_interrupt(error):
                    raise
                stop = error  # when all are: those before are not to be taken back
                if begun is not None and self._begun is begun:
                    self._take_back()  # and begin the pair again
                elif begun is not None:
                    k += 2
                begun = None
        if stop is not None:
            raise stop

    def _begin(self, taken: list[Tensor] | None = None) -> None:
        """Note where a step begins, as `_take_back` needs it.

        taken: parameters whose part of the step is done, and is to be kept
        """
        states = self.state
        if taken is None or self._begun is None:
            before = {key: _copied(state) for key, state in states.items()}
        elif taken:
            before = {**self._begun[1], **{p: _copied(states[p]) for p in taken if p in states}}
        else:
            before = self._begun[1]
        self._begun = position(current_trace()), before

    def _take_back(self) -> None:
        """Give parameters and states back the values from before the step."""
        if self._begun is not None:
            take_back(current_trace(), self._begun[0])
            self._restore(self._begun[1])

    def _restore(self, before: dict[Any, dict[str, Any]]) -> None:
        """After a step that failed: restore all that is not a tensor, as tensors are restored."""
        for key, state in list(self.state.items()):
            if key in before:
                state.clear()
                state.update(before[key])
            else:
                del self.state[key]

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all parameters (or fill them with zeros)."""
        every = chain.from_iterable(group["params"] for group in self.param_groups)
        clear_gradients(every, set_to_none)

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(optimizer, args, kwargs)` before each step; a result replaces both."""
        return self._optimizer_step_pre_hooks.add(hook)

    def register_step_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(optimizer, args, kwargs)` after each step."""
        return self._optimizer_step_post_hooks.add(hook)

    # -- groups ----------------------------------------------------------------------------

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group of parameters, with settings for the group.

        Raises TypeError or ValueError for anything but leaf tensors that have no group yet.
        """
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        params = param_group["params"]
        if isinstance(params, Tensor):
            params = [params]
        elif isinstance(params, set):
            raise TypeError(
                "optimizer parameters need to be organized in ordered collections, but the "
                "ordering of tensors in sets will change between runs. Please use a list instead."
            )
        params = list(params)
        if params and isinstance(params[0], tuple):
            param_group["param_names"] = [name for name, _ in params]
            params = [parameter for _, parameter in params]
        param_group["params"] = params
        for parameter in params:
            if not isinstance(parameter, Tensor):
                raise TypeError(
                    "optimizer can only optimize Tensors, but one of the params is "
                    f"{type(parameter)}"
                )
            if not (
                self.defaults.get("differentiable")
                or parameter.is_leaf
                or parameter.requires_grad is False
            ):
                raise ValueError("can't optimize a non-leaf Tensor")
            if self._needs_wholes and getattr(parameter, "_shard", None) is not None:
                raise ValueError(
                    f"{type(self).__name__}: updates depend on whole parameters, and after "
                    "fully_shard each rank has rows alone; take an optimizer that updates each "
                    "element by itself, such as AdamW"
                )
        for name, default in self.defaults.items():
            if default is required and name not in param_group:
                raise ValueError(
                    "parameter group didn't specify a value of required optimization "
                    f"parameter {name}"
                )
            param_group.setdefault(name, default)
        if len({id(p) for p in params}) != len(params):
            warnings.warn(
                "optimizer contains a parameter group with duplicate parameters, which are "
                "updated more than once a step",
                stacklevel=3,
            )
        known = {id(p) for group in self.param_groups for p in group["params"]}
        if not known.isdisjoint(id(p) for p in params):
            raise ValueError("some parameters appear in more than one parameter group")
        self.param_groups.append(param_group)

    # -- state dict ------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """State and groups, parameters named by positions."""
        for hook in self._optimizer_state_dict_pre_hooks.values():
            hook(self)
        places: dict[int, int] = {}
        groups = []
        for group in self.param_groups:
            for parameter in group["params"]:
                places.setdefault(id(parameter), len(places))
            packed = {key: value for key, value in group.items() if key != "params"}
            packed["params"] = [places[id(parameter)] for parameter in group["params"]]
            groups.append(packed)
        state = {
            (places[id(key)] if isinstance(key, Tensor) else key): self._packed(value)
            for key, value in self.state.items()
        }
        result: dict[str, Any] = {"state": state, "param_groups": groups}
        for hook in self._optimizer_state_dict_post_hooks.values():
            replaced = hook(self, result)
            if replaced is not None:
                result = replaced
        return result

    def _packed(self, state: Any) -> Any:
        """A parameter's state with counters as tensors, as PyTorch keeps them."""
        if not isinstance(state, dict):
            return state
        return {
            name: tensor(float(value), dtype=counter_dtype())
            if name in self._counters and isinstance(value, (int, float))
            else value
            for name, value in state.items()
        }

    def _unpacked(self, value: Any, parameter: Tensor, name: str | None = None) -> Any:
        """A loaded state: tensors in the parameter's dtype, counters as numbers."""
        if isinstance(value, Tensor):
            if name in self._counters:
                return float(value)
            if name == "step" or not parameter.is_floating_point():
                return value.clone()
            return value.to(parameter.device, parameter.dtype, copy=True)
        if isinstance(value, dict):
            return {key: self._unpacked(item, parameter, key) for key, item in value.items()}
        if isinstance(value, Iterable) and not isinstance(value, str):
            return type(value)(self._unpacked(item, parameter) for item in value)  # type: ignore[call-arg]
        return float(value) if name in self._counters else value

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over state and settings of a `state_dict`, parameters matched by position.

        Raises ValueError if the groups do not fit.
        """
        state_dict = dict(state_dict)
        for hook in self._optimizer_load_state_dict_pre_hooks.values():
            replaced = hook(self, state_dict)
            if replaced is not None:
                state_dict = replaced
        saved = deepcopy(state_dict["param_groups"])
        own = self.param_groups
        if len(own) != len(saved):
            raise ValueError("loaded state dict has a different number of parameter groups")
        if any(len(a["params"]) != len(b["params"]) for a, b in zip(own, saved, strict=True)):
            raise ValueError(
                "loaded state dict contains a parameter group that doesn't match the size of "
                "optimizer's group"
            )
        by_place = dict(
            zip(
                chain.from_iterable(group["params"] for group in saved),
                chain.from_iterable(group["params"] for group in own),
                strict=True,
            )
        )
        state: defaultdict[Any, Any] = defaultdict(dict)
        for key, value in state_dict["state"].items():
            if key in by_place:
                state[by_place[key]] = self._unpacked(value, by_place[key])
            else:
                state[key] = value
        groups = []
        for group, loaded in zip(own, saved, strict=True):
            loaded["params"] = group["params"]
            if "param_names" in group and "param_names" not in loaded:
                loaded["param_names"] = group["param_names"]
            groups.append(loaded)
        self.__setstate__({"state": state, "param_groups": groups})
        for hook in self._optimizer_load_state_dict_post_hooks.values():
            hook(self)

    def register_state_dict_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(optimizer)` before `state_dict`."""
        return self._optimizer_state_dict_pre_hooks.add(hook, first=prepend)

    def register_state_dict_post_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(optimizer, state_dict)` after `state_dict`; the hook may return a new dict."""
        return self._optimizer_state_dict_post_hooks.add(hook, first=prepend)

    def register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(optimizer, state_dict)` before loading; the hook may return a new dict."""
        return self._optimizer_load_state_dict_pre_hooks.add(hook, first=prepend)

    def register_load_state_dict_post_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(optimizer)` after loading."""
        return self._optimizer_load_state_dict_post_hooks.add(hook, first=prepend)


def _copied(state: dict[str, Any]) -> dict[str, Any]:
    """A parameter's present state, with copies of lists of tensors."""
    return {key: list(x) if type(x) is list else x for key, x in state.items()}


def _with_hooks(step: Callable[..., Any]) -> Callable[..., Any]:
    """A `step` with the hooks around it, that leaves nothing pending behind."""

    def hooked(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
        if "_optimizer_step_pre_hooks" not in vars(self):
            # A wrapper that never called __init__: the wrapped optimizer takes the step.
            return step(self, *args, **kwargs)
        if _global_step_pre_hooks or self._optimizer_step_pre_hooks:
            args, kwargs = _run_pre_hooks(self, args, kwargs)
        if self._begun is not None:  # called by the step of a subclass
            result = step(self, *args, **kwargs)
        else:
            result = _take_step(self, step, args, kwargs)
        if self._optimizer_step_post_hooks or _global_step_post_hooks:
            for hook in (
                *self._optimizer_step_post_hooks.values(),
                *_global_step_post_hooks.values(),
            ):
                hook(self, args, kwargs)
        return result

    hooked.hooked = True  # type: ignore[attr-defined]
    hooked.__doc__ = step.__doc__
    hooked.__name__ = "step"
    hooked.__wrapped__ = step  # type: ignore[attr-defined]
    return hooked


def _profile_hook_step(func: Callable[..., Any]) -> Callable[..., Any]:
    """`func`, a step of a class of optimizers, with the hooks of steps around each call."""
    return _with_hooks(func)


Optimizer.profile_hook_step = staticmethod(_profile_hook_step)  # type: ignore[attr-defined]


def _take_step(
    optimizer: Optimizer,
    step: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """Take a step as a whole. A step cut short before all is recorded changes nothing.

    Recorded results are the parameters' values, whether already computed or not.
    """
    trace = current_trace()
    journal = trace.journal
    recorded = False
    last: Any = None
    try:
        with one_site(trace):
            try:
                optimizer._begin()
                result = step(optimizer, *args, **kwargs)
                last = last_rebinding(trace)
                recorded = True
            except BaseException as error:
                with Headroom():
                    if not recorded and cuts_short(error):
                        optimizer._take_back()
                raise
            finally:
                trace.journal = journal
            synchronize()
    except Exception as error:
        if (
            optimizer._begun is not None
            and optimizer._whole_steps
            and (is_undone(last) or not (recorded or cuts_short(error)))
        ):
            optimizer._restore(optimizer._begun[1])
        raise
    finally:
        optimizer._begun = None
    return result


def _run_pre_hooks(
    optimizer: Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    for hook in (
        *_global_step_pre_hooks.values(),
        *optimizer._optimizer_step_pre_hooks.values(),
    ):
        answer = hook(optimizer, args, kwargs)
        if answer is None:
            continue
        if not isinstance(answer, tuple) or len(answer) != 2:
            raise RuntimeError(
                "step pre-hook of an optimizer must return None or a tuple of (new_args, "
                f"new_kwargs), but got {answer}."
            )
        args, kwargs = answer
    return args, kwargs


Optimizer.step = _with_hooks(Optimizer.step)  # type: ignore[method-assign]


def measure_optimizers(recorder: Any, taps: Taps) -> None:
    """Have the steps of optimizers measured."""

    def make(original: Any) -> Any:
        def measured(optimizer: Any, *args: Any) -> Any:
            scope = recorder.enter("optimizer", f"Optimizer.step#{type(optimizer).__name__}.step")
            try:
                return original(optimizer, *args)
            finally:
                recorder.leave(scope)

        return measured

    taps.replace(sys.modules[__name__], "_take_step", make)


SOURCES.append(measure_optimizers)


# -- parameters in place of the optimizer's own ----------------------------------------------


@contextmanager
def swap_in_optimizer_params_and_state(
    optimizer: Optimizer,
    swapin_parameters: dict[str, Tensor],
    swapin_optim_state: dict[str, Any],
) -> Iterator[None]:
    """A block in which the optimizer has other parameters, another state and other settings.

    swapin_parameters: the parameters by name, in the order of the optimizer's own
    swapin_optim_state: as `optimizer.state_dict()`; steps inside change its tensors in place, and
    nothing else of the dict
    Behind the block the optimizer is as before. Raises ArgumentError if the groups do not fit.
    """
    groups = swapin_optim_state["param_groups"]
    own = optimizer.param_groups
    _check_swapped(own, groups, swapin_parameters)
    fresh = iter(swapin_parameters.values())
    before, settings = optimizer.state, [dict(group) for group in own]
    state: defaultdict[Any, Any] = defaultdict(dict)
    pairs: list[tuple[dict[str, Any], dict[str, Any]]] = []
    try:
        for group, other in zip(own, groups, strict=True):
            parameters = [next(fresh) for _ in other["params"]]
            group.update({key: value for key, value in other.items() if key != "params"})
            group["params"] = parameters
            for parameter, place in zip(parameters, other["params"], strict=True):
                saved = swapin_optim_state["state"].get(place, {})
                state[parameter] = {
                    key: float(value) if key in optimizer._counters else value
                    for key, value in saved.items()
                }
                pairs.append((saved, state[parameter]))
        optimizer.state = state
        yield
    finally:
        for group, kept in zip(own, settings, strict=True):
            group.clear()
            group.update(kept)
        optimizer.state = before
        _hand_back(pairs)


def _check_swapped(own: list[Any], groups: list[Any], parameters: dict[str, Tensor]) -> None:
    """Raises ArgumentError unless groups and numbers of parameters agree."""
    name = "swap_in_optimizer_params_and_state"
    if len(own) != len(groups):
        raise ArgumentError(
            f"{name}: the state has {len(groups)} groups, and the optimizer {len(own)}"
        )
    for i, (group, other) in enumerate(zip(own, groups, strict=True)):
        if len(group["params"]) != len(other["params"]):
            raise ArgumentError(
                f"{name}: group {i} of the state has {len(other['params'])} parameters, and the "
                f"optimizer's {len(group['params'])}"
            )
    needed = sum(len(group["params"]) for group in own)
    if len(parameters) != needed:
        raise ArgumentError(
            f"{name}: {len(parameters)} parameters are given, and the optimizer has {needed}"
        )


def _hand_back(pairs: list[tuple[dict[str, Any], dict[str, Any]]]) -> None:
    """Write the values of states, as steps left them, into the tensors that the user gave."""
    with no_grad():
        for saved, used in pairs:
            for key, value in saved.items():
                entry = used.get(key)
                if isinstance(value, Tensor) and entry is not None and entry is not value:
                    value.copy_(entry) if isinstance(entry, Tensor) else value.fill_(entry)


def name_states(optimizer: Optimizer) -> Iterator[tuple[Tensor, str]]:
    """The tensors of an optimizer's state, with names for reports of memory."""
    kind = type(optimizer).__name__
    for state in list(vars(optimizer).get("state", {}).values()):
        if isinstance(state, dict):
            for key, x in list(state.items()):
                if isinstance(x, Tensor):
                    yield x, f"state of optimizers: {key} of {kind}"


NAMERS.append((Optimizer, name_states))
