"""Names and edges of nodes: each line of `node_names.txt` is an expression and its graph.

A graph reads `Mul(Exp(A), -)`: a MulBackward0 whose first edge goes to an ExpBackward0 of a leaf
(A: AccumulateGrad), the second nowhere.  `Sum1` is a SumBackward1; `Split(A):2` is result 2.
"""

import re
import warnings
from pathlib import Path

import numpy as np
import pytest
from agreement import torch

import wend

LINES = (Path(__file__).parent / "node_names.txt").read_text().splitlines()
ROWS = [tuple(line.split("  ->  ")) for line in LINES if line]


# fmt: off
#: Leaves that require grad.
SHAPES = {
    "x": (2, 3), "y": (2, 3), "w": (3, 2), "v": (3,), "s": (), "b": (2, 3, 4), "bb": (2, 4, 5),
    "v4": (3,), "b4": (5, 2, 4, 6), "M4": (3, 4), "b3": (3, 3, 3), "im": (2, 3, 8, 8),
    "M8": (8, 8), "M2": (2, 2), "k2": (3, 3, 3, 3), "k1": (2, 3, 2), "kt2": (3, 2, 2, 2),
    "kt1": (3, 2, 2), "th": (2, 2, 3), "k3": (3, 2, 2, 2, 2), "g": (2, 4, 4, 2), "u": (2, 3),
    "M": (3, 3), "lp": (4, 1, 3),
}
# fmt: on
#: Leaves that do not, and which of the others they are like.
CONSTANT = {"n": "x", "un": "u", "n0": "s", "Mn": "M", "vn": "v", "v4n": "v4", "imn": "im"}


class Names(dict):
    """The names that expressions use; tensors are made when they are asked for."""

    def __init__(self, lib):
        self.lib = lib
        rows = np.array([[0, 1], [1, 0]])
        signs = np.array([[1, -1, 1], [1, 1, -1]], np.float32)
        super().__init__(
            L=lib,
            F=lib.nn.functional,
            setit=lambda z, key, value: z.__setitem__(key, value),
            idx=lib.tensor(rows),
            t=lib.tensor([0, 2]),
            t2=lib.zeros(2, 8, 8, dtype=lib.int64),
            sgn=lib.tensor(signs),
        )
        for name in (*SHAPES, *CONSTANT):
            self[name] = self.tensor(name)

    def tensor(self, name):
        alike = CONSTANT.get(name, name)
        shape = SHAPES[alike]
        low, high = (0.1, 0.9) if alike == "u" else (0.5, 2.5)
        data = np.random.default_rng(len(name)).uniform(low, high, size=shape)
        if alike == "M":
            data = data @ data.T + 3 * np.eye(3)
        t = self.lib.tensor(data.astype(np.float32))
        return t if name in CONSTANT else t.requires_grad_()


def shown(node):
    """A node and what is below it, in the notation of the table."""
    if node is None:
        return "-"
    name = type(node).__name__
    if name == "AccumulateGrad":
        return "A"
    assert node.name() in (name, f"torch::autograd::{name}")
    short = re.fullmatch(r"(.*)Backward(\d)", name)
    if short:
        name = short[1] + short[2].replace("0", "")
    below = [shown(n) + (f":{k}" if k else "") for n, k in node.next_functions]
    return f"{name}({', '.join(below)})"


def graph(expression, lib, read=False):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        y = eval(expression, Names(lib))
    if read:
        lib.synchronize()
    return shown(y.grad_fn) + (f":{y.output_nr}" if y.output_nr else "")


@pytest.mark.parametrize(("expression", "expected"), ROWS, ids=[row[0] for row in ROWS])
def test_graph(expression, expected):
    assert graph(expression, wend) == expected
    assert graph(expression, wend, read=True) == expected


@pytest.mark.skipif(torch is None, reason="compares with PyTorch")
@pytest.mark.parametrize(("expression", "expected"), ROWS, ids=[row[0] for row in ROWS])
def test_table_is_what_pytorch_makes(expression, expected):
    assert graph(expression, torch) == expected
