"""Kernels in parts: the same bits for any number of threads, from sizes alone."""

import os
import threading
import weakref

import numpy as np
import pytest

import wend as torch
import wend.nn.functional as F
from tries import own_trie
from wend._engine.base import config
from wend._engine.compiler.kernels.conv.forward import keeps_turned
from wend._engine.compiler.kernels.matmul.matmul import tile_columns
from wend._engine.compiler.parallel.partition import MOST_PARTS
from wend._engine.core import step_log
from wend._engine.runtime.compiled import plan as cpu
from wend._engine.runtime.compiled.threads import default_threads
from wend._engine.runtime.flush_log import last_plans
from wend._engine.runtime.native.launcher import launcher


@pytest.fixture(autouse=True)
def at_once(own_trie):
    """Plans are compiled before their first run, for two threads; their number is put back."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    step_log.ROWS.clear()
    with config.override(compile=True, wait=True):
        yield
    torch.set_num_threads(before)


def normal(*shape, seed=0, grad=False):
    values = np.random.default_rng(seed).normal(size=shape).astype(np.float32)
    return torch.tensor(values, requires_grad=grad)


def run(program):
    """Results and gradients of a program as arrays."""
    leaves, result = program()
    (result.sum() + result.square().mean()).backward()
    torch.synchronize()
    return [t.detach().numpy().copy() for t in [result, *(leaf.grad for leaf in leaves)]]


def elementwise():
    x = normal(700, 1100, grad=True)
    return [x], torch.tanh(x) * 2 + x


def rows():
    x, w, b = normal(900, 300, grad=True), normal(300, grad=True), normal(300, grad=True)
    return [x, w, b], F.layer_norm(torch.softmax(x, 1), (300,), w, b)


def folds():
    x = normal(30, 50, 400, grad=True)
    return [x], x.sum(0) + x.mean((0, 1)) + x.amax() + (x > 3).any().float() + x.sum()


def looked_up():
    table = normal(50, 600, grad=True)
    index = torch.tensor(np.random.default_rng(1).integers(0, 50, 1500))
    return [table], F.embedding(index, table).cumsum(0) * 0.01


def product():
    x, w = normal(700, 130, grad=True), normal(260, 130, seed=1, grad=True)
    return [x, w], F.linear(x, w)


def wide_product():
    x, w = normal(20, 900, grad=True), normal(900, 1500, seed=1, grad=True)
    return [x, w], x @ w


def few_steps():
    x, w = normal(3000, 5, grad=True), normal(5, 900, seed=1, grad=True)
    return [x, w], x @ w


def few_columns():
    x, w = normal(20, 60000, grad=True), normal(20, 3, seed=1, grad=True)
    return [x, w], x.t() @ w


def columns_left_over():
    x, w = normal(640, 700, grad=True), normal(34, 700, seed=1, grad=True)
    return [x, w], x @ w.t()


def few_panels():
    x, w = normal(300, 200, grad=True), normal(200, 256, seed=1, grad=True)
    return [x, w], x @ w


def few_rows():
    x, w = normal(100, 700, grad=True), normal(700, 112, seed=1, grad=True)
    return [x, w], torch.relu(x @ w)


def batched_product():
    x, y = normal(3, 20, 60, 70, grad=True), normal(3, 20, 70, 65, seed=1, grad=True)
    return [x, y], x @ y


def images():
    x, w = normal(12, 8, 40, 40, grad=True), normal(16, 8, 3, 3, seed=1, grad=True)
    return [x, w], F.conv2d(x, w, stride=2, padding=1)


def one_image():
    x, w = normal(1, 8, 90, 90, grad=True), normal(16, 8, 3, 3, seed=1, grad=True)
    return [x, w], F.conv2d(x, w, padding=1)


def many_channels():
    x, w = normal(4, 48, 8, 8, grad=True), normal(40, 48, 3, 3, seed=1, grad=True)
    return [x, w], F.conv2d(x, w, padding=1)


def small_images():
    x, w = normal(9, 70, 10, 6, grad=True), normal(90, 70, 3, 3, seed=1, grad=True)
    return [x, w], torch.relu(F.conv2d(x, w, padding=1)) + F.conv2d(x, w, padding=1)


def transformed_images():
    x, w = normal(8, 64, 11, 14, grad=True), normal(64, 64, 3, 3, seed=1, grad=True)
    return [x, w], F.conv2d(x, w, padding=1)


def transformed_image():
    x, w = normal(1, 48, 45, 38, grad=True), normal(64, 48, 3, 3, seed=1, grad=True)
    return [x, w], F.conv2d(x, w, padding=1)


def filters_of_small_groups():
    """Computed without products, a bias and an activation behind them."""
    x, b = normal(6, 16, 60, 70, grad=True), normal(16, seed=2, grad=True)
    w, v = normal(16, 2, 3, 3, seed=1, grad=True), normal(16, 1, 3, 3, seed=3, grad=True)
    y = F.relu(F.conv2d(x, w, b, padding=1, groups=8))
    return [x, w, b, v], torch.tanh(F.conv2d(y, v, b, groups=16))


def pointwise_images():
    x, b = normal(9, 40, 20, 15, grad=True), normal(50, seed=2, grad=True)
    w = normal(50, 40, 1, 1, seed=1, grad=True)
    return [x, w, b], F.relu(F.conv2d(x, w, b))


def groups_of_images():
    x, b = normal(6, 32, 20, 21, grad=True), normal(64, seed=2, grad=True)
    w = normal(64, 16, 3, 3, seed=1, grad=True)
    return [x, w, b], F.relu(F.conv2d(x, w, b, padding=1, groups=2))


PROGRAMS = [
    elementwise, rows, folds, looked_up, product, wide_product, few_steps, few_columns,
    columns_left_over, few_panels, few_rows,
    batched_product, images, one_image, many_channels, small_images, transformed_images,
    transformed_image, filters_of_small_groups, pointwise_images, groups_of_images,
]  # fmt: skip


def parts_of_last_step():
    """How many calls the stages of the last large flush have, most first."""
    plan = max(last_plans()[-6:], key=lambda plan: len(plan.steps))
    frame = plan.compiled.native_plan.frame
    schedules = launcher.owner_of(frame).skeleton.schedules.values()
    return sorted((len(s.blocks) for found in schedules for s in found.stages), reverse=True)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_results_do_not_depend_on_the_number_of_threads(program):
    torch.set_num_threads(1)
    with config.override(verify=True):  # compared with the reference
        run(program)
    alone = run(program)  # weights may be packed now, whose tiles differ
    for number in (2, 5):
        torch.set_num_threads(number)
        run(program)
        assert parts_of_last_step()[0] > 1
        for _ in range(3):
            for array, same in zip(run(program), alone, strict=True):
                np.testing.assert_array_equal(array, same)


def test_small_kernels_stay_whole():
    x = normal(20, 30, grad=True)
    F.softmax(x @ x.t(), 1).sum().backward()
    x.grad.tolist()
    assert set(parts_of_last_step()) == {1}


def test_one_thread_leaves_whole_what_may_be():
    """A plan that is bound already follows the number of threads."""
    w, x = normal(400, 400, seed=1), normal(3000, 400)
    counts = []
    for number in (1, 2, 1):
        torch.set_num_threads(number)
        F.gelu(x @ w).tolist()
        counts.append(parts_of_last_step()[0])
    assert counts[0] == counts[2] == 1 < counts[1]


def test_whole_convolutions_by_one_weight_transform_it_once():
    torch.set_num_threads(1)
    images = [normal(1, 16, n, n, seed=n) for n in (4, 13, 30, 17)]
    w, other = normal(32, 16, 3, 3, seed=1), normal(16, 16, 3, 3, seed=2)
    for _ in range(3):
        torch.synchronize()
        results = [F.conv2d(F.conv2d(x, other, padding=1), w, padding=1).relu() for x in images]
        arrays = [y.numpy() for y in results]
        plan = max(last_plans()[-6:], key=lambda plan: len(plan.steps))
        together = launcher.owner_of(plan.compiled.native_plan.frame).skeleton.together
        assert [len(steps) for steps in together] == ([4, 4] if keeps_turned("float32") else [])
        for x, array in zip(images, arrays, strict=True):
            alone = F.conv2d(F.conv2d(x, other, padding=1), w, padding=1).relu()
            np.testing.assert_array_equal(alone.numpy(), array)
        w.mul_(-1)


def test_parts_follow_from_sizes():
    w = normal(400, 400, seed=1)
    x = normal(3000, 400)
    torch.synchronize()
    counts = []
    for n in (10, 300, 3000):
        F.gelu(x[:n] @ w).tolist()
        counts.append(parts_of_last_step()[0])
    assert counts[0] == 1 < counts[1] <= counts[2] <= MOST_PARTS


@pytest.mark.parametrize("rows", [70, 128, 200, 512])
@pytest.mark.parametrize("columns", [112, 128, 256])
def test_two_threads_get_equal_shares_of_a_product(rows, columns):
    x, w = normal(rows, 900), normal(900, columns, seed=1)
    (x @ w).tolist()
    plan = max(last_plans()[-6:], key=lambda plan: len(plan.steps))
    (form,) = launcher.owner_of(plan.compiled.native_plan.frame).skeleton.forms.values()
    if form.how == "columns":  # which a processor's panels fill evenly
        assert columns % (form.parts * tile_columns("float32")) == 0
    else:
        assert form.how == "rows"  # panels of columns make unequal parts


def test_images_of_one_product_stay_together():
    x, w = normal(8, 64, 6, 6), normal(64, 64, 3, 3, seed=1)
    F.conv2d(x, w, padding=1).tolist()  # 36 positions each: four images fill three panels
    assert parts_of_last_step()[0] == 2


def test_sizes_that_are_cut_alike_share_a_skeleton(monkeypatch):
    """Argument blocks are laid out once for each way to cut the kernels; only numbers differ.

    Once both ways have come back, they are told apart natively.
    """
    asked = []
    find_form = cpu.Sized.find_form
    monkeypatch.setattr(
        cpu.Sized, "find_form", lambda *given: (asked.append(given), find_form(*given))
    )
    w = normal(400, 400, seed=1)
    x = normal(3000, 400)
    torch.synchronize()
    skeletons = []
    counts = []
    for n in (300, 10, 310, 12, 320, 11):
        y = F.gelu(x[:n] @ w)
        np.testing.assert_allclose(
            y.numpy(), F.gelu(torch.tensor(x.numpy()[:n]) @ w).numpy(), atol=1e-4
        )
        plan = max(last_plans()[-6:], key=lambda plan: len(plan.steps))
        skeletons.append(launcher.owner_of(plan.compiled.native_plan.frame).skeleton)
        counts.append(sum(given[0].plan is plan.compiled for given in asked))
    assert skeletons[0] is skeletons[2] is not skeletons[1] is skeletons[3]
    assert skeletons[4] is skeletons[2] and skeletons[5] is skeletons[3]
    assert counts[5] == counts[3]


def test_a_bound_plan_that_nobody_has_is_freed_at_once():
    w, x = normal(40, 40, seed=1), normal(30, 40)
    F.gelu(x @ w).tolist()
    plan = last_plans()[-1]
    frame, path = plan.compiled.native_plan.frame, plan.reference.path
    bound = cpu.BoundPlan(
        plan.compiled, list(path.types), list(path.args), frame.types, frame.sizes
    )
    gone = weakref.ref(bound)
    del bound
    assert gone() is None


def test_two_python_threads_compute_at_once():
    torch.set_num_threads(2)
    expected = [run(product), run(rows)]
    failures = []

    def work(program, results):
        with own_trie():
            for _ in range(5):
                for array, same in zip(run(program), results, strict=True):
                    if not np.array_equal(array, same):
                        failures.append(program.__name__)

    threads = [
        threading.Thread(target=work, args=given)
        for given in zip((product, rows), expected, strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_child_has_threads_of_its_own():
    torch.set_num_threads(2)
    expected = run(product)
    child = os.fork()
    if child == 0:
        same = all(map(np.array_equal, run(product), expected))
        os._exit(0 if same else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert all(map(np.array_equal, run(product), expected))


def test_number_of_threads():
    torch.set_num_threads(3)
    assert torch.get_num_threads() == 3
    assert default_threads({"OMP_NUM_THREADS": "5,2"}) == 5
    assert default_threads({}) == default_threads({"OMP_NUM_THREADS": "many"}) >= 1
