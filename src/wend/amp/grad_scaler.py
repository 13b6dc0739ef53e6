"""GradScaler: losses scaled up so that gradients in float16 do not vanish."""

from __future__ import annotations

import warnings
from collections import abc
from enum import Enum
from typing import Any

from wend._engine.base.devices import count_of, usable
from wend._engine.base.devices import device as device_of
from wend._engine.base.dtypes import float32
from wend._engine.core._hot import Tensor
from wend._frontend.autograd.backward import no_grad
from wend._frontend.creation import full

__all__ = ["GradScaler", "OptState"]


class OptState(Enum):
    """How far an optimizer has come since the last `update`."""

    READY = 0
    UNSCALED = 1
    STEPPED = 2


class _Progress:
    """OptState of an optimizer, and by device whether a gradient is infinite or NaN."""

    def __init__(self) -> None:
        self.stage = OptState.READY
        self.found: dict[Any, Tensor] = {}

    def any_found(self) -> float:
        """The sum over devices; 0 if all gradients are finite."""
        return sum(float(f) for f in self.found.values())


class GradScaler:
    """Scale losses before `backward`, and skip steps with infinite or NaN gradients.

    init_scale: the factor at first
    growth_factor: the factor is multiplied by this after `growth_interval` steps without infinities
    backoff_factor: the factor is multiplied by this after a step with infinities
    enabled: if False, each method passes through

    For a device that is not present the scaler disables itself, with a warning.
    """

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 65536.0,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        self._device = device
        self._enabled = enabled and count_of(device_of(device).type) > 0
        if enabled and not self._enabled:
            warnings.warn(
                f"torch.{device}.amp.GradScaler is enabled, but {device.upper()} is not "
                "available.  Disabling.",
                stacklevel=2,
            )
        if not self._enabled:
            return
        if growth_factor <= 1.0:
            raise AssertionError("The growth factor must be > 1.0.")
        if backoff_factor >= 1.0:
            raise AssertionError("The backoff factor must be < 1.0.")
        self._init_scale = init_scale
        self._scale: Tensor | None = None
        self._growth_factor = growth_factor
        self._backoff_factor = backoff_factor
        self._growth_interval = growth_interval
        self._growth_tracker = 0
        self._progress: dict[int, _Progress] = {}

    def _progress_of(self, optimizer: Any) -> _Progress:
        return self._progress.setdefault(id(optimizer), _Progress())

    def _checked_scale(self, action: str) -> Tensor:
        if self._scale is None:
            raise AssertionError(
                f"Attempted {action} but _scale is None.  This may indicate your script did not "
                "use scaler.scale(loss or outputs) earlier in the iteration."
            )
        return self._scale

    def scale(self, outputs: Any) -> Any:
        """The outputs, a tensor or nested lists and tuples of such, multiplied by the scale."""
        if not self._enabled:
            return outputs
        if self._scale is None:
            self._scale = full(
                (), self._init_scale, dtype=float32, device=usable(self._device, "GradScaler")
            )
        if isinstance(outputs, Tensor):
            return outputs * self._scale
        if isinstance(outputs, abc.Iterable):
            scaled = map(self.scale, outputs)
            return type(outputs)(scaled) if isinstance(outputs, (list, tuple)) else scaled  # type: ignore[call-arg]
        raise ValueError("outputs must be a Tensor or an iterable of Tensors")

    def _look(self, optimizer: Any, inverse: Tensor | None) -> dict[Any, Tensor]:
        """Whether any gradient is infinite or NaN; multiplies them by `inverse`."""
        overflow: Tensor | None = None
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        with no_grad():
            for gradient in [p.grad for p in parameters if p.grad is not None]:
                bad = gradient.isfinite().all().logical_not()
                overflow = bad if overflow is None else overflow | bad
                if inverse is not None:
                    gradient.mul_(inverse)
        if any(getattr(p, "_shard", None) is not None for p in parameters):
            from wend.distributed._sharding.across import any_rank_found

            overflow = any_rank_found(parameters, overflow)
        return {} if overflow is None else {overflow.device: overflow.to(float32)}

    def unscale_(self, optimizer: Any) -> None:
        """Divide the gradients of the optimizer's parameters by the scale, once per step."""
        if not self._enabled:
            return
        scale = self._checked_scale("unscale_")
        progress = self._progress_of(optimizer)
        if progress.stage is OptState.UNSCALED:
            raise RuntimeError(
                "unscale_() has already been called on this optimizer since the last update()."
            )
        if progress.stage is OptState.STEPPED:
            raise RuntimeError("unscale_() is being called after step().")
        progress.found = self._look(optimizer, scale.double().reciprocal().float())
        progress.stage = OptState.UNSCALED

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """unscale_ if that is still to do, then optimizer.step() unless a gradient is infinite.

        Raises RuntimeError for a closure, and for a second step before `update`.
        """
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        self._checked_scale("step")
        progress = self._progress_of(optimizer)
        if progress.stage is OptState.STEPPED:
            raise RuntimeError("step() has already been called since the last update().")
        if progress.stage is OptState.READY:
            self.unscale_(optimizer)
        if not progress.found:
            raise AssertionError("No inf checks were recorded for this optimizer.")
        result = None if progress.any_found() else optimizer.step(*args, **kwargs)
        progress.stage = OptState.STEPPED
        return result

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """Adapt the scale to the steps since the last call, or set it."""
        if not self._enabled:
            return
        scale = self._checked_scale("update")
        if new_scale is not None:
            if isinstance(new_scale, Tensor):
                scale.copy_(new_scale)
            else:
                scale.fill_(new_scale)
        else:
            looked = [p for p in self._progress.values() if p.found]
            if not looked:
                raise AssertionError("No inf checks were recorded prior to update.")
            self._adapt(scale, sum(p.any_found() for p in looked) > 0)
        self._progress.clear()

    def _adapt(self, scale: Tensor, overflow: bool) -> None:
        if overflow:
            scale.mul_(self._backoff_factor)
            self._growth_tracker = 0
            return
        self._growth_tracker += 1
        if self._growth_tracker == self._growth_interval:
            grown = scale * self._growth_factor
            if bool(grown.isfinite()):
                scale.copy_(grown)
            self._growth_tracker = 0

    def get_scale(self) -> float:
        """The scale, 1.0 if disabled."""
        if not self._enabled:
            return 1.0
        return self._init_scale if self._scale is None else float(self._scale)

    def get_growth_factor(self) -> float:
        """The factor of growth."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Set the factor of growth."""
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """The factor after infinities."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Set the factor after infinities."""
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """After how many steps the scale grows."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Set after how many steps the scale grows."""
        self._growth_interval = new_interval

    def _get_growth_tracker(self) -> int:
        return self._growth_tracker if self._enabled else 0

    def is_enabled(self) -> bool:
        """Whether the scaler scales."""
        return self._enabled

    def state_dict(self) -> dict[str, Any]:
        """Scale, factors, interval and count of steps; {} if disabled."""
        if not self._enabled:
            return {}
        return {
            "scale": self.get_scale(),
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._get_growth_tracker(),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from a state.  Raises RuntimeError for that of a disabled scaler."""
        if not self._enabled:
            return
        if len(state_dict) == 0:
            raise RuntimeError(
                "The source state dict is empty, possibly because it was saved from a disabled "
                "instance of GradScaler."
            )
        self._init_scale = state_dict["scale"]
        if self._scale is not None:
            self._scale.fill_(state_dict["scale"])
        self._growth_factor = state_dict["growth_factor"]
        self._backoff_factor = state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
        self._growth_tracker = state_dict["_growth_tracker"]

    def _check_inf_per_device(self, optimizer: Any) -> dict[Any, Tensor]:
        self._checked_scale("_check_inf_per_device")
        progress = self._progress_of(optimizer)
        progress.found = self._look(optimizer, None)
        return progress.found

    def _found_inf_per_device(self, optimizer: Any) -> dict[Any, Tensor]:
        return self._progress_of(optimizer).found

    def __getstate__(self) -> dict[str, Any]:
        if self._enabled and self._progress:
            raise AssertionError(
                "A GradScaler instance may only be pickled at the beginning of an iteration, or "
                "at the end after scaler.update()."
            )
        state = self.__dict__.copy()
        if self._enabled:
            state["_init_scale"] = self.get_scale()
            state["_scale"] = None
        return state
