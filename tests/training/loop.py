"""Trains as a case says, with either library, and tells all that came of it."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable
from typing import Any

import numpy as np

from training.choices import OPTIMISERS, SCHEDULES, TASKS, Case
from training.tasks import Batch, fill, tensors

STEPS = 12
HALF = STEPS // 2
SIZES: dict[str, Callable[[int], int]] = {
    "equal": lambda turn: 5,
    "changing": lambda turn: (5, 3, 7, 4)[turn % 4],
    "never_equal": lambda turn: 3 + turn,
}
#: What PyTorch's state dicts hold besides, and nothing depends on once a step is over.
SCRATCH = ("al", "_get_lr_called_within_step")
#: What a loop does between the backward pass and the step: tests put faults here.
Meddle = Callable[["Learner", int], None]


class Learner:
    """A model in training, its optimisers and schedules, in one library."""

    def __init__(self, t: Any, case: Case, seed: int = 1) -> None:
        self.t, self.case, self.task = t, case, TASKS[case.task]
        self.model = fill(t, self.task.make(t), case.dtype, seed)
        self.losses: list[Any] = []
        self.buffers: dict[str, np.ndarray] = {}
        self.watched: list[float] = []
        self.arrays: dict[str, np.ndarray] = {}
        self.equip()

    def equip(self) -> None:
        """Make new optimisers for the model's parameters, and new schedules."""
        plain, full = OPTIMISERS[self.case.optimiser]
        made = getattr(self.t.optim, self.case.optimiser)
        settings = full if self.case.settings == "full" else plain
        schedules = self.t.optim.lr_scheduler
        self.optimisers = []
        self.schedules = []
        for _, start in self.task.phases:
            named = self.model.named_parameters()
            chosen = [p for name, p in named if name.startswith(start) and p.requires_grad]
            given: Any = chosen
            if self.case.settings == "groups" and self.case.optimiser != "LBFGS":
                other = {"params": chosen[1::2], "lr": 0.5 * settings["lr"]}
                given = [{"params": chosen[::2]}, other]
            optimiser = made(given, **settings)
            self.optimisers.append(optimiser)
            if self.case.schedule != "none":
                self.schedules.append(SCHEDULES[self.case.schedule](schedules, optimiser))

    # -- batches -------------------------------------------------------------------------------

    def batch(self, step: int, part: int) -> Batch:
        """The batch of a step, or a part of it where gradients are accumulated."""
        turn = step * int(self.case.accumulate) + part
        drawn = self.task.draw(np.random.default_rng((7, turn)), SIZES[self.case.sizes](turn))
        return tensors(drawn, self.case.dtype, self.tensor_of)

    def tensor_of(self, name: str, array: np.ndarray) -> Any:
        """An array of a batch as a tensor, as the case says."""
        if self.case.data == "tensor":
            return self.t.tensor(array)
        if self.case.data == "one_buffer":  # memory that the batch before had, too
            if name not in self.buffers or self.buffers[name].size < array.size:
                self.buffers[name] = np.zeros(4 * array.size, array.dtype)
            place = self.buffers[name][: array.size].reshape(array.shape)
            place[...] = array
            array = place
        return self.t.from_numpy(array)

    # -- steps -----------------------------------------------------------------------------------

    def step(self, step: int, meddle: Meddle | None = None) -> None:
        """One step of each phase, and what the model does after it."""
        losses = [self.phase(step, k, meddle) for k in range(len(self.task.phases))]
        for schedule, loss in zip(self.schedules, losses, strict=False):
            if self.case.schedule == "ReduceLROnPlateau":
                schedule.step(loss.item())
            else:
                schedule.step()
        self.losses += [loss.item() if self.case.losses == "read" else loss for loss in losses]
        if hasattr(self.model, "after_step"):
            self.model.after_step(step)
        self.watch(step)

    def phase(self, step: int, k: int, meddle: Meddle | None) -> Any:
        """A step of one optimiser; returns the loss before it."""
        optimiser = self.optimisers[k]
        if self.case.closure == "no" and self.case.optimiser != "LBFGS":
            loss = self.gradients(step, k)
            if meddle is not None:
                meddle(self, step)
            optimiser.step()
        else:
            loss = optimiser.step(lambda: self.gradients(step, k))
        return loss.detach()

    def gradients(self, step: int, k: int) -> Any:
        """Compute the gradients of a phase anew; returns its loss."""
        optimiser, case = self.optimisers[k], self.case
        loss_of = getattr(self.model, self.task.phases[k][0])
        optimiser.zero_grad(set_to_none=case.zeroing == "to_none")
        total, parts = 0, int(case.accumulate)
        for part in range(parts):
            loss = loss_of(**self.batch(step, part)) / parts
            self.backward(loss)
            total = total + loss.detach()
        parameters = [p for group in optimiser.param_groups for p in group["params"]]
        if case.clip == "norm":
            self.t.nn.utils.clip_grad_norm_(parameters, 0.3)
        elif case.clip == "value":
            self.t.nn.utils.clip_grad_value_(parameters, 0.05)
        return total

    def backward(self, loss: Any) -> None:
        """Add the gradients of a loss, in the way that the case says."""
        if self.case.backward == "twice":
            (0.25 * loss).backward(retain_graph=True)
            (0.75 * loss).backward()
        elif self.case.backward == "assigned":
            learnt = [p for p in self.model.parameters() if p.requires_grad]
            grads = self.t.autograd.grad(loss, learnt, allow_unused=True)
            for p, grad in zip(learnt, grads, strict=True):
                if grad is not None:
                    p.grad = grad if p.grad is None else p.grad + grad
        else:
            loss.backward()

    def watch(self, step: int) -> None:
        """Look at what the step has left, as the case says."""
        if self.case.watched == "evaluated":
            self.model.eval()
            with self.t.no_grad():
                loss = getattr(self.model, self.task.phases[0][0])(**self.batch(step, 0))
                self.watched.append(loss.item())
            self.model.train()
        elif self.case.watched == "norms":
            for p in self.model.parameters():
                self.watched.append(p.norm().item())
                if p.grad is not None:
                    self.watched.append(p.grad.norm().item())
        elif self.case.watched == "arrays" and not self.arrays:
            named = self.model.named_parameters()
            self.arrays = {name: p.detach().numpy() for name, p in named}

    # -- half-way ----------------------------------------------------------------------------------

    def succeeded(self) -> Learner:
        """Who goes on after half of the steps."""
        if self.case.half_way == "reloaded":
            return self.reloaded()
        if self.case.half_way == "deepcopied":
            return self.copied()
        return self

    def reloaded(self) -> Learner:
        """A new learner with other weights, which then loads what this one has saved."""
        file = io.BytesIO()
        self.t.save(
            {
                "model": self.model.state_dict(),
                "optimisers": [o.state_dict() for o in self.optimisers],
                "schedules": [s.state_dict() for s in self.schedules],
            },
            file,
        )
        file.seek(0)
        saved = self.t.load(file)
        new = Learner(self.t, self.case, seed=2)
        new.model.load_state_dict(saved["model"])
        for kept, own in (("optimisers", new.optimisers), ("schedules", new.schedules)):
            for state, one in zip(saved[kept], own, strict=True):
                one.load_state_dict(state)
        for optimiser in new.optimisers:
            narrow_counters(optimiser)
        new.losses, new.watched = self.losses, self.watched
        return new

    def copied(self) -> Learner:
        """A copy of model and optimisers together; schedules are loaded.

        PyTorch's LBFGS cannot be copied.
        """
        new = copy.copy(self)
        new.losses, new.watched = list(self.losses), list(self.watched)
        new.buffers, new.arrays, new.schedules = {}, {}, []
        if self.case.optimiser == "LBFGS":
            new.model = copy.deepcopy(self.model)
            new.equip()
            for old, optimiser in zip(self.optimisers, new.optimisers, strict=True):
                optimiser.load_state_dict(copy.deepcopy(old.state_dict()))
            new.schedules = []
        else:
            new.model, new.optimisers = copy.deepcopy((self.model, self.optimisers))
        for old, optimiser in zip(self.schedules, new.optimisers, strict=False):
            schedule = SCHEDULES[self.case.schedule](self.t.optim.lr_scheduler, optimiser)
            schedule.load_state_dict(old.state_dict())
            new.schedules.append(schedule)
        return new

    # -- what came of it ---------------------------------------------------------------------------

    def everything(self, title: str = "") -> dict[str, Any]:
        """Parameters, their gradients, buffers, states and losses, by name."""
        found: dict[str, Any] = {}
        for name, parameter in self.model.named_parameters():
            found[f"{title}parameter {name}"] = plain(parameter)
            found[f"{title}gradient of {name}"] = plain(parameter.grad)
        for name, buffer in self.model.named_buffers():
            found[f"{title}buffer {name}"] = plain(buffer)
        for kind, all_of_it in (("optimiser", self.optimisers), ("schedule", self.schedules)):
            for i, one in enumerate(all_of_it):
                _add(found, f"{title}{kind} {i}", one.state_dict())
        for name, array in self.arrays.items():
            found[f"{title}array of {name}"] = array.copy()
        found[f"{title}watched"] = np.array(self.watched)
        found[f"{title}losses"] = np.array([float(loss) for loss in self.losses])
        return found


def narrow_counters(optimiser: Any) -> None:
    """Let PyTorch go on exactly, too: it widens these numbers when it loads them, to the
    parameter's dtype, and does not round them any more as in a run that was not interrupted.
    """
    for state in optimiser.state.values():
        for name in ("mu_product", "eta", "mu"):
            if hasattr(state.get(name), "float"):
                state[name] = state[name].float()


def plain(value: Any) -> Any:
    """A tensor as an array of its own."""
    return np.array(value.detach().cpu().numpy()) if hasattr(value, "detach") else value


def _add(found: dict[str, Any], title: str, value: Any) -> None:
    """Flatten dicts and lists into names."""
    if isinstance(value, dict):
        items = [(f"{title} {key}", item) for key, item in value.items()]
    elif isinstance(value, (list, tuple)):
        items = [(f"{title} {i}", item) for i, item in enumerate(value)]
    else:
        found[title] = plain(value)
        return
    for name, item in items:
        if name.rpartition(" ")[2] not in SCRATCH:
            _add(found, name, item)


def train(t: Any, case: Case, steps: int = STEPS, meddle: Meddle | None = None) -> dict[str, Any]:
    """Train for some steps; nothing but the losses is looked at before the end."""
    learner = Learner(t, case)
    left: Learner | None = None
    for step in range(steps):
        if step == HALF:
            before, learner = learner, learner.succeeded()
            left = None if before is learner else before
        learner.step(step, meddle)
        if step == HALF and left is not None:
            left.step(step)  # must not change the other's
    found = learner.everything()
    if left is not None:
        found |= left.everything("left behind: ")
    return found
