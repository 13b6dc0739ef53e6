"""The rule of all ops on nested tensors: an op treats each component as a tensor.

The way of a call depends on facts of the op, not on the name: see `NestedCall.run`. Dims are
counted as in the nested tensor, whose dim 0 numbers the components. Where all elements (or all
rows) are computed alike, a single op works on the components as packed in memory.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

from wend._engine.base import tree
from wend._engine.base.errors import ArgumentError, ArgumentTypeError, WendError
from wend._engine.core import _hot, _types
from wend._engine.core._hot import OpFunction, Tensor
from wend._engine.core.primitive import ops
from wend._engine.core.signature import Binder, Param
from wend._frontend.components import BoundCall, Call, OpTable, forms_of, is_dim, tensors_in
from wend._frontend.memory_order import pointwise
from wend.nested.tensor import NestedTensor, Packed, nest, nest_packed

__all__ = ["WHOLE_SHAPES"]

TENSOR_KINDS = frozenset({"tensor", "tensor?", "operand"})
#: Names of parameters that give the shape, or a number for each dim, of the whole tensor.
WHOLE_SHAPES = frozenset({"shape", "size", "repeats"})


def by_signature(call: Call) -> Any:
    """The result of a call of an op, by the first form of its signature that fits."""
    func, args, kwargs = call.func, call.args, call.kwargs
    nested = list(tensors_in((*args, *kwargs.values()), NestedTensor))
    counts = {len(x) for x in nested}
    if len(counts) > 1:
        raise ArgumentError(
            f"{call.name}: nested tensors of {sorted(counts)} components do not fit together"
        )
    if (
        isinstance(func, OpFunction)
        and func.primitive is not None
        and func.primitive.batching.of_one
    ):
        args, kwargs = tuple([v for v, _ in func.binder.match(args, kwargs)]), {}
        func = getattr(ops, func.primitive.batching.of_one)
    forms = forms_of(func)
    failure: Exception | None = None
    for form in forms:
        try:
            bound = NestedCall(func, form, args, kwargs, nested)
            if len(forms) > 1:
                bound.check()
        except (ArgumentTypeError, ArgumentError) as error:
            # The next form of the call is tried; the first error is raised if none fits.
            failure = failure or error
            continue
        return bound.run()
    if failure is not None and func.general is None:
        raise failure
    return _each(func, args, kwargs, nested)


def _each(func: Any, args: Any, kwargs: Any, nested: list[NestedTensor]) -> Any:
    """Call a function that is no op on the components of the arguments."""

    def result(i: int) -> Any:
        def part(x: Any) -> Any:
            return x.parts[i] if isinstance(x, NestedTensor) else x

        positional, named = tree.map(part, (args, kwargs))
        return func(*positional, **named)

    return joined([result(i) for i in range(len(nested[0]))], nested[0], None)


def joined(results: list[Any], like: NestedTensor, stays: Any) -> Any:
    """The results for all components in a tensor: dense where no dim is ragged.

    stays: says whether tensors of equal shape are so by chance
    """
    first, structure = tree.flatten(results[0])
    columns = zip(*[tree.leaves(result) for result in results], strict=True)
    out: list[Any] = []
    for k, column in enumerate(columns):
        if not isinstance(first[k], Tensor):
            out.append(list(column))
        elif len({tuple(x.shape) for x in column}) > 1 or (stays is not None and stays(k)):
            out.append(nest(column, like))
        else:
            out.append(ops.stack(list(column)))
    return tree.unflatten(structure, out)


class NestedCall(BoundCall):
    """A call of an op, taken apart by a form of its signature."""

    def __init__(
        self, func: Any, binder: Binder, args: Any, kwargs: Any, nested: list[NestedTensor]
    ) -> None:
        super().__init__(func, binder, args, kwargs)
        self.nested = nested
        self.rank: int = max(x.dim() for x in nested)
        self.count: int = len(nested[0])

    def check(self) -> None:
        """Raise an error of the arguments if the arguments do not fit this signature."""
        if self.count and not self._over_components() and not self._lists_components():
            args, kwargs = self.component(0)
            self.binder.bind(args, kwargs)

    def run(self) -> Any:
        """The result."""
        if not self.count:
            raise ArgumentError(f"{self.name}: a nested tensor without components")
        if self.func.inplace:
            return self._in_place()
        if self._lists_components():
            return nest([part for x in self.nested for part in x.parts], self.nested[0])
        if self._over_components():
            return self._reduced_over_components()
        reduction = [p.default for p in self.binder.params if p.name == "reduction"]
        if (
            reduction
            and {p.name: v for p, v in self.given}.get("reduction", reduction[0]) != "none"
        ):
            return self._reduced_rows()
        result = self._at_once()
        if result is not None:
            return result
        calls = [self.component(i) for i in range(self.count)]
        results = [self.func(*args, **kwargs) for args, kwargs in calls]
        if self._is_total(results):
            return self._total(results)
        return joined(results, self._widest(), self._stays)

    # -- a component ------------------------------------------------------------------------

    def component(self, i: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments for component i."""
        return self.arranged(lambda p, v: self._of_component(p, v, i))

    def _of_component(self, p: Param, value: Any, i: int) -> Any:
        if p.kind in TENSOR_KINDS:
            return self._part(value, i)
        if p.kind == "tensors":
            return [self._part(x, i) for x in value]
        if p.kind == "ints" and p.name == "dims" and self.prim.facts.view:
            return self._permuted(value)
        if is_dim(p):
            many = isinstance(value, (list, tuple))
            return [self._shifted(d) for d in value] if many else self._shifted(value)
        if p.kind == "sizes" and p.name in WHOLE_SHAPES:
            return self._sizes(value, i)
        return value

    def _part(self, x: Any, i: int) -> Any:
        if isinstance(x, NestedTensor):
            return x.parts[i]
        if isinstance(x, Tensor) and x.dim() == self.rank and x.shape[0] in (1, self.count):
            return x[0 if x.shape[0] == 1 else i] if self._pairs_batches else x
        return x

    @cached_property
    def _pairs_batches(self) -> bool:
        """Whether dim 0 of a dense operand of as many dims numbers the components as well."""
        if (
            self.prim.batching.pairs_batches
            or self.prim.facts.elementwise
            or not self.prim.is_composite
        ):
            return bool(self.prim.batching.pairs_batches or self.prim.facts.elementwise)
        self.__dict__["_pairs_batches"] = True  # assumed while a component is looked at
        args, kwargs = self.component(0)
        try:
            prim, tensors, values, _ = self.binder.bind(args, kwargs)
            return pointwise(prim, prim.typed(_types_of(tensors), values)[0])
        except WendError:  # the question is whether the op takes the components together
            return False

    def _shifted(self, dim: Any) -> Any:
        """A dim of the nested tensor as a dim of a component."""
        if dim is None or isinstance(dim, bool) or not isinstance(dim, int):
            return dim
        if dim in (0, -self.rank):
            raise ArgumentError(
                f"{self.name}: dim 0 of a nested tensor numbers its components, which lie apart"
            )
        return dim - 1 if dim > 0 else dim

    def _permuted(self, dims: Any) -> list[int]:
        dims = [d % self.rank for d in ([dims] if isinstance(dims, int) else dims)]
        if dims[0] != 0:
            raise ArgumentError(f"{self.name}: dim 0 of a nested tensor must stay the first")
        return [d - 1 for d in dims[1:]]

    def _sizes(self, sizes: Any, i: int) -> list[int]:
        """Sizes of the whole as those of component i."""
        entries = list(sizes) if isinstance(sizes, (list, tuple)) else [sizes]
        first = entries[0] if entries else None
        if first not in ((1,) if self.binder.by_name.get("repeats") else (-1, self.count)):
            raise ArgumentError(
                f"{self.name}: sizes {tuple(entries)} for a nested tensor of {self.count} "
                "components: the first one must be their number"
            )
        return [n.lengths[i] if hasattr(n, "lengths") else n for n in entries[1:]]

    # -- all at once ------------------------------------------------------------------------

    def _at_once(self) -> NestedTensor | None:
        """The result of the op on the packed components, if that gives the same."""
        if self.dims or any(p.kind == "sizes" and p.name in WHOLE_SHAPES for p, _ in self.given):
            return None
        packs = [x.packed() for x in self.nested]
        first = packs[0]
        if first is None or not all(_alike(first, pack) for pack in packs):
            return None
        args, kwargs = self.arranged(lambda p, v: _behind_one_another(v))
        if not self._rowwise(first):
            prim, tensors, values, _ = self.binder.bind(args, kwargs)
            room = first.values.dim() - 1 - first.dim
            dense = [x for p, v in self.given for x in ([v] if p.kind in TENSOR_KINDS else [])]
            if any(_is_dense(x) and x.dim() > room for x in dense):
                return None
            try:
                program, _ = prim.typed(_types_of(tensors), values)
            except WendError:  # the op of a component may not raise this
                return None
            if not pointwise(prim, program):
                return None
        return nest_packed(first.with_values(self.func(*args, **kwargs)), self.nested[0])

    def _rowwise(self, first: Packed) -> bool:
        """Whether the op computes each row of the only nested operand by itself."""
        rows = [p for p, v in self.given if isinstance(v, NestedTensor)]
        least = self.prim.batching.row_dims + 1
        return (
            len(rows) == len(self.nested) == 1
            and rows[0].name == self.prim.batching.rows_of
            and first.dim == 0
            and first.values.dim() >= least
        )

    def _in_place(self) -> Any:
        target = self.given[0][1]
        for i in range(self.count):
            args, kwargs = self.component(i)
            self.func(*args, **kwargs)
        if isinstance(target, NestedTensor):
            target.forget_packed()
        return target

    # -- reductions -------------------------------------------------------------------------

    def _lists_components(self) -> bool:
        """cat along dim 0 of nested tensors."""
        listed = [v for p, v in self.given if p.kind == "tensors"]
        return (
            bool(listed)
            and self.prim.batching.joins
            and self.dims.get("dim", 0) in (0, -self.rank)
            and (all(isinstance(x, NestedTensor) for x in listed[0]))
        )

    def _over_components(self) -> bool:
        """Whether dim 0 is among several dims to be reduced."""
        dims = self.dims.get("dim")
        return isinstance(dims, (list, tuple)) and any(d in (0, -self.rank) for d in dims)

    def _reduced_over_components(self) -> Any:
        dims = sorted(d % self.rank for d in self.dims["dim"])
        pack = self.nested[0].packed()
        if len(self.nested) > 1 or pack is None or pack.dim + 1 not in dims:
            raise ArgumentError(
                f"{self.name}: dims {tuple(dims)}: the components of a nested tensor can be "
                "reduced together with their one ragged dim only"
            )
        inner = [d - 1 for d in dims if d]

        def value_of(p: Param, value: Any) -> Any:
            return inner if p.name == "dim" else _behind_one_another(value)

        args, kwargs = self.arranged(value_of)
        return self.func(*args, **kwargs)

    def _is_total(self, results: list[Any]) -> bool:
        """Whether a single operand was reduced to a number, along all dims."""
        one = len(self.nested) == 1 and self.nested[0].dim() > 1
        operands = [v for p, v in self.given if p.kind in (*TENSOR_KINDS, "tensors")]
        return (
            one
            and len(operands) == 1
            and not self.dims
            and all(isinstance(x, Tensor) and x.dim() == 0 for x in results)
        )

    def _total(self, results: list[Any]) -> Any:
        """The reduction of all elements of all components."""
        flat = ops.cat([part.reshape(-1) for part in self.nested[0].parts])
        args, kwargs = self.arranged(lambda p, v: flat if isinstance(v, NestedTensor) else v)
        try:
            return self.func(*args, **kwargs)
        except WendError:  # a number for each matrix: a determinant, say
            return ops.stack(results)

    def _reduced_rows(self) -> Any:
        """A loss: the rows of all components count alike."""
        packs = [x.packed() for x in self.nested]
        first = packs[0]
        if first is None or first.dim != 0 or not all(_alike(first, pack) for pack in packs):
            raise ArgumentError(
                f"{self.name}: rows of nested tensors with several ragged dims cannot be reduced "
                "together: give reduction='none'"
            )
        args, kwargs = self.arranged(lambda p, v: _behind_one_another(v))
        return self.func(*args, **kwargs)

    # -- form of the results ------------------------------------------------------------------

    def _widest(self) -> NestedTensor:
        return max(self.nested, key=lambda x: x.dim())

    def _stays(self, k: int) -> bool:
        """Whether result k, alike in shape in all components, would differ if the components did.

        Found by the op's type rule, for components with larger ragged dims.
        """
        widest = self._widest()
        if len({tuple(part.shape) for part in widest.parts}) > 1:
            return False
        args, kwargs = self.component(0)
        prim, tensors, values, _ = self.binder.bind(args, kwargs)
        flags = {id(x.parts[0]): x.ragged for x in self.nested}
        types = []
        for t in tensors:
            ragged = flags.get(id(t), ())
            shape = [
                int(n) + (3 if k < len(ragged) and ragged[k] else 0) for k, n in enumerate(t.shape)
            ]
            types.append(_types.intern_type(tuple(shape), t.dtype, t.device))
        try:
            _, outs = prim.typed(types, values)
            _, usual = prim.typed(_types_of(tensors), values)
        # sizes that are tied to those of further operands: as ragged as the operand
        except WendError:  # the question is whether a result keeps the rows
            return True
        return tuple(outs[k].shape) != tuple(usual[k].shape)


def _alike(a: Packed, b: Packed | None) -> bool:
    """Whether components lie in a row without gaps, at the same places."""
    if b is None or not (a.compact and b.compact) or a.dim != b.dim:
        return False
    return a.ends == b.ends and (a.dim == 0 or a.values.dim() == b.values.dim())


def _behind_one_another(value: Any) -> Any:
    if isinstance(value, NestedTensor):
        pack = value.packed()
        assert pack is not None
        return pack.values
    if isinstance(value, (list, tuple)) and any(isinstance(x, NestedTensor) for x in value):
        return [_behind_one_another(x) for x in value]
    return value


def _types_of(tensors: list[Tensor]) -> list[Any]:
    return [_hot.value_of(t).type for t in tensors]


def _is_dense(x: Any) -> bool:
    return isinstance(x, Tensor) and not isinstance(x, NestedTensor)


TABLE = OpTable(by_signature)
NestedTensor.__torch_function__ = TABLE.torch_function
