"""Limited-memory BFGS (Nocedal and Wright, Numerical Optimization, chapters 3 and 7)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wend._frontend.toolkit import Tensor, enable_grad, full_beside, no_grad, ops
from wend.optim._stepping import Params, checked, number
from wend.optim.optimizer import Optimizer

__all__ = ["LBFGS"]

Evaluate = Callable[[float], tuple[float, Tensor]]  # step length -> loss and flat gradient


class LBFGS(Optimizer):
    """Quasi-Newton steps; a call `step(closure)` makes up to max_iter of them.

    max_eval: most evaluations of the closure in a step (max_iter * 5 / 4)
    history_size: how many updates the curvature is estimated from
    line_search_fn: None (the step length is lr) or 'strong_wolfe'
    """

    _needs_wholes = True
    _whole_steps = False  # a closure that raises has moved the parameters, as in PyTorch

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        defaults = checked(locals(), "lr")
        if max_eval is None:
            defaults["max_eval"] = max_iter * 5 // 4
        super().__init__(params, defaults)
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")
        self._params = self.param_groups[0]["params"]

    # -- parameters and gradients as a vector -----------------------------------------------

    def _flat_grad(self) -> Tensor:
        parts = [
            full_beside(p, tuple(p.shape), 0.0) if p.grad is None else p.grad for p in self._params
        ]
        return ops.cat([_real(part).reshape(-1) for part in parts], 0)

    def _move(self, length: float, direction: Tensor) -> None:
        place = 0
        for p in self._params:
            real = _real(p)  # a view: what is added changes the parameter
            size = real.numel()
            real.add_(direction[place : place + size].reshape(real.shape), alpha=length)
            place += size

    def _set(self, values: list[Tensor]) -> None:
        for p, value in zip(self._params, values, strict=True):
            p.copy_(value)

    # -- a step ----------------------------------------------------------------------------

    def step(self, closure: Callable[[], Any]) -> Any:  # type: ignore[override]
        """Make up to max_iter quasi-Newton steps; returns the first loss."""
        with no_grad():
            return _Run(self, closure).run()


_AT_THE_END = ("d", "t", "old_dirs", "old_stps", "ro", "H_diag", "prev_flat_grad", "prev_loss")


class _Run:
    """A call of `LBFGS.step`."""

    def __init__(self, owner: LBFGS, closure: Callable[[], Any]) -> None:
        self.owner = owner
        self.closure = closure
        self.settings = owner.param_groups[0]
        self.state = owner.state[owner._params[0]]
        self.state.setdefault("func_evals", 0)
        self.state.setdefault("n_iter", 0)
        self.evaluations = 0
        # As in PyTorch, the state gets these at the end of a step: not if the closure raises.
        self.new = {key: self.state.get(key) for key in _AT_THE_END}

    def evaluate(self) -> Any:
        """The loss at the current parameters, with gradients in `.grad`."""
        with enable_grad():
            return self.closure()

    def count(self, evaluations: int) -> None:
        """Note evaluations of the closure."""
        self.evaluations += evaluations
        self.state["func_evals"] += evaluations

    def run(self) -> Any:
        """Return the closure's first loss, after as many iterations as the settings allow."""
        settings, state = self.settings, self.state
        first = self.evaluate()
        loss = float(first)
        self.count(1)
        grad = self.owner._flat_grad()
        if _largest(grad) <= settings["tolerance_grad"]:
            return first
        iterations = 0
        new = self.new
        while iterations < settings["max_iter"]:
            iterations += 1
            state["n_iter"] += 1
            direction = self.direction(grad)
            if new["prev_flat_grad"] is None:
                new["prev_flat_grad"] = grad.clone()
            else:
                new["prev_flat_grad"].copy_(grad)
            new["prev_loss"] = before = loss
            lr = number(settings["lr"])
            length = lr
            if state["n_iter"] == 1:
                length = min(1.0, 1.0 / float(grad.abs().sum())) * lr
            slope = float(grad.dot(direction))
            new["t"] = length
            if slope > -settings["tolerance_change"]:
                break
            last = iterations == settings["max_iter"]
            loss, grad, length = self.advance(loss, grad, direction, length, slope, last)
            new["t"] = length
            if self.finished(grad, direction, length, loss, before):
                break
        state.update(new)
        return first

    def direction(self, grad: Tensor) -> Tensor:
        """Minus the inverse Hessian's estimate times the gradient: the two-loop recursion.

        Each weight is read as a number.  The ops between two reads are then always the same,
        however long the history is, and come back as a path that is known.
        """
        state = self.new
        if self.state["n_iter"] == 1 or state["d"] is None:
            state["d"] = -grad
            state["old_dirs"], state["old_stps"], state["ro"] = [], [], []
            state["H_diag"] = 1
            return state["d"]
        change = grad - state["prev_flat_grad"]
        moved = state["d"] * state["t"]
        product = float(change.dot(moved))
        if product > 1e-10:
            if len(state["old_dirs"]) == self.settings["history_size"]:
                for key in ("old_dirs", "old_stps", "ro"):
                    state[key].pop(0)
            state["old_dirs"].append(change)
            state["old_stps"].append(moved)
            state["ro"].append(1.0 / product)
            state["H_diag"] = product / float(change.dot(change))
        q = -grad
        weights = []
        history = list(zip(state["old_dirs"], state["old_stps"], state["ro"], strict=True))
        for y, s, ro in reversed(history):
            weight = float(s.dot(q)) * ro
            q.add_(y, alpha=-weight)
            weights.append(weight)
        d = q * state["H_diag"]
        for (y, s, ro), weight in zip(history, reversed(weights), strict=True):
            d.add_(s, alpha=weight - float(y.dot(d)) * ro)
        state["d"] = d
        return d

    def advance(
        self, loss: float, grad: Tensor, direction: Tensor, length: float, slope: float, last: bool
    ) -> tuple[float, Tensor, float]:
        """Go along the direction; the new loss, gradient and the length gone."""
        owner = self.owner
        search = self.settings["line_search_fn"]
        if search is None:
            owner._move(length, direction)
            if not last:  # the last point is evaluated by the next step
                loss = float(self.evaluate())
                grad = owner._flat_grad()
                self.count(1)
            return loss, grad, length
        if search != "strong_wolfe":
            raise RuntimeError("only 'strong_wolfe' is supported")
        start = [p.clone() for p in owner._params]

        def probe(t: float) -> tuple[float, Tensor]:
            owner._move(t, direction)
            value = float(self.evaluate())
            gradient = owner._flat_grad()
            owner._set(start)
            return value, gradient

        most = self.settings["max_eval"] - self.evaluations
        line = _Line(probe, loss, grad, slope, direction, self.settings["tolerance_change"], most)
        loss, grad, length = line.search(length)
        owner._move(length, direction)
        self.count(line.evaluations)
        return loss, grad, length

    def finished(
        self, grad: Tensor, direction: Tensor, length: float, loss: float, before: float
    ) -> bool:
        """Whether a tolerance or a bound is reached."""
        settings = self.settings
        if self.evaluations >= settings["max_eval"]:
            return True
        if _largest(grad) <= settings["tolerance_grad"]:
            return True
        tolerance = settings["tolerance_change"]
        return _largest(direction) * abs(length) <= tolerance or abs(loss - before) < tolerance


def _real(x: Tensor) -> Tensor:
    """A view of a complex tensor as pairs of real numbers; a real tensor as it is."""
    return ops.view_as_real(x) if x.is_complex() else x  # type: ignore[no-any-return]


def _largest(x: Tensor) -> float:
    return float(x.abs().max())


def _cubic_minimum(
    a: tuple[float, float, float],
    b: tuple[float, float, float],
    bounds: tuple[float, float] | None = None,
) -> float:
    """Where the cubic through two points (place, value, slope) is least, within the bounds."""
    (x1, f1, g1), (x2, f2, g2) = a, b
    low, high = bounds if bounds is not None else (min(x1, x2), max(x1, x2))
    d1 = g1 + g2 - 3 * (f1 - f2) / (x1 - x2)
    square = d1 * d1 - g1 * g2
    if not square >= 0:
        return (low + high) / 2.0
    d2 = square**0.5
    if x1 <= x2:
        place = x2 - (x2 - x1) * ((g2 + d2 - d1) / (g2 - g1 + 2 * d2))
    else:
        place = x1 - (x1 - x2) * ((g1 + d2 - d1) / (g1 - g2 + 2 * d2))
    return min(max(place, low), high)


class _Point:
    """A place on the line with loss, gradient and slope there."""

    def __init__(self, t: float, loss: float, grad: Tensor, slope: float) -> None:
        self.t, self.loss, self.grad, self.slope = t, loss, grad, slope

    @property
    def triple(self) -> tuple[float, float, float]:
        """The numbers that the cubic needs."""
        return self.t, self.loss, self.slope


class _Line:
    """A search for a step length that fulfils the strong Wolfe conditions."""

    c1, c2 = 1e-4, 0.9

    def __init__(
        self,
        probe: Evaluate,
        loss: float,
        grad: Tensor,
        slope: float,
        direction: Tensor,
        tolerance: float,
        most: int,
    ) -> None:
        self.most = most  # iterations of bracketing and zooming together
        self.iterations = 0
        self.probe, self.direction, self.tolerance = probe, direction, tolerance
        self.start = _Point(0.0, loss, grad, slope)
        self.scale = _largest(direction)
        self.evaluations = 0

    def at(self, t: float) -> _Point:
        """Evaluate a place."""
        loss, grad = self.probe(t)
        self.evaluations += 1
        return _Point(t, loss, grad, float(grad.dot(self.direction)))

    def too_high(self, point: _Point) -> bool:
        """Whether the loss has not fallen enough."""
        return point.loss > self.start.loss + self.c1 * point.t * self.start.slope

    def flat(self, point: _Point) -> bool:
        """Whether the slope has fallen enough."""
        return abs(point.slope) <= -self.c2 * self.start.slope

    def search(self, t: float) -> tuple[float, Tensor, float]:
        """(loss, gradient, length)."""
        bracket = self.bracket(t)
        best = bracket[0] if len(bracket) == 1 else self.zoom(bracket)
        return best.loss, best.grad, best.t

    def bracket(self, t: float) -> list[_Point]:
        """A point that will do, or two points with such a point between them."""
        before = self.start
        point = self.at(t)
        while self.iterations < self.most:
            if self.too_high(point) or (self.iterations > 1 and point.loss >= before.loss):
                return [before, point]
            if self.flat(point):
                return [point]
            if point.slope >= 0:
                return [before, point]
            least = point.t + 0.01 * (point.t - before.t)
            place = _cubic_minimum(before.triple, point.triple, (least, point.t * 10))
            before, point = point, self.at(place)
            self.iterations += 1
        return [self.start, point]

    def zoom(self, bracket: list[_Point]) -> _Point:
        """Narrow the bracket down; returns the lower end."""
        stuck = False
        low, high = (
            sorted(bracket, key=lambda point: point.loss)
            if (bracket[0].loss > bracket[1].loss)
            else bracket
        )
        while self.iterations < self.most:
            self.iterations += 1
            ends = sorted((low.t, high.t))
            width = ends[1] - ends[0]
            if width * self.scale < self.tolerance:
                break
            t = _cubic_minimum(bracket[0].triple, bracket[1].triple)
            margin = 0.1 * width
            if min(ends[1] - t, t - ends[0]) < margin:
                if stuck or t >= ends[1] or t <= ends[0]:
                    near_high = abs(t - ends[1]) < abs(t - ends[0])
                    t = ends[1] - margin if near_high else ends[0] + margin
                    stuck = False
                else:
                    stuck = True
            else:
                stuck = False
            point = self.at(t)
            if self.too_high(point) or point.loss >= low.loss:
                high = point
                if point.loss < low.loss:
                    low, high = high, low
            else:
                if self.flat(point):
                    return point
                if point.slope * (high.t - low.t) >= 0:
                    high = low
                low = point
            bracket = [low, high]
        return low
