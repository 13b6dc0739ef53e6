"""`torch.lstm`, `gru`, `rnn_tanh` and `rnn_relu`: recurrent layers given their weights as a list.

Each has two forms:

    lstm(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first)
    lstm(data, batch_sizes, hx, params, has_biases, num_layers, dropout, train, bidirectional)

input: (T, N, I), or (N, T, I) with batch_first   data, batch_sizes: of a PackedSequence
hx: (layers times directions, N, H), for `lstm` the pair of h and c
params: for each layer and direction w_ih and w_hh; then b_ih and b_hh with has_biases
Behind these stands the projection of h, for an LSTM whose h is narrower than its c.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from wend._engine.base.errors import ArgumentTypeError, DTypeError, ShapeError, ValueRefused
from wend._engine.base.tracebacks import short_errors
from wend._frontend.toolkit import Tensor
from wend.nn._base.recurrence import State, Weights, layers

__all__ = ["gru", "lstm", "rnn_relu", "rnn_tanh"]

_REST = "params has_biases num_layers dropout train bidirectional"


def _form(words: str) -> inspect.Signature:
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return inspect.Signature([inspect.Parameter(word, kind) for word in words.split()])


_SEQUENCES = _form(f"input hx {_REST} batch_first")
_PACKED = _form(f"data batch_sizes hx {_REST}")


def _bound(op: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments by name. Raises ArgumentTypeError for a call of neither form."""
    third = args[2] if len(args) > 2 else kwargs.get("hx" if "batch_sizes" in kwargs else "params")
    packed = "batch_sizes" in kwargs or isinstance(third, Tensor)
    packed = packed or (len(args) > 3 and isinstance(args[3], (list, tuple)))
    form = _PACKED if packed else _SEQUENCES
    try:
        return form.bind(*args, **kwargs).arguments
    except TypeError as error:
        raise ArgumentTypeError(
            f"{op}: {error}; the forms are {op}{_SEQUENCES} and {op}{_PACKED}"
        ) from None


def _weights(op: str, arguments: dict[str, Any], projected: bool) -> list[list[Weights]]:
    """The weights of each layer and direction: a list of 5, None for those that are left out."""
    params, biased = list(arguments["params"]), bool(arguments["has_biases"])
    directions = 2 if arguments["bidirectional"] else 1
    each = 2 + 2 * biased + projected
    needed = each * directions * arguments["num_layers"]
    if len(params) != needed:
        raise ValueRefused(
            f"{op}: {len(params)} params are given; {arguments['num_layers']} layers of "
            f"{directions} direction(s) with {each} weights each take {needed}"
        )
    rows = [params[i : i + each] for i in range(0, needed, each)]
    full = [
        [*row[:2], *(row[2:4] if biased else (None, None)), row[-1] if projected else None]
        for row in rows
    ]
    return [full[i : i + directions] for i in range(0, len(full), directions)]


def _check(op: str, arguments: dict[str, Any], data: Tensor, state: State, batch: int) -> None:
    """Raises ShapeError, DTypeError and ValueRefused for what does not fit."""
    dropout, layers_ = arguments["dropout"], arguments["num_layers"]
    if not 0 <= dropout <= 1:
        raise ValueRefused(f"{op}: dropout is a probability, from 0 to 1, not {dropout}")
    count = layers_ * (2 if arguments["bidirectional"] else 1)
    for part in state:
        if part.dim() != 3 or part.shape[0] != count or part.shape[1] != batch:
            raise ShapeError(
                f"{op}: a state of shape {tuple(part.shape)} is given; {count} layers times "
                f"directions and {batch} sequences take ({count}, {batch}, hidden_size)"
            )
        if part.dtype is not data.dtype:
            raise DTypeError(f"{op}: a state is {part.dtype}, and the input {data.dtype}")


def _run(op: str, mode: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Tensor, State]:
    """(outputs, last state) of a call of either form."""
    arguments = _bound(op, args, kwargs)
    state = tuple(arguments["hx"]) if mode == "LSTM" else (arguments["hx"],)
    if mode == "LSTM" and len(state) != 2:
        raise ValueRefused(f"{op}: expects two hidden states, not {len(state)}")
    projected = mode == "LSTM" and state[0].shape[-1] != state[1].shape[-1]
    dropout = arguments["dropout"] if arguments["train"] else 0.0
    if "data" in arguments:
        data, sizes = arguments["data"], arguments["batch_sizes"].tolist()
        if data.dim() != 2:
            raise ShapeError(f"{op}: data must have 2 dims, the steps of all sequences and I")
        _check(op, arguments, data, state, sizes[0])
        return layers(mode, data, state, sizes, _weights(op, arguments, projected), dropout)
    input = arguments["input"]
    if input.dim() != 3:
        raise ShapeError(f"{op}: input must have 3 dims, (T, N, I), not {input.dim()}")
    sequence = input.transpose(0, 1) if arguments["batch_first"] else input
    steps, batch = sequence.shape[0], sequence.shape[1]
    if steps == 0:
        raise ShapeError(f"{op}: Expected sequence length to be larger than 0 in RNN")
    _check(op, arguments, input, state, batch)
    weights = _weights(op, arguments, projected)
    output, last = layers(mode, sequence, state, None, weights, dropout)
    return output.transpose(0, 1) if arguments["batch_first"] else output, last


@short_errors
def lstm(*args: object, **kwargs: object) -> tuple[Tensor, Tensor, Tensor]:
    """(outputs, h, c) of a stack of LSTM layers; for the two forms see the module.

    Raises ShapeError, DTypeError, ValueRefused and ArgumentTypeError.
    Hochreiter, Schmidhuber (1997).
    """
    output, (hidden, memory) = _run("lstm", "LSTM", args, kwargs)
    return output, hidden, memory


def _of_one_state(name: str, mode: str, words: str) -> Callable[..., tuple[Tensor, Tensor]]:
    def function(*args: object, **kwargs: object) -> tuple[Tensor, Tensor]:
        output, (hidden,) = _run(name, mode, args, kwargs)
        return output, hidden

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""(outputs, h) of a stack of {words}; for the two forms see the module.

    Raises ShapeError, DTypeError, ValueRefused and ArgumentTypeError.
    """
    return short_errors(function)


gru = _of_one_state("gru", "GRU", "gated recurrent units (Cho et al., 2014)")
rnn_tanh = _of_one_state("rnn_tanh", "RNN_TANH", "Elman layers, h' = tanh(x + h)")
rnn_relu = _of_one_state("rnn_relu", "RNN_RELU", "Elman layers, h' = relu(x + h)")
