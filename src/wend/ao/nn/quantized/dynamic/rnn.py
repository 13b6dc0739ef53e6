"""Dynamically quantised recurrent layers and cells."""

from __future__ import annotations

from typing import Any, ClassVar

from wend._engine.base.dtypes import float32, int64
from wend._engine.base.errors import NotImplementedInWend
from wend._engine.core.primitive import ops
from wend._frontend.toolkit import Tensor, full_beside, no_grad, tensor
from wend.ao.nn.quantized._packing import PackedWeight
from wend.ao.nn.quantized.dynamic.modules import dynamic_weight
from wend.nn._base.recurrence import EVERY, State
from wend.nn.modules import rnn
from wend.nn.modules.module import Module

__all__ = ["GRU", "LSTM", "GRUCell", "LSTMCell", "RNNCell"]

_GATES = {"LSTM": 4, "GRU": 3}
_linear = ops.linear_int8_dynamic


class DirectionWeights:
    """The weights of a layer in a direction: of the input and of the state, packed.

    panels, totals: those of the state's weight, for the kernels of all steps
    """

    def __init__(self, of_input: PackedWeight, of_state: PackedWeight, gates: int) -> None:
        self.of_input, self.of_state, self.gates = of_input, of_state, gates
        with no_grad():
            self.panels = ops.pack_int8_gates(of_state.weight._whole, gates)
            self.totals = ops.cast(of_state.totals, float32)

    def input_part(self, x: Tensor) -> Tensor:
        """The input's part of all gates, with the bias."""
        w = self.of_input
        x = x.detach() if x.requires_grad else x
        return _linear(x, w.panels, w.totals, w.scales, w.shift)

    def __reduce__(self) -> Any:
        return DirectionWeights, (self.of_input, self.of_state, self.gates)


class _RNNBase(rnn.RNNBase):
    """Base: layers whose products are of bytes. Shapes and states are those of the float layer."""

    mode_name: ClassVar[str]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.pop("dtype", None)
        super().__init__(self.mode_name, *args, **kwargs)
        self._take(self)

    def _take(self, mod: Any) -> None:
        """Quantise the weights of a layer. Raises NotImplementedInWend for projections."""
        if self.proj_size:
            raise NotImplementedInWend(f"{self._get_name()}: proj_size; keep the layer of floats")
        gates, packed = _GATES[self.mode], []
        for weights in mod.all_weights:
            w_ih, w_hh, b_ih, b_hh = (*weights, None, None)[:4]
            pair = [
                PackedWeight(dynamic_weight(mod, w), None if b is None else b.detach())
                for w, b in ((w_ih, b_ih), (w_hh, b_hh))
            ]
            packed.append(DirectionWeights(pair[0], pair[1], gates))
        self.directions_weights = packed
        for names in self._all_weights:
            for name in names:
                self._parameters.pop(name, None)

    def _layers(self, data: Tensor, start: State, sizes: list[int] | None) -> tuple[Tensor, State]:
        count = 2 if self.bidirectional else 1
        lasts: list[State] = []
        for layer in range(self.num_layers):
            outputs = []
            for direction in range(count):
                weights = self.directions_weights[layer * count + direction]
                state = tuple([part[len(lasts)] for part in start])
                output, last = self._walk(data, sizes, state, weights, direction == 1)
                outputs.append(output)
                lasts.append(last)
            data = outputs[0] if count == 1 else ops.cat(outputs, -1)
            if self.dropout > 0 and self.training and layer < self.num_layers - 1:
                data = ops.dropout(data, self.dropout, True)
        return data, tuple([ops.stack([last[i] for last in lasts], 0) for i in range(len(start))])

    def _walk(
        self, data: Tensor, sizes: Any, state: State, weights: DirectionWeights, back: bool
    ) -> tuple[Tensor, State]:
        """A layer in a single direction. sizes: None for data of (steps, batch, features)"""
        gates = weights.input_part(data)
        if sizes is not None:
            return self._scan(gates, weights, state, tensor(sizes), back)
        steps, batch, _ = gates.shape
        every = full_beside(gates, (steps,), EVERY, int64)
        output, last = self._scan(ops.flatten(gates, 0, 1), weights, state, every, back)
        return ops.reshape(output, (steps, batch, output.shape[1])), last

    def _scan(
        self, gates: Tensor, w: DirectionWeights, state: State, sizes: Tensor, back: bool
    ) -> tuple[Tensor, State]:
        scan: Any = ops.lstm_scan_int8 if self.mode == "LSTM" else ops.gru_scan_int8
        of = w.of_state
        output, *last = scan(gates, w.panels, w.totals, of.scales, of.shift, *state, sizes, back)
        return output, tuple(last)

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """The quantised layer of a float layer."""
        layer = cls(
            mod.input_size, mod.hidden_size, mod.num_layers, mod.bias, mod.batch_first,
            mod.dropout, mod.bidirectional, proj_size=mod.proj_size,
        )  # fmt: skip
        layer._take(mod)
        layer.train(mod.training)
        return layer

    def get_weight(self) -> dict[str, Any]:
        """The quantised weights by name."""
        return {f"{n}": w for n, w, _ in self._named()}

    def get_bias(self) -> dict[str, Any]:
        """The biases by name."""
        return {n.replace("weight", "bias"): b for n, _, b in self._named()}

    def _named(self) -> Any:
        for names, w in zip(self._all_weights, self.directions_weights, strict=True):
            yield names[0], w.of_input.weight, w.of_input.bias
            yield names[1], w.of_state.weight, w.of_state.bias

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        for k, w in enumerate(self.directions_weights):
            pair = [(p.weight, p.bias) for p in (w.of_input, w.of_state)]
            destination[f"{prefix}_all_weight_values.{k}.param"] = tuple(pair)

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, strict: bool, missing_keys: Any,
        *rest: Any,
    ) -> None:  # fmt: skip
        for k in range(len(self.directions_weights)):
            key = f"{prefix}_all_weight_values.{k}.param"
            if key not in state_dict:
                missing_keys.append(key)
                continue
            pair = [PackedWeight(*entry) for entry in state_dict[key]]
            self.directions_weights[k] = DirectionWeights(pair[0], pair[1], _GATES[self.mode])

    def __getstate__(self) -> dict[str, Any]:
        return Module.__getstate__(self)

    def _get_name(self) -> str:
        return f"DynamicQuantized{self.mode}"


class LSTM(_RNNBase):
    """A long short-term memory whose weights are int8, and whose states are floats."""

    mode_name = "LSTM"


class GRU(_RNNBase):
    """Gated recurrent units whose weights are int8, and whose states are floats."""

    mode_name = "GRU"


class _CellBase(Module):
    """Base of cells: a step of a layer."""

    chunks: ClassVar[int]

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, **more: Any) -> None:
        super().__init__()
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        self.nonlinearity = more.get("nonlinearity", "tanh")
        floats = rnn.RNNCellBase(input_size, hidden_size, bias, self.chunks)
        self._take(floats)

    def _take(self, mod: Any) -> None:
        self.of_input, self.of_state = (
            PackedWeight(dynamic_weight(mod, w), None if b is None else b.detach())
            for w, b in ((mod.weight_ih, mod.bias_ih), (mod.weight_hh, mod.bias_hh))
        )

    def _parts(self, input: Tensor, hidden: Tensor) -> list[Tensor]:
        """The input's and the state's part of all gates."""
        return [
            _linear(x, w.panels, w.totals, w.scales, w.shift)
            for x, w in ((input, self.of_input), (hidden, self.of_state))
        ]

    def _zeros(self, input: Tensor) -> Tensor:
        return full_beside(input, (*input.shape[:-1], self.hidden_size), 0.0)

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """The quantised cell of a float cell."""
        more = {"nonlinearity": mod.nonlinearity} if hasattr(mod, "nonlinearity") else {}
        cell = cls(mod.input_size, mod.hidden_size, mod.bias, **more)
        cell._take(mod)
        return cell

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        for name, w in (("ih", self.of_input), ("hh", self.of_state)):
            destination[f"{prefix}_packed_weight_{name}"] = (w.weight, w.bias)

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, strict: bool, missing_keys: Any,
        *rest: Any,
    ) -> None:  # fmt: skip
        keys = [f"{prefix}_packed_weight_{name}" for name in ("ih", "hh")]
        missing_keys.extend(key for key in keys if key not in state_dict)
        if all(key in state_dict for key in keys):
            self.of_input, self.of_state = (PackedWeight(*state_dict[key]) for key in keys)

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        text += "" if self.bias else ", bias=False"
        if self.nonlinearity != "tanh":
            text += f", nonlinearity={self.nonlinearity}"
        return text

    def _get_name(self) -> str:
        return f"DynamicQuantized{type(self).__name__}"


class LSTMCell(_CellBase):
    """A step of a long short-term memory: (h', c')."""

    chunks = 4

    def forward(self, input: Tensor, hx: Any = None) -> tuple[Tensor, Tensor]:
        h, c = (self._zeros(input),) * 2 if hx is None else hx
        i, f, g, o = ops.chunk(ops.add(*self._parts(input, h)), 4, -1)
        c = ops.sigmoid(f) * c + ops.sigmoid(i) * ops.tanh(g)
        return ops.sigmoid(o) * ops.tanh(c), c


class GRUCell(_CellBase):
    """A step of gated recurrent units."""

    chunks = 3

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        h = self._zeros(input) if hx is None else hx
        of_x, of_h = (ops.chunk(x, 3, -1) for x in self._parts(input, h))
        r, z = (ops.sigmoid(ops.add(of_x[k], of_h[k])) for k in (0, 1))
        n = ops.tanh(of_x[2] + r * of_h[2])
        return n + z * (h - n)


class RNNCell(_CellBase):
    """A step of a plain recurrence, with tanh or relu."""

    chunks = 1

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        h = self._zeros(input) if hx is None else hx
        total = ops.add(*self._parts(input, h))
        return ops.tanh(total) if self.nonlinearity == "tanh" else ops.relu(total)
