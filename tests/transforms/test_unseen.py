"""Explored graphs of functions whose state has no name: results on the stack, and counts in C."""

import itertools

import numpy as np
import pytest

import wend as torch
from wend._engine.base import tree
from wend._engine.transforms.exploring.running import run
from wend._engine.transforms.exploring.unseen import held_at
from wend._frontend.static.explored import explored as explore

SIGNS = list(itertools.product((1.0, -1.0), repeat=3))


def a_sum(x):
    return x * float(sum(1 for v in x[0, :3] if v > 0))


def a_list(x):
    first, second, third = [1 if v > 0 else 2 for v in x[0, :3]]
    return x * float(first + 10 * second + 100 * third)


def a_filtered_list(x):
    return x * float(sum([2 for v in x[0, :3] if v > 0]))


def a_dict(x):
    codes = {i: (1 if x[0, i] > 0 else 2) for i in range(3)}
    return x * float(codes[0] + 10 * codes[1] + 100 * codes[2])


def choices_in_an_expression(x):
    return x * (2.0 if (1 if x[0, 0] > 0 else 2) + (1 if x[0, 1] > 0 else 3) == 4 else 1.0)


def and_or(x):
    return x * float(((x[0, 0] > 0 and 2) or 3) * 10 + ((x[0, 1] > 0 and 2) or 3))


def the_greatest(x):
    return x * float(max(i if x[0, i] > 0 else -1 for i in range(3)))


def a_string(x):
    return x * float(len("".join("a" if x[0, i] > 0 else "" for i in range(3))))


def choices_in_a_string(x):
    codes = f"{1 if x[0, 0] > 0 else 2}{1 if x[0, 1] > 0 else 3}"
    return x * float(codes)


def how_many(x, row):
    count = 0
    for i in range(3):
        if x[row, i] > 0:
            count += 1
    return count


def calls_in_an_expression(x):
    return x * float(how_many(x, 0) + 10 * how_many(x, 1))


def arguments(x):
    return x * float(max(1 if x[0, 0] > 0 else 5, how_many(x, 0)))


def generated_list(x):
    return x * float(len(tuple(v for v in x[0, :3] if v > 0)))


@pytest.mark.parametrize(
    "function",
    [a_sum, a_list, a_filtered_list, a_dict, choices_in_an_expression, and_or, the_greatest,
     a_string, choices_in_a_string, calls_in_an_expression, arguments, generated_list],
)  # fmt: skip
def test_results_without_a_name_are_part_of_the_state(function):
    """Disabled: runs that differ in such a result go on as the first of them."""
    program = explore(function, (torch.ones(2, 4),))
    captured = {c.id: c.tensor for c in program.captured}
    for first, second in itertools.product(SIGNS, SIGNS):
        x = torch.tensor([[*first, 1.0], [*second, 1.0]])
        (result,) = tree.leaves(run(program, [x.clone()], captured))
        np.testing.assert_array_equal(result.numpy(), function(x).numpy())


def counted(x):
    return x * float(x.shape.count(4))


def two_counts(x):
    return x * (2.0 if x.shape.count(4) + x.shape.count(3) == 2 else 1.0)


def a_pair_in_a_list(x):
    return x * 2 if (x.shape[0], x.shape[1]) in [(5, 4), (3, 2)] else x + 1


def sizes_in_a_sum(x):
    return x * float(sum(n == 4 for n in x.shape))


@pytest.mark.parametrize("function", [counted, two_counts, a_pair_in_a_list, sizes_in_a_sum])
def test_counts_of_sizes_in_c_are_branches(function):
    program = explore(function, (torch.ones(5, 4),))
    for sizes in itertools.product((2, 3, 4, 5, 7), repeat=2):
        x = torch.ones(*sizes)
        (result,) = tree.leaves(run(program, [x.clone()], {}))
        np.testing.assert_array_equal(result.numpy(), function(x).numpy())


def test_tensors_without_a_name_are_found_and_loops_stay():
    """Answers as state lead to a path for each number of turns: tensors need none."""

    def doubled(x):
        while x.abs().sum() < 20:
            x = x * 2
        return x

    def function(x):
        y = x * 3 if x[0, 0] > 0 else x
        return (y + (x if x[0, 1] > 0 else y)) + doubled(x)

    program = explore(function, (torch.ones(2, 4),))
    for first in SIGNS:
        x = torch.tensor([[*first, 0.25], [0.5, 0.5, 0.0, 0.125]])
        (result,) = tree.leaves(run(program, [x.clone()], {}))
        np.testing.assert_allclose(result.numpy(), function(x).numpy())


def test_the_stack_at_a_question():
    code = choices_in_an_expression.__code__
    held = [held_at(code, at) for at in range(0, len(code.co_code), 2)]
    assert {h.unseen > 0 for h in held} == {False, True}
    assert all(h.statement == 0 or h.statement <= 2 * k for k, h in enumerate(held))
