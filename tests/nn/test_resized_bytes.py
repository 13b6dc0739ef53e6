"""Images of bytes are resized as by PyTorch, bit by bit: in fixed point, dim after dim."""

import itertools

import numpy as np
import pytest

import wend as torch
from wend._engine.base import config

interpolate = torch.nn.functional.interpolate


def image(*size, seed=0):
    return np.random.default_rng(seed).integers(0, 256, size).astype(np.uint8)


HOW = [
    {"mode": mode, "align_corners": corners, "antialias": antialias}
    for mode, corners, antialias in itertools.product(
        ("bilinear", "bicubic"), (False, True), (False, True)
    )
    if not (corners and antialias)
]


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("how", HOW, ids=lambda how: "-".join(map(str, how.values())))
def test_bytes_are_those_of_pytorch(how, compiled):
    pytorch = pytest.importorskip("torch")
    for size, wanted in itertools.product(
        ((2, 3, 9, 7), (1, 5, 50, 31), (1, 1, 4, 4)), ((3, 3), (20, 40), (9, 7))
    ):
        x = image(*size)
        with config.override(compile=compiled, wait=compiled):
            got = interpolate(torch.tensor(x), wanted, **how).numpy()
        want = pytorch.nn.functional.interpolate(pytorch.tensor(x), wanted, **how).numpy()
        np.testing.assert_array_equal(got, want, f"{size} to {wanted}")


@pytest.mark.parametrize("factor", [1.7, 0.6, 2, (0.5, 1.3)])
def test_bytes_by_a_factor_are_those_of_pytorch(factor):
    pytorch = pytest.importorskip("torch")
    x = image(2, 3, 17, 23)
    got = interpolate(torch.tensor(x), scale_factor=factor, mode="bilinear").numpy()
    want = pytorch.nn.functional.interpolate(
        pytorch.tensor(x), scale_factor=factor, mode="bilinear"
    )
    np.testing.assert_array_equal(got, want.numpy())


def test_bytes_lie_beside_the_floats():
    x = image(1, 3, 8, 8)
    for how in HOW:
        got = interpolate(torch.tensor(x), (5, 11), **how)
        assert got.dtype is torch.uint8
        if how["mode"] == "bicubic":  # may pass 255 between the dims, where bytes are cut off
            continue
        floats = interpolate(torch.tensor(x).double(), (5, 11), **how)
        assert (got.double() - floats).abs().max().item() < 2, how


def test_halves_are_rounded_upwards():
    x = torch.tensor([[[[0, 1, 4]]]], dtype=torch.uint8)
    got = interpolate(x, (1, 5), mode="bilinear", align_corners=True)
    assert got.tolist() == [[[[0, 1, 1, 3, 4]]]]
