"""What a random program is given to run with: data, decisions, reads, a function of its own.

A printed program carries the text of this file, so that it runs by itself.
"""

from __future__ import annotations

import random

import numpy as np

#: What PyTorch refuses and Wend, on purpose, computes (docs/compatibility.md).
REFUSED = (
    "modified by an inplace operation",
    "a leaf Variable that requires grad is being used",  # of a view of what was none when taken
    "derivative for aten::",
    "the derivative for '_",
    "refer to a single memory location",
    "its base or another view of its base has been modified",
    "A view was created in no_grad mode and is being modified inplace",
    "is the output of a function that returns multiple views",
    "This view was created inside a custom Function",
    "Expected !nested_tensorlist",  # an encoder layer of nothing, in evaluation
    "Trying to backward through the graph a second time",
    "Can't detach views in-place",
    "saved tensor that has been detached in-place",
    "view size is not compatible with input tensor's size and stride",
)


class Undecided(Exception):
    """A branch hangs on a rounding error."""


def product_of(torch):
    """A product as a user would write it, with its own backward."""

    class Product(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            y = torch.tanh(a * b)
            ctx.save_for_backward(a, b, y)
            return y

        @staticmethod
        def backward(ctx, g):
            a, b, y = ctx.saved_tensors
            g = g * (1 - y * y)
            return g * b, g * a

    return Product


def data_of(torch, seed):
    """data(key, shape, dtype, requires_grad): the same numbers for the same key and seed."""

    def data(key, shape, dtype, requires_grad=False):
        draw = np.random.default_rng((seed, key))
        if dtype == torch.bool:
            return torch.tensor(draw.random(shape) < 0.5)
        if dtype in (torch.int64, torch.int32, torch.uint8):
            low = 0 if dtype == torch.uint8 else -3
            return torch.tensor(draw.integers(low, 4, shape)).to(dtype)
        made = torch.tensor(draw.uniform(-2, 2, shape)).to(dtype)
        return made.requires_grad_() if requires_grad else made

    return data


def decide_of(margin):
    """decide(value, limit): whether a value is greater.

    Raises Undecided where it is too close, and in a loop that does not end.
    """
    left = [100]

    def decide(value, limit):
        found = value.item()
        left[0] -= 1
        if not left[0] or abs(found - limit) <= margin * max(1.0, abs(found)):
            raise Undecided
        return found > limit

    return decide


def read_of(seed, results):
    """read(key, value): looks at a value or not, in one way or another; never with seed 0."""
    place = random.Random(seed)

    def read(key, value):
        if seed and place.random() < 0.6:
            kind = place.randrange(3)
            if kind == 0:
                repr(value)
            elif kind == 1:
                value.tolist()
            else:
                results[f"read {key}, {len(results)}"] = plain(value)

    return read


def plain(value):
    """dtype, requires_grad and the numbers of a tensor."""
    dtype = str(value.dtype).rpartition(".")[2]
    array = value.detach().cpu()
    if dtype in ("float16", "bfloat16"):
        array = array.float()
    return dtype, value.requires_grad, array.numpy().copy()


def fill_of(data):
    """fill(key, module): the module, with weights that are the same for the same key."""

    def fill(key, module):
        for i, p in enumerate(module.parameters()):
            p.data.copy_(data(1000 * key + i, tuple(p.shape), p.dtype) * 0.4)
        return module

    return fill


def parts_of(name, thing):
    """Names and tensors, arrays and numbers of all that a program could look at."""
    if hasattr(thing, "param_groups"):
        for i, group in enumerate(thing.param_groups):
            numbers = {key: value for key, value in group.items() if key != "params"}
            yield from parts_of(f"{name} {i}", numbers)
            for j, p in enumerate(group["params"]):
                for key, value in thing.state.get(p, {}).items():
                    # Counts are numbers in Wend, and tensors in PyTorch.
                    single = getattr(value, "ndim", 1) == 0
                    yield from parts_of(f"{name} {i} {j}.{key}", float(value) if single else value)
    elif hasattr(thing, "named_parameters"):
        yield from parts_of(name, dict(thing.named_parameters()))
        yield from parts_of(name, dict(thing.named_buffers()))
    elif isinstance(thing, dict):
        for key in sorted(thing, key=str):
            yield from parts_of(f"{name}.{key}", thing[key])
    elif isinstance(thing, (list, tuple)):
        for i, part in enumerate(thing):
            yield from parts_of(f"{name}[{i}]", part)
    elif isinstance(thing, (int, float)) and not isinstance(thing, bool):
        yield name, np.array(float(thing))
    elif hasattr(thing, "shape"):
        yield name, thing


def watch_of(seed, results, later):
    """watch(step, **things): notes the numbers of all things.

    As the seed says, copies are made whose numbers are read `later`, or the numbers are read at
    once, or only those of the last step, or copies in every second: what is read is computed.
    """
    way = seed % 4

    def note(name, value):
        if isinstance(value, np.ndarray):
            results[name] = "array", False, value.copy()
            return
        results[name] = None  # keeps its place
        if way == 1:
            results[name] = plain(value)
        else:
            later[name] = value.detach().clone(), value.requires_grad

    def watch(step, **things):
        if way == 2:
            for name in later:
                del results[name]
            later.clear()
        if way == 3 and step % 2:
            return
        for key, thing in things.items():
            for name, value in parts_of(f"{step}: {key}", thing):
                note(name, value)
                if not isinstance(value, np.ndarray) and value.is_leaf:
                    name = f"{name}.grad"
                    if value.grad is None:
                        results[name] = None
                    else:
                        note(name, value.grad)

    return watch


def caught_of(results):
    """caught(step, error): notes the kind of an error, and goes on."""

    def caught(step, error):
        if any(text in str(error) for text in REFUSED):
            raise error
        kinds = [c.__name__ for c in type(error).__mro__ if c.__module__ == "builtins"]
        results[f"{step}: error {len(results)}"] = "error", False, np.array(kinds)

    return caught


def call(torch, program, product, margin, n, m, data, reads):
    """Run a program; returns its results by name and what its hooks saw."""
    results, seen, later = {}, [], {}
    draw = data_of(torch, data)
    found = program(
        torch, torch.nn.functional, product, draw, decide_of(margin), read_of(reads, results),
        seen, n, m, fill_of(draw), watch_of(reads, results, later), caught_of(results),
    )  # fmt: skip
    for name, (value, requires_grad) in later.items():
        dtype, _, array = plain(value)
        results[name] = dtype, requires_grad, array
    for name in list(found):
        value = found.pop(name)
        results[name] = plain(value)
        if value.is_leaf or value.retains_grad:
            results[f"{name}.grad"] = None if value.grad is None else plain(value.grad)
    return results, seen
