"""Recurrent networks: layers of cells over whole sequences."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, overload

from wend._engine.base.devices import DeviceLike
from wend._engine.base.dtypes import DType
from wend._engine.base.errors import ArgumentError, ArgumentTypeError, ShapeError, ValueRefused
from wend._frontend.toolkit import Tensor, empty, full_beside, ops
from wend.nn import init
from wend.nn._base.packed import PackedSequence
from wend.nn._base.recurrence import State, layers
from wend.nn.modules.module import Module
from wend.nn.parameter import Parameter, fresh_parameter

__all__ = ["GRU", "LSTM", "RNN", "GRUCell", "LSTMCell", "RNNBase", "RNNCell", "RNNCellBase"]

_gru_cell = ops.gru_cell
_lstm_cell: Any = ops.lstm_cell
_rnn_relu_cell = ops.rnn_relu_cell
_rnn_tanh_cell = ops.rnn_tanh_cell
_RANKS = (1, 2)  # of a cell's arguments: looked at when the op has refused them
_GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}


class RNNCellBase(Module):
    """Weights of a cell with `num_chunks` gates; U(-b, b), b = 1 / √hidden_size."""

    bias_ih: Tensor | None
    bias_hh: Tensor | None

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool,
        num_chunks: int,
        device: DeviceLike = None,
        dtype: DType | None = None,
    ) -> None:
        factory: dict[str, Any] = {"device": device, "dtype": dtype}
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        rows = num_chunks * hidden_size
        self.weight_ih: Parameter = fresh_parameter(empty((rows, input_size), **factory))
        self.weight_hh: Parameter = fresh_parameter(empty((rows, hidden_size), **factory))
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
        """Raises ValueError for ranks beside 1 and 2."""
        name = type(self).__name__
        if input.dim() not in _RANKS:
            raise ArgumentError(
                f"{name}: Expected input to be 1D or 2D, got {input.dim()}D instead"
            )
        if hidden.dim() not in _RANKS:
            raise ArgumentError(
                f"{name}: Expected hidden to be 1D or 2D, got {hidden.dim()}D instead"
            )

    def _zeros(self, input: Tensor) -> Tensor:
        """The state before the first step: (N, hidden) or (hidden,)."""
        rows = [*input.shape]
        rows[-1:] = (self.hidden_size,)  # of no dims, too: the op refuses these
        return full_beside(input, tuple(rows), 0.0)


class RNNCell(RNNCellBase):
    """h' = tanh(W_ih x + b_ih + W_hh h + b_hh), or relu instead of tanh.

    x: (N, input_size) or (input_size,)   h: (N, hidden_size) or (hidden_size,)
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: DeviceLike = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        if hx is None:
            hx = self._zeros(input)
        if self.nonlinearity not in ("tanh", "relu"):
            raise ValueRefused(f"Unknown nonlinearity: {self.nonlinearity}")
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
        device: DeviceLike = None,
        dtype: DType | None = None,
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
        device: DeviceLike = None,
        dtype: DType | None = None,
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


class RNNBase(Module):
    """Layers of a kind of cell, in one direction or both.

    input: (T, N, input_size), or (N, T, input_size) with batch_first, or (T, input_size), or a
    PackedSequence. Weights are U(-b, b), b = 1 / √hidden_size.
    """

    #: By name, tensors that a program has assigned to `_flat_weights`: used in place of parameters.
    _given_weights: dict[str, Any] | None = None

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: DeviceLike = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        if mode not in _GATES:
            raise ArgumentError("Unrecognized RNN mode: " + mode)
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout: float = float(dropout)
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        self._check_settings(dropout)
        self._all_weights: list[list[str]] = []
        for layer in range(num_layers):
            for direction in range(2 if bidirectional else 1):
                self._make_weights(layer, direction, {"device": device, "dtype": dtype})
        self.reset_parameters()

    def _check_settings(self, dropout: Any) -> None:
        if isinstance(dropout, bool) or not 0 <= dropout <= 1:
            raise ArgumentError(
                "dropout should be a number in range [0, 1] representing the probability of an "
                "element being zeroed"
            )
        if dropout > 0 and self.num_layers == 1:
            warnings.warn(
                "dropout option adds dropout after all but last recurrent layer, so non-zero "
                f"dropout expects num_layers greater than 1, but got dropout={dropout} and "
                f"num_layers={self.num_layers}",
                stacklevel=4,
            )
        if not isinstance(self.hidden_size, int):
            raise ArgumentTypeError(
                f"hidden_size should be of type int, got: {type(self.hidden_size).__name__}"
            )
        if self.hidden_size <= 0:
            raise ArgumentError("hidden_size must be greater than zero")
        if self.num_layers <= 0:
            raise ArgumentError("num_layers must be greater than zero")
        if self.proj_size < 0:
            raise ArgumentError(
                "proj_size should be a positive integer or zero to disable projections"
            )
        if self.proj_size >= self.hidden_size:
            raise ArgumentError("proj_size has to be smaller than hidden_size")

    def _make_weights(self, layer: int, direction: int, factory: dict[str, Any]) -> None:
        rows = _GATES[self.mode] * self.hidden_size
        width = self.proj_size if self.proj_size > 0 else self.hidden_size
        directions = 2 if self.bidirectional else 1
        columns = self.input_size if layer == 0 else width * directions
        suffix = f"_l{layer}" + ("_reverse" if direction else "")
        shapes: list[tuple[str, tuple[int, ...]]] = [
            ("weight_ih", (rows, columns)),
            ("weight_hh", (rows, width)),
        ]
        if self.bias:
            shapes += [("bias_ih", (rows,)), ("bias_hh", (rows,))]
        if self.proj_size > 0:
            shapes.append(("weight_hr", (self.proj_size, self.hidden_size)))
        for name, shape in shapes:
            setattr(self, name + suffix, fresh_parameter(empty(shape, **factory)))
        self._all_weights.append([name + suffix for name, _ in shapes])

    def reset_parameters(self) -> None:
        """Fill all weights from U(-b, b), b = 1 / √hidden_size."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def flatten_parameters(self) -> None:
        """Accepted for compatibility: weights need no common memory."""

    @property
    def all_weights(self) -> list[list[Parameter]]:
        """The weights, a list per layer and direction."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    @property
    def _flat_weights_names(self) -> list[str]:
        return [name for names in self._all_weights for name in names]

    @property
    def _flat_weights(self) -> list[Any]:
        replacements = self._given_weights or {}
        return [replacements.get(n, getattr(self, n, None)) for n in self._flat_weights_names]

    @_flat_weights.setter
    def _flat_weights(self, weights: Sequence[Any]) -> None:
        # Programs that compute weights (of a meta-learner, with dropout, ...) assign these. The
        # layer computes with them then, and its parameters stay as they are.
        names = self._flat_weights_names
        if len(weights) != len(names):
            raise ArgumentError(
                f"{self._name}: _flat_weights needs {len(names)} tensors ({', '.join(names)}), "
                f"got {len(weights)}"
            )
        self._given_weights = {
            name: weight
            for name, weight in zip(names, weights, strict=True)
            if weight is not None and weight is not getattr(self, name, None)
        }

    def __setattr__(self, name: str, value: Any) -> None:
        if self._given_weights and name in self._flat_weights_names:
            self._given_weights = None  # all weights are the layer's own again, as in PyTorch
        super().__setattr__(name, value)

    def __getstate__(self) -> dict[str, Any]:
        # PyTorch's layers, which may read this, keep these as attributes.
        derived = {
            "_flat_weights": self._flat_weights,
            "_flat_weights_names": self._flat_weights_names,
        }
        return {**super().__getstate__(), **derived}

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = {"proj_size": 0, **state}
        for derived in ("_flat_weights", "_flat_weights_names", "_flat_weight_refs"):
            state.pop(derived, None)
        super().__setstate__(state)

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        if self.proj_size != 0:
            text += f", proj_size={self.proj_size}"
        for name, default in (
            ("num_layers", 1),
            ("bias", True),
            ("batch_first", False),
            ("dropout", 0),
            ("bidirectional", False),
        ):
            value = getattr(self, name)
            if value != default:
                text += f", {name}={value}"
        return text

    # -- checks ----------------------------------------------------------------------------

    @property
    def _name(self) -> str:
        return "RNN" if self.mode.startswith("RNN") else self.mode

    def _widths(self) -> list[int]:
        """Sizes of the last dim of the parts of a state."""
        first = self.proj_size if self.proj_size > 0 else self.hidden_size
        return [first, self.hidden_size] if self.mode == "LSTM" else [first]

    def _check_input(self, input: Tensor, rank: int | tuple[int, int]) -> None:
        if isinstance(rank, tuple):
            if input.dim() not in rank:
                raise ArgumentError(
                    f"{self._name}: Expected input to be 2D or 3D, got {input.dim()}D instead"
                )
        elif input.dim() != rank:
            raise ShapeError(f"input must have {rank} dimensions, got {input.dim()}")
        if input.size(-1) != self.input_size:
            raise ShapeError(
                "input.size(-1) must be equal to input_size. "
                f"Expected {self.input_size}, got {input.size(-1)}"
            )

    def _check_state(self, state: State, batch: int) -> None:
        count = self.num_layers * (2 if self.bidirectional else 1)
        for i, (part, width) in enumerate(zip(state, self._widths(), strict=True)):
            expected = (count, batch, width)
            if tuple(part.shape) != expected:
                which = f"hidden[{i}]" if self.mode == "LSTM" else "hidden"
                raise ShapeError(f"Expected {which} size {expected}, got {list(part.shape)}")

    def _given_state(self, hx: Any, batched: bool) -> State:
        """The state given by the user as (layers, N, width) each."""
        state = tuple(hx) if self.mode == "LSTM" else (hx,)
        if batched:
            if any(part.dim() != 3 for part in state):
                dims = ", ".join(f"{part.dim()}-D" for part in state)
                raise ShapeError(
                    f"For batched 3-D input, hx and cx should also be 3-D but got ({dims}) tensors"
                    if self.mode == "LSTM"
                    else f"For batched 3-D input, hx should also be 3-D but got {dims} tensor"
                )
            return state
        if any(part.dim() != 2 for part in state):
            dims = ", ".join(f"{part.dim()}-D" for part in state)
            raise ShapeError(
                f"For unbatched 2-D input, hx and cx should also be 2-D but got ({dims}) tensors"
                if self.mode == "LSTM"
                else f"For unbatched 2-D input, hx should also be 2-D but got {dims} tensor"
            )
        return tuple(part.unsqueeze(1) for part in state)

    # PyTorch's names of the checks, which subclasses with a `forward` of their own call.

    def check_input(self, input: Tensor, batch_sizes: Tensor | None) -> None:
        """Raise RuntimeError for an input of another rank or width."""
        self._check_input(input, 3 if batch_sizes is None else 2)

    def get_expected_hidden_size(
        self, input: Tensor, batch_sizes: Tensor | None
    ) -> tuple[int, int, int]:
        """The shape of h for an input: (layers times directions, N, width)."""
        return self._state_size(input, batch_sizes, self._widths()[0])

    def _state_size(
        self, input: Tensor, batch_sizes: Tensor | None, width: int
    ) -> tuple[int, int, int]:
        batch = input.size(0 if self.batch_first else 1)
        batch = batch if batch_sizes is None else int(batch_sizes[0])
        return self.num_layers * (2 if self.bidirectional else 1), batch, width

    def check_hidden_size(
        self,
        hx: Tensor,
        expected_hidden_size: tuple[int, int, int],
        msg: str = "Expected hidden size {}, got {}",
    ) -> None:
        """Raise RuntimeError for a state of another shape."""
        if tuple(hx.shape) != tuple(expected_hidden_size):
            raise ShapeError(msg.format(expected_hidden_size, list(hx.shape)))

    def check_forward_args(self, input: Tensor, hidden: Any, batch_sizes: Tensor | None) -> None:
        """Raise RuntimeError for an input, or a state, of another shape."""
        self.check_input(input, batch_sizes)
        self.check_hidden_size(hidden, self.get_expected_hidden_size(input, batch_sizes))

    def permute_hidden(
        self, hx: Tensor | tuple[Tensor, ...], permutation: Tensor | None
    ) -> Tensor | tuple[Tensor, ...]:
        """A state with sequences in a new order."""
        if permutation is None:
            return hx
        if isinstance(hx, tuple):
            return tuple(part.index_select(1, permutation) for part in hx)
        return hx.index_select(1, permutation)

    # -- the layers ------------------------------------------------------------------------

    def forward(self, input: Any, hx: Any = None) -> Any:
        """(outputs, last state); the state is (h, c) for an LSTM.

        hx: the state before the first step, zeros if None
        """
        if isinstance(input, PackedSequence):
            return self._forward_packed(input, hx)
        self._check_input(input, (2, 3))
        batched = input.dim() == 3
        batch_dim = 0 if self.batch_first else 1
        if not batched:
            input = input.unsqueeze(batch_dim)
        sequence = input.transpose(0, 1) if self.batch_first else input
        if sequence.shape[0] == 0:
            raise ShapeError("Expected sequence length to be larger than 0 in RNN")
        batch = sequence.shape[1]
        start = self._zeros(sequence, batch) if hx is None else self._given_state(hx, batched)
        self._check_state(start, batch)
        output, last = self._layers(sequence, start, None)
        if self.batch_first:
            output = output.transpose(0, 1)
        if not batched:
            output = output.squeeze(batch_dim)
            last = tuple(part.squeeze(1) for part in last)
        return output, last if self.mode == "LSTM" else last[0]

    def _forward_packed(self, packed: PackedSequence, hx: Any) -> Any:
        data, batch_sizes, sorted_indices, unsorted_indices = packed
        sizes = batch_sizes.tolist()
        self._check_input(data, 2)
        if hx is None:
            start = self._zeros(data, sizes[0])
        else:
            hx = self.permute_hidden(hx, sorted_indices)
            start = tuple(hx) if self.mode == "LSTM" else (hx,)
        self._check_state(start, sizes[0])
        output, last = self._layers(data, start, sizes)
        result = PackedSequence(output, batch_sizes, sorted_indices, unsorted_indices)
        final = last if self.mode == "LSTM" else last[0]
        return result, self.permute_hidden(final, unsorted_indices)

    def _zeros(self, like: Tensor, batch: int) -> State:
        count = self.num_layers * (2 if self.bidirectional else 1)
        return tuple(full_beside(like, (count, batch, width), 0.0) for width in self._widths())

    def _weights(self, index: int) -> list[Any]:
        """Weights of a layer and direction, None for weights that the layer lacks."""
        names, replacements = self._all_weights[index], self._given_weights
        weights: list[Any] = [getattr(self, name) for name in names]
        if replacements:
            weights = [replacements.get(name, w) for name, w in zip(names, weights, strict=True)]
        if not self.bias:
            weights[2:2] = [None, None]
        return weights if self.proj_size > 0 else [*weights, None]

    def _layers(self, data: Tensor, start: State, sizes: list[int] | None) -> tuple[Tensor, State]:
        """All layers over a sequence; see `recurrence.layers`."""
        directions = 2 if self.bidirectional else 1
        weights = [
            [self._weights(layer * directions + direction) for direction in range(directions)]
            for layer in range(self.num_layers)
        ]
        return layers(
            self.mode, data, start, sizes, weights, self.dropout if self.training else 0.0
        )


class RNN(RNNBase):
    """h[t] = tanh (or relu) of W_ih x[t] + b_ih + W_hh h[t - 1] + b_hh (Elman, 1990)."""

    if TYPE_CHECKING:

        def __init__(
            self,
            input_size: int,
            hidden_size: int,
            num_layers: int = 1,
            nonlinearity: str = "tanh",
            bias: bool = True,
            batch_first: bool = False,
            dropout: float = 0.0,
            bidirectional: bool = False,
            device: DeviceLike = None,
            dtype: DType | None = None,
        ) -> None: ...
        @overload
        def __call__(self, input: Tensor, hx: Tensor | None = None) -> tuple[Tensor, Tensor]: ...
        @overload
        def __call__(
            self, input: PackedSequence, hx: Tensor | None = None
        ) -> tuple[PackedSequence, Tensor]: ...
        def __call__(self, input: Any, hx: Any = None) -> Any: ...

    else:

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            if "proj_size" in kwargs:
                raise ArgumentError("proj_size argument is only supported for LSTM, not RNN or GRU")
            if len(args) > 3:
                nonlinearity, args = args[3], args[:3] + args[4:]
                if "nonlinearity" in kwargs:
                    raise ArgumentTypeError("RNN() got multiple values for argument 'nonlinearity'")
            else:
                nonlinearity = kwargs.pop("nonlinearity", "tanh")
            if nonlinearity not in ("tanh", "relu"):
                raise ArgumentError(
                    f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'."
                )
            super().__init__("RNN_TANH" if nonlinearity == "tanh" else "RNN_RELU", *args, **kwargs)
            self.nonlinearity = nonlinearity


class LSTM(RNNBase):
    """Long short-term memory (Hochreiter and Schmidhuber, 1997); see `LSTMCell`.

    proj_size: h is projected to this width (Sak et al., 2014)
    """

    if TYPE_CHECKING:

        def __init__(
            self,
            input_size: int,
            hidden_size: int,
            num_layers: int = 1,
            bias: bool = True,
            batch_first: bool = False,
            dropout: float = 0.0,
            bidirectional: bool = False,
            proj_size: int = 0,
            device: DeviceLike = None,
            dtype: DType | None = None,
        ) -> None: ...
        @overload
        def __call__(
            self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None
        ) -> tuple[Tensor, tuple[Tensor, Tensor]]: ...
        @overload
        def __call__(
            self, input: PackedSequence, hx: tuple[Tensor, Tensor] | None = None
        ) -> tuple[PackedSequence, tuple[Tensor, Tensor]]: ...
        def __call__(self, input: Any, hx: Any = None) -> Any: ...

    else:

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__("LSTM", *args, **kwargs)

    def get_expected_cell_size(
        self, input: Tensor, batch_sizes: Tensor | None
    ) -> tuple[int, int, int]:
        """The shape of c for an input: (layers times directions, N, hidden_size)."""
        return self._state_size(input, batch_sizes, self.hidden_size)

    def check_forward_args(
        self, input: Tensor, hidden: Tensor | tuple[Tensor, ...], batch_sizes: Tensor | None
    ) -> None:
        self.check_input(input, batch_sizes)
        sizes = (
            self.get_expected_hidden_size(input, batch_sizes),
            self.get_expected_cell_size(input, batch_sizes),
        )
        for i, (part, size) in enumerate(zip(hidden, sizes, strict=True)):
            self.check_hidden_size(part, size, f"Expected hidden[{i}] size {{}}, got {{}}")


class GRU(RNNBase):
    """Gated recurrent units (Cho et al., 2014); see `GRUCell`."""

    if TYPE_CHECKING:

        def __init__(
            self,
            input_size: int,
            hidden_size: int,
            num_layers: int = 1,
            bias: bool = True,
            batch_first: bool = False,
            dropout: float = 0.0,
            bidirectional: bool = False,
            device: DeviceLike = None,
            dtype: DType | None = None,
        ) -> None: ...
        @overload
        def __call__(self, input: Tensor, hx: Tensor | None = None) -> tuple[Tensor, Tensor]: ...
        @overload
        def __call__(
            self, input: PackedSequence, hx: Tensor | None = None
        ) -> tuple[PackedSequence, Tensor]: ...
        def __call__(self, input: Any, hx: Any = None) -> Any: ...

    else:

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            if "proj_size" in kwargs:
                raise ArgumentError("proj_size argument is only supported for LSTM, not RNN or GRU")
            super().__init__("GRU", *args, **kwargs)
