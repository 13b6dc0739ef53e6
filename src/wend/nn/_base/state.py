"""A module's `state_dict` and the loading of a `state_dict`."""

from __future__ import annotations

import itertools
import warnings
from collections import OrderedDict, namedtuple
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from wend._frontend.toolkit import Tensor, no_grad
from wend.nn._base.hooks import HookTable, RemovableHandle
from wend.nn.parameter import Parameter, is_lazy

EXTRA_STATE = "_extra_state"


if TYPE_CHECKING:

    class _Keys(NamedTuple):
        missing_keys: list[str]
        unexpected_keys: list[str]

else:
    _Keys = namedtuple("IncompatibleKeys", ["missing_keys", "unexpected_keys"])


class _IncompatibleKeys(_Keys):
    """Keys that `load_state_dict` found to be missing or unexpected."""

    __slots__ = ()

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return super().__repr__()

    __str__ = __repr__


class StateMixin:
    """Saving and loading of parameters, persistent buffers and extra state."""

    _parameters: Any
    _buffers: Any
    _modules: Any
    _version: int
    _non_persistent_buffers_set: set[str]
    _state_dict_hooks: HookTable
    _state_dict_pre_hooks: HookTable
    _load_state_dict_pre_hooks: HookTable
    _load_state_dict_post_hooks: HookTable

    # -- saving ----------------------------------------------------------------------------

    def get_extra_state(self) -> Any:
        """Override to put something of your own into `state_dict`, with `set_extra_state`."""
        raise RuntimeError(
            "Reached a code path in Module.get_extra_state() that should never be called."
        )

    def set_extra_state(self, state: object) -> None:
        """Override to receive the result of `get_extra_state`."""
        raise RuntimeError(
            "Reached a code path in Module.set_extra_state() that should never be called."
        )

    def _has_own(self, method: str) -> bool:
        return getattr(type(self), method) is not getattr(StateMixin, method)

    def _save_to_state_dict(
        self, destination: dict[str, Any], prefix: str, keep_vars: bool
    ) -> None:
        """Put this module's own state, without the submodules', into `destination`."""
        for name, parameter in self._parameters.items():
            if parameter is not None:
                destination[prefix + name] = parameter if keep_vars else parameter.detach()
        for name, buffer in self._buffers.items():
            if buffer is not None and name not in self._non_persistent_buffers_set:
                destination[prefix + name] = buffer if keep_vars else buffer.detach()
        if self._has_own("get_extra_state"):
            destination[prefix + EXTRA_STATE] = self.get_extra_state()

    def state_dict(
        self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False
    ) -> dict[str, Any]:
        """All parameters and persistent buffers by dotted path, in an OrderedDict.

        keep_vars: the parameters themselves instead of detached views.
        """
        if args:  # the older, positional form
            destination = args[0] if destination is None else destination
            prefix = args[1] if len(args) > 1 and prefix == "" else prefix
            keep_vars = args[2] if len(args) > 2 and keep_vars is False else keep_vars
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = metadata
        for hook in self._state_dict_pre_hooks.values():
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(
                    destination=destination, prefix=prefix + name + ".", keep_vars=keep_vars
                )
        for hook in self._state_dict_hooks.values():
            result = hook(self, destination, prefix, metadata)
            if getattr(hook, "_from_public_api", False):
                if result is not None:
                    raise RuntimeError("state_dict post-hook must return None")
            elif result is not None:
                destination = result
        return destination

    def _register_state_dict_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        if getattr(hook, "_from_public_api", False):
            raise RuntimeError(
                "Cannot register the same function as the state dict post hook that was "
                "previously registered via register_state_dict_post_hook"
            )
        return self._state_dict_hooks.add(hook)

    def register_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, state_dict, prefix, local_metadata)` after `state_dict`."""
        hook._from_public_api = True  # type: ignore[attr-defined]
        return self._state_dict_hooks.add(hook)

    def register_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, prefix, keep_vars)` before `state_dict`."""
        return self._state_dict_pre_hooks.add(hook)

    # -- loading ---------------------------------------------------------------------------

    def _register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], with_module: bool = False
    ) -> RemovableHandle:
        return self._load_state_dict_pre_hooks.add(_LoadHook(hook, self if with_module else None))

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, state_dict, prefix, local_metadata, strict, missing_keys,
        unexpected_keys, error_msgs)` before this module loads."""
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, incompatible_keys)` after this module and those below loaded."""
        return self._load_state_dict_post_hooks.add(hook)

    def _load_from_state_dict(
        self,
        state_dict: Mapping[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Load this module's own state, without the submodules'; override to adapt old states.

        Faults are appended to the three lists.
        """
        for hook in self._load_state_dict_pre_hooks.values():
            hook(
                state_dict, prefix, local_metadata, strict,
                missing_keys, unexpected_keys, error_msgs,
            )  # fmt: skip
        persistent = [
            item
            for item in self._buffers.items()
            if item[0] not in self._non_persistent_buffers_set
        ]
        assign = bool(local_metadata.get("assign_to_params_buffers", False))
        for name, tensor in itertools.chain(list(self._parameters.items()), persistent):
            if tensor is None:
                continue
            key = prefix + name
            if key in state_dict:
                self._load_tensor(name, key, tensor, state_dict[key], assign, error_msgs)
            elif strict:
                missing_keys.append(key)
        self._load_extra_state(state_dict, prefix, strict, missing_keys, unexpected_keys)
        if strict:
            self._find_unexpected(state_dict, prefix, unexpected_keys)

    def _load_tensor(
        self, name: str, key: str, own: Tensor, source: object, assign: bool, error_msgs: list[str]
    ) -> None:
        if not isinstance(source, Tensor):
            error_msgs.append(
                f'While copying the parameter named "{key}", expected torch.Tensor or '
                f"Tensor-like object from checkpoint but received {type(source)}"
            )
            return
        lazy = is_lazy(own)
        if lazy and is_lazy(source):
            return  # neither has values yet
        if not lazy and own.dim() == 0 and source.dim() == 1 and source.numel() == 1:
            source = source[0]  # scalars were stored with a dim before PyTorch 0.4
        if not lazy and source.shape != own.shape:
            error_msgs.append(
                f"size mismatch for {key}: copying a param with shape {source.shape} from "
                f"checkpoint, the shape in current model is {own.shape}."
            )
            return
        try:
            with no_grad():
                if assign:
                    if isinstance(own, Parameter):
                        if not isinstance(source, Parameter):
                            source = Parameter(source, requires_grad=own.requires_grad)
                        else:
                            source.requires_grad_(own.requires_grad)
                    setattr(self, name, source)
                else:
                    if own.is_meta and not source.is_meta:
                        _warn_of_nothing_copied(key)
                    own.copy_(source)
        except Exception as error:
            # As in PyTorch: errors of all tensors are collected and raised as one.
            error_msgs.append(
                f'While copying the parameter named "{key}", whose dimensions in the model are '
                f"{own.size()} and whose dimensions in the checkpoint are {source.size()}, an "
                f"exception occurred : {error.args}."
            )

    def _load_extra_state(
        self,
        state_dict: Mapping[str, Any],
        prefix: str,
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
    ) -> None:
        key = prefix + EXTRA_STATE
        if self._has_own("set_extra_state"):
            if key in state_dict:
                self.set_extra_state(state_dict[key])
            elif strict:
                missing_keys.append(key)
        elif strict and key in state_dict:
            unexpected_keys.append(key)

    def _find_unexpected(
        self, state_dict: Mapping[str, Any], prefix: str, unexpected_keys: list[str]
    ) -> None:
        for key in state_dict:
            if not key.startswith(prefix) or key == prefix + EXTRA_STATE:
                continue
            name, dot, _ = key[len(prefix) :].partition(".")
            if dot:
                if name not in self._modules:
                    unexpected_keys.append(key)
            elif not self._stores(name):
                unexpected_keys.append(key)

    def _stores(self, name: str) -> bool:
        """Whether `state_dict` has a tensor of this module under that name."""
        if name in self._non_persistent_buffers_set:
            return False
        return self._parameters.get(name, self._buffers.get(name)) is not None

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> _IncompatibleKeys:
        """Copy a `state_dict` into this module's parameters and buffers.

        strict: keys that are missing or unexpected are errors.
        assign: take the tensors themselves instead of copying values.
        Raises RuntimeError that lists every fault.
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        metadata = getattr(state_dict, "_metadata", None)
        state: Any = OrderedDict(state_dict)
        if metadata is not None:
            state._metadata = metadata
        faults = _Faults(metadata, strict, assign)
        faults.load(self, state, "")
        if strict:
            faults.insert_keys()
        if faults.error_msgs:
            raise RuntimeError(
                "Error(s) in loading state_dict for {}:\n\t{}".format(
                    type(self).__name__, "\n\t".join(faults.error_msgs)
                )
            )
        return _IncompatibleKeys(faults.missing_keys, faults.unexpected_keys)


def _warn_of_nothing_copied(key: str) -> None:
    warnings.warn(
        f"for {key}: copying from a non-meta parameter in the checkpoint to a meta parameter in "
        "the current model, which is a no-op. (Did you mean to pass `assign=True` to assign items "
        "in the state dictionary to their corresponding key in the module instead of copying them "
        "in place?)",
        UserWarning,
        stacklevel=6,
    )


class _LoadHook:
    """A hook before loading, with the module as the first argument where asked for."""

    def __init__(self, hook: Callable[..., Any], module: object) -> None:
        self.hook, self.module = hook, module

    def __call__(self, *args: object) -> Any:
        if self.module is None:
            return self.hook(*args)
        return self.hook(self.module, *args)


class _Faults:
    """A run of `load_state_dict` over a tree of modules."""

    def __init__(self, metadata: dict[str, Any] | None, strict: bool, assign: bool) -> None:
        self.metadata, self.strict, self.assign = metadata, strict, assign
        self.missing_keys: list[str] = []
        self.unexpected_keys: list[str] = []
        self.error_msgs: list[str] = []

    def load(self, module: Any, state: Any, prefix: str) -> None:
        local = {} if self.metadata is None else dict(self.metadata.get(prefix[:-1], {}))
        if self.assign:
            local["assign_to_params_buffers"] = True
        module._load_from_state_dict(
            state, prefix, local, True, self.missing_keys, self.unexpected_keys, self.error_msgs
        )
        for name, child in list(module._modules.items()):
            if child is not None:
                below = prefix + name + "."
                part = OrderedDict((k, v) for k, v in state.items() if k.startswith(below))
                self.load(child, part, below)
        incompatible_keys = _IncompatibleKeys(self.missing_keys, self.unexpected_keys)
        for hook in module._load_state_dict_post_hooks.values():
            if hook(module, incompatible_keys) is not None:
                raise RuntimeError(
                    "Hooks registered with ``register_load_state_dict_post_hook`` are not "
                    "expected to return new values, if incompatible_keys need to be modified, "
                    "it should be done inplace."
                )

    def insert_keys(self) -> None:
        """Put missing and unexpected keys before all other faults."""
        for what, keys in (
            ("Unexpected", self.unexpected_keys),
            ("Missing", self.missing_keys),
        ):
            if keys:
                listed = ", ".join(f'"{key}"' for key in keys)
                self.error_msgs.insert(0, f"{what} key(s) in state_dict: {listed}. ")
