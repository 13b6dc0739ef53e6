"""Records a function's ops with symbolic sizes, for the ahead-of-time compiler."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from wend.base import tree
from wend.base.errors import ArgumentTypeError, CompileError, GraphError
from wend.compiler.aot.recorded_path import LibraryWeight, RecordedPath
from wend.core import _hot
from wend.core._hot import Tensor
from wend.core.symbolic import Guards
from wend.core.symtrace import Recorder, flatten_outputs, symbolic_shape
from wend.frontend.autograd.grad_modes import no_grad
from wend.ops.basic import Identity
from wend.serialization.safetensors import CODE_OF

__all__ = ["LibraryWeights", "record"]


class LibraryWeights:
    """The tensors of a library's file, by value.

    named: tensors that have names: parameters and buffers of a module
    """

    def __init__(self, named: dict[str, Tensor]) -> None:
        # A later name of a shared tensor is not used.
        self._names = {id(_hot.refreshed(t)): name for name, t in reversed(named.items())}
        self._numbers: dict[int, int] = {}
        self.tensors: dict[str, Tensor] = {}
        self.rows: list[LibraryWeight] = []
        self._values: list[Any] = []  # ids stay taken

    def name_of(self, value: Any) -> str:
        """Return the name of a parameter or buffer with this value, or ""."""
        return self._names.get(id(value), "")

    def number(self, value: Any) -> int:
        """Return the number of a value's tensor, a new number for a new value."""
        found = self._numbers.get(id(value))
        if found is None:
            found = self._numbers[id(value)] = len(self.rows)
            self._values.append(value)
            name = self._names.get(id(value), f"constant.{found}")
            tensor = _hot.wrap(value)
            if tensor.dtype not in CODE_OF:
                raise CompileError(f"aot.compile: a tensor of {tensor.dtype} cannot be stored")
            self.tensors[name] = tensor
            size = tensor.dtype.itemsize
            code, shape = CODE_OF[tensor.dtype], tuple(tensor.shape)
            self.rows.append(LibraryWeight(name, code, shape, size * tensor.numel(), size))
        return found


class PathRecorder(Recorder):
    """Records a user's function; tensors from outside become weights."""

    maps = True  # in-place ops are allowed

    def __init__(self, guards: Guards, weights: LibraryWeights) -> None:
        super().__init__(guards)
        self.all_weights = weights
        self.weights: dict[int, int] = {}
        self._ids: dict[int, int] = {}
        self._bases: dict[int, int] = {}  # view -> the value whose memory it shows
        self._viewed: set[int] = set()  # values with views that the function has
        self._depth = 0  # of composites

    def id_of(self, prim: Any, tensor: Any) -> int:
        """Return the id of an operand; a tensor from outside gets an id when first met."""
        value = tensor.value
        if value.serial == self.serial:
            return int(value.index)
        number = self.all_weights.number(value)
        found = self._ids.get(number)
        if found is None:
            found = self._ids[number] = self.n
            self.weights[found] = number
            self.hints.append(value.type)
            self.n += 1
        return found

    def check_rebinding(self, handle: Tensor) -> None:
        """Raise CompileError for a write that more than this handle would have to see.

        The tensor comes from outside, or shares memory with a view.
        """
        value = handle.value
        if value.serial != self.serial:
            name = self.all_weights.name_of(value)
            raise CompileError(
                f"aot.compile: the function writes into {name or 'a tensor from outside'}, "
                "and a library keeps its weights; call eval() on the module first, or return "
                "the new value"
            )
        i = int(value.index)
        if self._bases.get(i, i) in self._viewed:
            raise CompileError(
                "aot.compile: the function writes in place where a view shares the memory; "
                "compute a new tensor instead"
            )

    def record(self, prim: Any, tensors: list[Any], args: list[Any]) -> Any:
        """Record an op. Raises CompileError for ops that draw random numbers."""
        if getattr(prim, "random", False):
            raise CompileError(
                f"aot.compile: {prim} draws random numbers; call eval() on the module first, "
                "or give the numbers as an input"
            )
        first = self.n
        self._depth += 1
        try:
            result = super().record(prim, tensors, args)
        finally:
            self._depth -= 1
        results = [self.id_of(prim, t) for t in flatten_outputs(result)]
        if prim.is_view or isinstance(prim, Identity):
            base = self.id_of(prim, tensors[0])
            self._bases.update(dict.fromkeys(results, self._bases.get(base, base)))
        if not self._depth:  # views inside of a composite are seen by nobody
            bases = {self._bases.get(i, i) for i in results if i in self._bases}
            self._viewed |= {i for i in bases if i < first}
        return result


def record(
    function: Callable[..., Any], examples: Sequence[Tensor], weights: LibraryWeights
) -> RecordedPath:
    """Return the ops that a function does on tensors of these types, for all sizes of a pattern.

    Raises CompileError if the function needs a value, or returns anything but tensors.
    """
    guards = Guards()
    recorder = PathRecorder(guards, weights)
    types = [_hot.refreshed(example).type for example in examples]
    inputs = [recorder.tensor(symbolic_shape(k, t, guards), t) for k, t in enumerate(types)]
    try:
        with no_grad():
            result = recorder.run(lambda: function(*inputs))
    except GraphError as fault:
        raise CompileError(
            "aot.compile: the function needs the value of a tensor while it runs (item, bool, "
            "print, or a branch); compute it by ops such as where, or give it as an input"
        ) from fault
    except TypeError as fault:
        if "SymInt" not in str(fault) and "extent" not in str(fault):
            raise
        raise CompileError(
            f"aot.compile: the function uses a size as a plain int ({fault}); "
            "compute with sizes, and loop over fixed numbers only"
        ) from fault
    results = tree.leaves(result)
    for item in results:
        if not isinstance(item, Tensor):
            raise ArgumentTypeError(
                f"aot.compile: the function returns a {type(item).__name__}; "
                "return tensors, or tuples, lists and dicts of tensors"
            )
    return RecordedPath(
        recorder.nodes,
        recorder.hints,
        recorder.shapes,
        tuple([(*key, outcome) for key, outcome in guards.items.items()]),
        tuple(range(len(inputs))),
        recorder.weights,
        tuple([recorder.id_of(None, _refreshed(item)) for item in results]),
    )


def _refreshed(tensor: Tensor) -> Any:
    """Return a handle on the tensor's value, views of written memory included."""
    return _hot.wrap(_hot.refreshed(tensor))
