"""Cells of recurrent networks: one step at a time."""

from __future__ import annotations

import math
from typing import Any

from wend.base.errors import ShapeError
from wend.frontend.nn import init
from wend.frontend.nn._core import Tensor, empty, ops
from wend.frontend.nn.module import Module
from wend.frontend.nn.parameter import fresh_parameter

__all__ = ["GRUCell", "LSTMCell", "RNNCell", "RNNCellBase"]

_gru_cell = ops.gru_cell
_lstm_cell = ops.lstm_cell
_rnn_relu_cell = ops.rnn_relu_cell
_rnn_tanh_cell = ops.rnn_tanh_cell
_RANKS = (1, 2)  # of what a cell is given: asked after when its op has refused it


class RNNCellBase(Module):
    """Weights of a cell with `num_chunks` gates; U(-b, b), b = 1 / √hidden_size."""

    __module__ = "wend.nn.modules.rnn"
    bias_ih: Tensor | None
    bias_hh: Tensor | None

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool,
        num_chunks: int,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        factory: dict[str, Any] = {"device": device, "dtype": dtype}
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        rows = num_chunks * hidden_size
        self.weight_ih = fresh_parameter(empty((rows, input_size), **factory))
        self.weight_hh = fresh_parameter(empty((rows, hidden_size), **factory))
        if bias:
            self.bias_ih = fresh_parameter(empty(rows, **factory))
            self.bias_hh = fresh_parameter(empty(rows, **factory))
        else:
            self.register_parameter("bias_ih", None)
            self.register_parameter("bias_hh", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Fill all weights from U(-b, b), b = 1 / √hidden_size."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        if self.bias is not True:
            text += f", bias={self.bias}"
        nonlinearity = self.__dict__.get("nonlinearity", "tanh")
        return text if nonlinearity == "tanh" else f"{text}, nonlinearity={nonlinearity}"

    def _check(self, input: Tensor, hidden: Tensor) -> None:
        """Raises ValueError for other ranks than 1 and 2."""
        name = type(self).__name__
        if input.dim() not in _RANKS:
            raise ValueError(f"{name}: Expected input to be 1D or 2D, got {input.dim()}D instead")
        if hidden.dim() not in _RANKS:
            raise ValueError(f"{name}: Expected hidden to be 1D or 2D, got {hidden.dim()}D instead")

    def _zeros(self, input: Tensor) -> Tensor:
        """The state before the first step: (N, hidden) or (hidden,)."""
        rows = [*input.shape]
        rows[-1:] = (self.hidden_size,)  # of no dims, too: the op refuses these
        return ops.full(tuple(rows), 0.0, dtype=input.dtype)


class RNNCell(RNNCellBase):
    """h' = tanh(W_ih x + b_ih + W_hh h + b_hh), or relu of it.

    x: (N, input_size) or (input_size,)   h: (N, hidden_size) or (hidden_size,)
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        if hx is None:
            hx = self._zeros(input)
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        cell = _rnn_tanh_cell if self.nonlinearity == "tanh" else _rnn_relu_cell
        try:
            return cell(input, hx, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        except ShapeError:
            self._check(input, hx)
            raise


class LSTMCell(RNNCellBase):
    """Long short-term memory (Hochreiter and Schmidhuber, 1997): (h', c').

    i, f, g, o = chunks of W_ih x + b_ih + W_hh h + b_hh
    c' = sigmoid(f) c + sigmoid(i) tanh(g)   h' = sigmoid(o) tanh(c')
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(
        self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, Tensor]:
        if hx is None:
            hidden = state = self._zeros(input)
        else:
            hidden, state = hx
        try:
            return _lstm_cell(
                input,
                (hidden, state),
                self.weight_ih,
                self.weight_hh,
                self.bias_ih,
                self.bias_hh,
            )
        except ShapeError:
            self._check(input, hidden)
            raise


class GRUCell(RNNCellBase):
    """Gated recurrent unit (Cho et al., 2014).

    r, z = sigmoid of the first chunks   n = tanh(W_in x + b_in + r (W_hn h + b_hn))
    h' = (1 - z) n + z h
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        if hx is None:
            hx = self._zeros(input)
        try:
            return _gru_cell(input, hx, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        except ShapeError:
            self._check(input, hx)
            raise
