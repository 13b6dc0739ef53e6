"""Recurrent cells: a time step of a layer, as a step of the graph.

input: (N, I) or (I,)   hx: (N, H) or (H,)   w_ih: (G * H, I)   w_hh: (G * H, H), G gates
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from wend._engine.base.errors import ShapeError
from wend._engine.core.kinds import Size, Tensor
from wend._engine.core.primitive import Sample, composite, ops
from wend._engine.core.symbolic import hints
from wend._engine.ops.composites.products.product_nodes import linear_nodes
from wend._engine.ops.gradient_nodes import NodeBuilder, NodeOperand
from wend._engine.ops.numeric import FLOATING


def _check(op: str, x: Tensor, states: Sequence[Tensor], w_ih: Any, w_hh: Any, gates: int) -> None:
    if len(x.shape) not in (1, 2):
        raise ShapeError(f"{op}: expected input to be 1D or 2D, got {len(x.shape)}D instead")
    if len(w_ih.shape) != 2 or len(w_hh.shape) != 2:
        raise ShapeError(
            f"{op}: weights must be matrices, but have shapes {hints(w_ih.shape)} and "
            f"{hints(w_hh.shape)}"
        )
    if x.shape[-1] != w_ih.shape[1]:
        raise ShapeError(
            f"{op}: input has inconsistent input_size: got {x.shape[-1]} expected {w_ih.shape[1]}"
        )
    hidden = w_hh.shape[1]
    if w_hh.shape[0] != gates * hidden or w_ih.shape[0] != gates * hidden:
        raise ShapeError(
            f"{op}: weights must have {gates} * hidden_size rows, but have shapes "
            f"{hints(w_ih.shape)} and {hints(w_hh.shape)}"
        )
    for i, h in enumerate(states):
        if len(h.shape) != len(x.shape) or h.shape[-1] != hidden:
            raise ShapeError(
                f"{op}: hidden{i} has inconsistent hidden_size: got shape {hints(h.shape)}, "
                f"expected {len(x.shape)} dims, the last of size {hidden}"
            )
        if len(x.shape) == 2 and h.shape[0] != x.shape[0]:
            raise ShapeError(
                f"{op}: input batch size {x.shape[0]} doesn't match hidden{i} batch size "
                f"{h.shape[0]}"
            )


def _gates(y: Tensor, count: int, hidden: Size) -> list[Tensor]:
    """The last dim of y taken apart into `count` pieces of `hidden`."""
    dim = len(y.shape) - 1
    return [ops.slice(y, dim, k * hidden, (k + 1) * hidden, 1) for k in range(count)]


def _cell_samples(gates: int, states: int) -> Callable[..., Any]:
    def samples(rng: np.random.Generator) -> Iterator[Sample]:
        def cell(front: tuple[int, ...], bias: bool) -> Sample:
            h = [rng.normal(size=(*front, 2)) for _ in range(max(states, 1))]
            weights = [rng.normal(size=(gates * 2, n)) for n in (3, 2)]
            biases = [rng.normal(size=gates * 2) for _ in range(2 * bias)]
            return Sample(
                rng.normal(size=(*front, 3)), h if states > 1 else h[0], *weights, *biases
            )

        yield cell((4,), True)
        yield cell((4,), False)
        yield cell((1,), True)
        yield cell((0,), True)

    return samples


def _sum_nodes(
    n: NodeBuilder,
    x: NodeOperand,
    h: NodeOperand,
    w_ih: NodeOperand,
    w_hh: NodeOperand,
    b_ih: NodeOperand | None,
    b_hh: NodeOperand | None,
) -> object:
    return n.Add(linear_nodes(n, h, w_hh, b_hh), linear_nodes(n, x, w_ih, b_ih))


def _lstm_nodes(n: NodeBuilder, x: NodeOperand, hx: list[NodeOperand], *parameters: Any) -> object:
    i, f, g, o = _split_nodes(n, _sum_nodes(n, x, hx[0], *parameters), 4)
    memory = n.Add(n.Mul(n.Sigmoid(f), hx[1]), n.Mul(n.Sigmoid(i), n.Tanh(g)))
    return n.Mul(n.Sigmoid(o), n.Tanh(memory)), memory


def _gru_nodes(
    n: NodeBuilder,
    x: NodeOperand,
    h: NodeOperand,
    w_ih: NodeOperand,
    w_hh: NodeOperand,
    b_ih: NodeOperand | None,
    b_hh: NodeOperand | None,
) -> object:
    of_h = _split_nodes(n, linear_nodes(n, h, w_hh, b_hh), 3)
    of_x = _split_nodes(n, linear_nodes(n, x, w_ih, b_ih), 3)
    reset, update = (n.Sigmoid(n.Add(of_h[k], of_x[k])) for k in (0, 1))
    new = n.Tanh(n.Add(of_x[2], n.Mul(of_h[2], reset)))
    return n.Add(n.Mul(n.Sub(h, new), update), new)


def _split_nodes(n: NodeBuilder, gates: object, count: int) -> list[Any]:
    parts = n.UnsafeSplit(gates)
    return [None if parts is None else parts[k] for k in range(count)]


@composite(
    functions=("lstm_cell",),
    result=tuple,
    samples=_cell_samples(4, 2),
    supports=FLOATING,
    grad_nodes=_lstm_nodes,
)
def lstm_cell(
    input: Tensor,
    hx: Sequence[Tensor],
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> tuple[Tensor, ...]:
    """(h', c') of an LSTM: c' = f * c + i * g, h' = o * tanh(c'), hx = (h, c).

    i, f, o = sigmoid and g = tanh of x @ w_ih.T + b_ih + h @ w_hh.T + b_hh, in the order i f g o.
    Raises ShapeError for operands that do not fit. Hochreiter, Schmidhuber (1997).
    """
    if len(hx) != 2:
        raise ShapeError(f"lstm_cell: expects two hidden states, not {len(hx)}")
    h, c = hx
    _check("lstm_cell", input, (h, c), w_ih, w_hh, 4)
    gates = ops.add(ops.linear(input, w_ih, b_ih), ops.linear(h, w_hh, b_hh))
    i, f, g, o = _gates(gates, 4, w_hh.shape[1])
    c = ops.add(ops.mul(ops.sigmoid(f), c), ops.mul(ops.sigmoid(i), ops.tanh(g)))
    return ops.mul(ops.sigmoid(o), ops.tanh(c)), c


@composite(
    functions=("gru_cell",),
    samples=_cell_samples(3, 1),
    supports=FLOATING,
    grad_nodes=_gru_nodes,
)
def gru_cell(
    input: Tensor,
    hx: Tensor,
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> Tensor:
    """h' = (1 - z) * n + z * h of a GRU; n = tanh(x_n + r * h_n), r and z = sigmoid(x + h).

    x = input @ w_ih.T + b_ih and h = hx @ w_hh.T + b_hh, in the order r z n.
    Raises ShapeError for operands that do not fit. Cho et al. (2014).
    """
    _check("gru_cell", input, (hx,), w_ih, w_hh, 3)
    hidden = w_hh.shape[1]
    x_r, x_z, x_n = _gates(ops.linear(input, w_ih, b_ih), 3, hidden)
    h_r, h_z, h_n = _gates(ops.linear(hx, w_hh, b_hh), 3, hidden)
    r = ops.sigmoid(ops.add(x_r, h_r))
    z = ops.sigmoid(ops.add(x_z, h_z))
    n = ops.tanh(ops.add(x_n, ops.mul(r, h_n)))
    return ops.add(ops.mul(ops.sub(hx, n), z), n)


def _plain_cell(
    op: str, activation: Callable[..., Tensor], x: Tensor, h: Tensor, *parameters: Tensor | None
) -> Tensor:
    w_ih, w_hh, b_ih, b_hh = parameters
    _check(op, x, (h,), w_ih, w_hh, 1)
    return activation(ops.add(ops.linear(x, w_ih, b_ih), ops.linear(h, w_hh, b_hh)))


@composite(
    functions=("rnn_tanh_cell",),
    samples=_cell_samples(1, 1),
    supports=FLOATING,
    grad_nodes=lambda n, *params: n.Tanh(_sum_nodes(n, *params)),
)
def rnn_tanh_cell(
    input: Tensor,
    hx: Tensor,
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> Tensor:
    """h' = tanh(input @ w_ih.T + b_ih + hx @ w_hh.T + b_hh).

    Raises ShapeError for operands that do not fit. Elman (1990).
    """
    return _plain_cell("rnn_tanh_cell", ops.tanh, input, hx, w_ih, w_hh, b_ih, b_hh)


@composite(
    functions=("rnn_relu_cell",),
    samples=_cell_samples(1, 1),
    supports=FLOATING,
    grad_nodes=lambda n, *params: n.Relu(_sum_nodes(n, *params)),
)
def rnn_relu_cell(
    input: Tensor,
    hx: Tensor,
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> Tensor:
    """h' = relu(input @ w_ih.T + b_ih + hx @ w_hh.T + b_hh).

    Raises ShapeError for operands that do not fit.
    """
    return _plain_cell("rnn_relu_cell", ops.relu, input, hx, w_ih, w_hh, b_ih, b_hh)
