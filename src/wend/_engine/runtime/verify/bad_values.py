"""The search for the op that made a NaN or an infinity, by replay of a recorded path.

The reference rules compute the path again, as far as operands are still held.  From a bad
result the search goes back along bad operands:

- A NaN leads to the first op with a NaN result and no NaN operand.
- Infinities among the operands of this op lead on, to the first op that made an infinity of finite
  operands and numbers.  An infinity that the program has put there, as masks do, is no fault:
  the op that made a NaN of the mask is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from types import CodeType
from typing import TYPE_CHECKING, Any

import numpy as np

from wend._engine.core import _types
from wend._engine.core.graph import Node, PathGraph, Source, live_nodes, source_of
from wend._engine.core.primitive import Primitive
from wend._engine.core.provenance import Site, Sites
from wend._engine.ops.contract import Contract
from wend._engine.ops.elementwise.comparison import Comparison, Predicate
from wend._engine.ops.elementwise.family import Elementwise
from wend._engine.runtime.numpy_executor.runners import run_plainly

if TYPE_CHECKING:
    from numpy.typing import NDArray

NAN, INFINITY = "NaN", "infinity"


@dataclass
class Facts:
    """An array in a few numbers.

    label: where the array comes from
    low, high: the range of the finite elements, None if there are none
    """

    label: str
    dtype: str
    shape: tuple[int, ...]
    low: float | None = None
    high: float | None = None
    nans: int = 0
    infinities: int = 0

    def __str__(self) -> str:
        size = ", ".join(map(str, self.shape))
        text = f"{self.label}: {self.dtype}[{size}]"
        if self.low is not None and self.high is not None:
            text += f" from {self.low:.6g} to {self.high:.6g}"
        if self.nans:
            text += f", {self.nans} NaN"
        if self.infinities:
            text += f", {self.infinities} infinite"
        return text


@dataclass
class BadValue:
    """The op that made the first bad value, as far as the replay tells.

    kind: "NaN" or "infinity"
    op: the name of the op; the name of the gradient's node for a backward pass; "" if the bad
        value came in with an operand
    inner: the primitive inside of `op`
    direction: "forward", "backward" or "operand"
    site: the user's line; for a backward op the line of the forward op
    operands: of the primitive; `result`: the first bad result
    later: the op that made a NaN of an infinity, with its line
    module: the path of the module, if a model was given
    exact: whether all operands were held, so that the op is known and not only likely
    suspects: if not exact, the ops before that may have made the bad value, with lines
    note: further facts, and remedies
    """

    kind: str
    op: str
    inner: str = ""
    direction: str = "forward"
    site: Site | None = None
    operands: list[Facts] = field(default_factory=list)
    result: Facts | None = None
    later: tuple[str, Site] | None = None
    module: str = ""
    exact: bool = True
    suspects: list[tuple[str, Site]] = field(default_factory=list)
    note: str = ""
    leaves: list[Any] = field(default_factory=list, repr=False)

    @property
    def line(self) -> int:
        """The number of the user's line; 0 where no line is known."""
        return 0 if self.site is None else self.site.line

    def __str__(self) -> str:
        inside = f" (in its {self.inner})" if self.inner and self.inner != self.op else ""
        if not self.op:
            lines = [f"{self.kind} came in with an operand, and no op made it"]
        elif self.exact:
            lines = [f"{self.op}{inside} made {_article(self.kind)} out of operands without"]
        else:
            lines = [f"{self.op}{inside} gave {_article(self.kind)}; its operands are gone"]
        if self.site is not None:
            where = f" ({self.module})" if self.module else ""
            word = "recorded at" if self.direction == "backward" else "at"
            lines.append(f"  {word} {self.site}{where}")
        lines += [f"  operand {facts}" for facts in self.operands]
        if self.result is not None:
            lines.append(f"  result {self.result}")
        if self.later is not None:
            lines.append(f"  {self.later[0]} made NaN of it, at {self.later[1]}")
        lines += [f"  or made by {name}, at {site}" for name, site in self.suspects]
        if self.note:
            lines.append(f"  {self.note}")
        return "\n".join(lines)

    __repr__ = __str__  # notebooks and the interactive prompt show this


def _article(kind: str) -> str:
    return "a NaN" if kind == NAN else "an infinity"


def is_bad(array: object) -> bool:
    """Whether an array has an element that is no finite number; reads the array once."""
    array = np.asarray(array)
    if array.dtype.kind in "biuSUO" or array.size == 0:
        return False
    with np.errstate(all="ignore"):
        wide = array.dtype.kind in "fc" and array.dtype.itemsize >= 4
        # A sum is finite only of finite elements.
        if wide and np.isfinite(np.add.reduce(array, axis=None)):
            return False
        return not bool(np.isfinite(_wide(array)).all())


def _wide(array: NDArray[Any]) -> NDArray[Any]:
    """An array of a type that NumPy's tests of floats take."""
    if array.dtype.kind == "V" or array.dtype.itemsize == 1:
        return array.astype(np.float32)
    return array


def facts_of(array: object, label: str) -> Facts:
    """Return the facts to be told of an array."""
    array = np.asarray(array)
    facts = Facts(label, str(array.dtype), tuple(array.shape))
    if array.dtype.kind in "SUO" or not array.size:
        return facts
    wide = _wide(array)
    finite = np.isfinite(wide)
    facts.nans = int(np.isnan(wide).sum())
    facts.infinities = int(wide.size - finite.sum()) - facts.nans
    if finite.any():
        sizes = np.abs(wide[finite]) if wide.dtype.kind == "c" else wide[finite]
        facts.low, facts.high = float(sizes.min()), float(sizes.max())
    return facts


def lines_of(rows: list[tuple[str, Any]]) -> str:
    """A line for each (label, array), below a message."""
    return "".join(f"\n  {facts_of(array, label)}" for label, array in rows)


def hands_on(prim: Primitive, kind: int) -> bool:
    """Whether each bad element of the operands makes some result of an op bad.

    kind: 0 for NaN, 1 for an infinity, which most functions may turn into a finite number
    """
    if kind == 1:
        return prim.name in _MOVES or prim.name in ("neg", "abs")
    if isinstance(prim, Elementwise):
        if isinstance(prim, Comparison | Predicate):
            return False
        return prim.name not in _CHOOSING and not prim.name.startswith(("nan", "is"))
    return isinstance(prim, Contract) or prim.name in _MOVES or prim.name in _SUMS


def _site_in(sites: Sites, path: PathGraph, source: Source) -> tuple[CodeType | None, int]:
    """(code, instruction) of the op of a segment that a node of a backward pass belongs to."""
    if source.at in sites:
        return sites[source.at]
    if source.at < path.n_states:
        state = path.states[source.at]
        if state.prim.name == source.name and state.code is not None:
            return state.code, state.lasti
    return source.code, source.lasti


#: Ops that a finding names besides the likely op.
MOST_SUSPECTS = 6
#: Elementwise ops that may leave a bad element out, and further ops that never do.
_CHOOSING = {
    "where", "fmax", "fmin", "sign", "sgn", "xlogy", "copysign", "nextafter", "pow", "hypot",
}  # fmt: skip
_SUMS = {"sum", "mean", "cumsum"}
_MOVES = {
    "clone", "reshape", "flatten", "transpose", "permute", "unsqueeze", "squeeze", "expand", "cat",
    "stack",
}  # fmt: skip


def _is_like(array: NDArray[Any], held: NDArray[Any]) -> bool:
    """Whether an array is another one but for rounding."""
    if array.shape != held.shape:
        return False
    if array.dtype.kind not in "fc":
        return bool(np.array_equal(array, held))
    return bool(np.allclose(array, held, rtol=1e-3, atol=1e-5, equal_nan=True))


class Replay:
    """The values of a path by the reference rules, as far as operands are held.

    leaves: arrays by id, of leaves and of further values that are held
    types: the types of the path's values
    sites: the user's lines of this visit that differ, by number of the state
    """

    def __init__(
        self,
        path: PathGraph,
        leaves: dict[int, Any],
        types: list[Any],
        args: list[Any],
        sites: Sites | None = None,
    ) -> None:
        self.path = path
        self.types = types
        self.args = args
        self.sites = sites or {}
        self.env: dict[int, Any] = dict(leaves)
        self.fault = ""
        #: By position of a step: (the user's lines, the path) of the segment that it belongs to.
        self.passes: dict[int, tuple[Any, Any]] = {}
        #: (position, kind) of ops whose results are not known, but followed for bad values
        self.passed: set[tuple[int, int]] = set()
        self._bad: dict[int, tuple[Any, Any]] = {}

    def compute(self, wanted: Iterable[int]) -> None:
        """Compute all ops that the wanted values depend on, and whose operands are known."""
        env = self.env
        nodes = live_nodes(self.path.nodes[: self.path.n_nodes], set(wanted))
        with np.errstate(all="ignore"):
            for node in nodes:
                if all(o in env for o in node.outputs):
                    continue
                if any(i not in env for i in node.inputs):
                    continue
                arrays = [env[i] for i in node.inputs]
                try:
                    results = run_plainly(node.program, arrays, self.numbers(node))
                except Exception as error:  # the op's own refusal: the search ends there
                    self.fault = f"{node.prim.name} refuses its operands in the replay: {error}"
                    continue
                for o, array in zip(node.outputs, results, strict=True):
                    env.setdefault(o, np.asarray(array))

    def numbers(self, node: Node) -> list[Any]:
        """The run-time numbers of a node."""
        return [_types.evaluate(e, self.types, self.args) for e in node.args]

    def bad(self, i: int) -> tuple[Any, Any]:
        """(where NaN, where infinite) of a known value; (None, None) where there is none."""
        masks = self._bad.get(i)
        if masks is None:
            masks = (None, None)
            if i in self.env and is_bad(self.env[i]):
                wide = _wide(np.asarray(self.env[i]))
                nan = np.isnan(wide)
                infinite = ~(np.isfinite(wide) | nan)
                masks = (nan if nan.any() else None, infinite if infinite.any() else None)
            self._bad[i] = masks
        return masks

    def forget(self, i: int) -> None:
        """Forget whether a value is bad: the array has been replaced."""
        self._bad.pop(i, None)

    def find(self, wanted: Iterable[int], outside: bool = False) -> BadValue | None:
        """Return the op that made the first bad value among those that lead to `wanted`.

        None if none of them is bad, or if the program has put all infinities there itself.

        outside: whether infinities from outside of the path are told, as an operand is
        """
        wanted = list(wanted)
        self.compute(wanted)
        nans = [i for i in wanted if self.bad(i)[0] is not None]
        if nans:
            makers, ends = self._back(nans, 0)
            makers = [k for k in makers if not self._given(k, np.isnan)]
            if makers:
                return self._of_nan(makers[0], outside)
            return self._entered(ends, NAN) if ends else None
        infinite = [i for i in wanted if self.bad(i)[1] is not None]
        makers, ends = self._back(infinite, 1)
        makers = [k for k in makers if not self._given(k, np.isinf)]
        if makers:
            return self._told(makers[0], INFINITY)
        return self._entered(ends, INFINITY) if ends and outside else None

    def _of_nan(self, k: int, outside: bool = False) -> BadValue:
        """The finding for the node at position `k`, which made a NaN of operands without."""
        node = self.path.nodes[k]
        start = self._operands(k, node.outputs[0], 1)
        makers, ends = self._back(start, 1) if start else ([], [])
        makers = [m for m in makers if not self._given(m, np.isinf)]
        if makers:
            finding = self._told(makers[0], INFINITY)
        elif ends and outside:
            finding = self._entered(ends, INFINITY)
        else:
            return self._told(k, NAN)
        name, _, site, _ = self._name(k)
        finding.later = (name, site)
        return finding

    def _back(self, start: list[int], kind: int) -> tuple[list[int], list[int]]:
        """(positions of the ops that made bad values, ids of bad values from outside), sorted.

        kind: 0 follows NaN, 1 infinity
        """
        producer = self.path.producer
        makers: set[int] = set()
        ends: set[int] = set()
        seen = set(start)
        stack = list(start)
        while stack:
            i = stack.pop()
            k = producer.get(i)
            if k is None:
                ends.add(i)
                continue
            more = self._operands(k, i, kind) or self._behind_unknown(k, kind)
            if not more:
                makers.add(k)
            for j in more:
                if j not in seen:
                    seen.add(j)
                    stack.append(j)
        return sorted(makers), sorted(ends)

    def _behind_unknown(self, k: int, kind: int) -> list[int]:
        """The nearest bad values behind operands of a node that are not known any more.

        Ops that hand on each bad element lie between, as far as `exact` is to hold.
        """
        producer, nodes = self.path.producer, self.path.nodes
        stack = [i for i in nodes[k].inputs if i not in self.env]
        seen, values, between = set(stack), [], set()
        while stack:
            at = producer.get(stack.pop())
            if at is None:
                continue
            between.add(at)
            for i in nodes[at].inputs:
                if i in self.env:
                    if self.bad(i)[kind] is not None:
                        values.append(i)
                elif i not in seen:
                    seen.add(i)
                    stack.append(i)
        if values:
            self.passed |= {(at, kind) for at in (k, *between)}
        return values

    def _operands(self, k: int, i: int, kind: int) -> list[int]:
        """The bad operands of a node that can have made the result `i` bad."""
        node = self.path.nodes[k]
        operands = []
        here = self.bad(i)
        result = here[kind] if here[kind] is not None else here[0]
        for j in node.inputs:
            bad = self.bad(j)[kind]
            if bad is None:
                continue
            if isinstance(node.prim, Elementwise) and result is not None:
                try:
                    if not np.any(np.broadcast_to(bad, result.shape) & result):
                        continue
                except ValueError:  # other shapes than the rule's: any element may count
                    pass
            operands.append(j)
        return operands

    def _is_proven(self) -> bool:
        """Whether the ops that were followed without values hand on each bad element."""
        return all(hands_on(self.path.nodes[k].prim, kind) for k, kind in self.passed)

    def agrees(self, held: dict[int, Any]) -> bool:
        """Whether some held results are those that the known operands give, and none is not.

        held: results by id; bad elements must be the same
        """
        agreed = False
        with np.errstate(all="ignore"):
            for node in self.path.nodes[: self.path.n_nodes]:
                if not any(o in held for o in node.outputs):
                    continue
                if node.prim.facts.random or any(i not in self.env for i in node.inputs):
                    continue
                arrays = [self.env[i] for i in node.inputs]
                try:
                    results = run_plainly(node.program, arrays, self.numbers(node))
                except Exception:  # the op's own refusal of these operands
                    return False
                for o, array in zip(node.outputs, results, strict=True):
                    if o in held and not _is_like(np.asarray(array), np.asarray(held[o])):
                        return False
                    agreed = agreed or o in held
        return agreed

    def _given(self, k: int, test: Callable[[float], object]) -> bool:
        """Whether a number of a node is bad: a bad number is the program's own."""
        numbers = self.numbers(self.path.nodes[k])
        return any(isinstance(n, float) and bool(test(n)) for n in numbers)

    def _name(self, k: int) -> tuple[str, str, Site, str]:
        """(name, primitive, user's line, direction) of the node at position `k`."""
        path = self.path
        node = path.nodes[k]
        source: Source = source_of(path, k)
        if node.source is None:
            code, lasti = self.sites.get(source.at, (source.code, source.lasti))
            return source.name, node.prim.name, Site(code, lasti), "forward"
        site = (source.code, source.lasti)
        at = path.state_at(k)
        if at in self.passes and source.at >= 0:
            site = _site_in(*self.passes[at], source)
        elif source.code is None:  # then the line that has called for the backward pass
            site = self.sites.get(at, (path.states[at].code, path.states[at].lasti))
        elif source.at < path.n_states and path.states[source.at].code is source.code:
            site = self.sites.get(source.at, site)
        return source.grad_name, node.prim.name, Site(*site), "backward"

    def _told(self, k: int, kind: str) -> BadValue:
        node = self.path.nodes[k]
        name, inner, site, direction = self._name(k)
        finding = BadValue(kind, name, inner, direction, site)
        finding.exact = all(i in self.env for i in node.inputs) and self._is_proven()
        finding.operands = [
            facts_of(self.env[i], self._label(j, i))
            for j, i in enumerate(node.inputs)
            if i in self.env
        ]
        if not finding.exact:
            finding.suspects = self._suspects(k)
        column = 0 if kind == NAN else 1
        out = next((o for o in node.outputs if self.bad(o)[column] is not None), node.outputs[0])
        if out in self.env:
            finding.result = facts_of(self.env[out], f"of {inner}")
        finding.leaves = self._leaves_near(k)
        finding.note = self.fault
        return finding

    def _suspects(self, k: int) -> list[tuple[str, Site]]:
        """(name, line) of the ops before a node whose results are not known, nearest first."""
        rows: dict[tuple[str, int], tuple[str, Site]] = {}
        level, seen = [k], {k}
        while level and len(rows) < MOST_SUSPECTS:
            ids = [i for at in level for i in self.path.nodes[at].inputs if i not in self.env]
            level = sorted({self.path.producer[i] for i in ids if i in self.path.producer} - seen)
            seen.update(level)
            for at in reversed(level):
                name, _, site, _ = self._name(at)
                rows.setdefault((name, site.line), (name, site))
        return list(rows.values())[:MOST_SUSPECTS]

    def _entered(self, ends: list[int], kind: str) -> BadValue:
        """The finding for a bad value that no op of this path made."""
        i = ends[0]
        finding = BadValue(kind, "", direction="operand")
        finding.operands = [facts_of(self.env[i], self._label(0, i))]
        readers = [k for k, node in enumerate(self.path.nodes) if i in node.inputs]
        if readers:
            name, _, site, _ = self._name(readers[0])
            finding.site = site
            finding.note = f"first read by {name}"
        finding.leaves = [i]
        return finding

    def _label(self, j: int, i: int) -> str:
        """How an operand is called: number, and the op that made it."""
        k = self.path.producer.get(i)
        if k is None:
            return f"{j} (from outside of this path)"
        name, inner, site, _ = self._name(k)
        by = name if name == inner else f"{name}'s {inner}"
        return f"{j} (by {by}, line {site.line})"

    def _leaves_near(self, k: int) -> list[int]:
        """Leaves that the recorded op at `k` reads: a leaf tells the module."""
        path = self.path
        at = source_of(path, k).at
        if not 0 <= at < path.n_states:
            return []
        nodes = [path.nodes[k], *path.nodes_of(at)]
        return [i for node in nodes for i in node.inputs if i not in path.producer]
