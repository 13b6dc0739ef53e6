"""Einstein summation, by pairwise contraction.

The equation is structure, parsed once.  The operands are contracted from left to right (a fixed
order: the best order would depend on sizes).  Letters are numbers here; the dims that an ellipsis
stands for are negative numbers, counted from the right, so that they align.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from wend._engine.base.dtypes import int64
from wend._engine.base.errors import ArgumentTypeError, ShapeError
from wend._engine.core.kinds import Size, Tensor
from wend._engine.core.primitive import Sample, composite, ops
from wend._engine.core.symbolic import hints
from wend._engine.ops.composites.products.contract import same_dtype
from wend._engine.ops.composites.products.product_nodes import einsum_nodes
from wend._engine.ops.gradient_nodes import NodeBuilder
from wend._engine.ops.numeric import NUMERIC

Labels = tuple[int, ...]
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_ELLIPSIS = 0  # label 0 stands for '...' until the rank of the operand is known


def parse_equation(equation: str) -> tuple[list[Labels], Labels | None]:
    """(labels of each operand, labels of the result or None) of "ij,jk->ik".

    Letter k of the alphabet becomes k + 1, '...' becomes 0. Raises ShapeError.
    """
    text = equation.replace(" ", "")
    left, arrow, right = text.partition("->")
    if "->" in right:
        raise ShapeError(f"einsum: equation {equation!r} has more than one '->'")
    operands = [_parse_term(equation, term) for term in left.split(",")]
    return operands, _parse_term(equation, right) if arrow else None


def _parse_term(equation: str, term: str) -> Labels:
    labels: list[int] = []
    for token in re.findall(r"\.\.\.|.", term):
        if token == "...":
            if _ELLIPSIS in labels:
                raise ShapeError(f"einsum: more than one '...' in {term!r} of {equation!r}")
            labels.append(_ELLIPSIS)
        elif token in LETTERS:
            labels.append(LETTERS.index(token) + 1)
        else:
            raise ShapeError(
                f"einsum: found {token!r} in {equation!r}; "
                "subscripts must be letters in [a-zA-Z], '...', ',' or '->'"
            )
    return tuple(labels)


def name_of(label: int) -> str:
    """How a label reads in messages."""
    return LETTERS[label - 1] if 0 < label <= 52 else f"ellipsis dim {label}"


def _spelled(labels: Labels, rank: int, operand: int) -> Labels:
    """Labels with the ellipsis replaced by a negative label per dim that it covers."""
    named = sum(1 for label in labels if label != _ELLIPSIS)
    if _ELLIPSIS not in labels:
        if named != rank:
            raise ShapeError(
                f"einsum: the number of subscripts in the equation ({named}) does not match the "
                f"number of dimensions ({rank}) for operand {operand} and no ellipsis was given"
            )
        return labels
    if named > rank:
        raise ShapeError(
            f"einsum: the number of subscripts in the equation ({named}) is more than the number "
            f"of dimensions ({rank}) for operand {operand}"
        )
    covered = tuple(range(named - rank, 0))
    at = labels.index(_ELLIPSIS)
    return labels[:at] + covered + labels[at + 1 :]


def _implied_output(operands: list[Labels]) -> Labels:
    """Without '->': the ellipsis, then the letters that appear once, sorted (a-z after A-Z)."""
    everything = [label for labels in operands for label in labels]
    once = [label for label in set(everything) if label > 0 and everything.count(label) == 1]
    covered = sorted({label for label in everything if label < 0})
    return (*covered, *sorted(once, key=name_of))


def _output(equation: str, output: Labels | None, operands: list[Labels]) -> Labels:
    if output is None:
        return _implied_output(operands)
    everything = {label for labels in operands for label in labels}
    covered = tuple(sorted(label for label in everything if label < 0))
    out: list[int] = []
    for label in output:
        if label == _ELLIPSIS:
            out += covered
            continue
        if label in out:
            raise ShapeError(
                f"einsum: output subscript {name_of(label)} appears more than once in {equation!r}"
            )
        if label not in everything:
            raise ShapeError(
                f"einsum: output subscript {name_of(label)} does not appear in the equation for "
                f"any input operand: {equation!r}"
            )
        out.append(label)
    return tuple(out)


def _without_repeats(x: Tensor, labels: Labels, operand: int) -> tuple[Any, Labels]:
    """x with the diagonal taken of dims that share a label."""
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            i = labels.index(label)
            j = labels.index(label, i + 1)
            if x.shape[i] != x.shape[j]:
                raise ShapeError(
                    f"einsum: subscript {name_of(label)} is repeated for operand {operand} but "
                    f"the sizes don't match, {x.shape[j]} != {x.shape[i]}"
                )
            x = ops.diagonal(x, 0, i, j)  # the diagonal becomes the last dim
            labels = tuple(n for k, n in enumerate(labels) if k not in (i, j)) + (label,)
    return x, labels


def _common_extents(operands: list[tuple[Any, Labels]]) -> dict[int, Any]:
    """The extent of each label; extents of 1 broadcast. Raises ShapeError."""
    extents: dict[int, Any] = {}
    for k, (x, labels) in enumerate(operands):
        for label, n in zip(labels, x.shape, strict=True):
            known = extents.get(label)
            if known is None or (known is not n and known != n and known == 1):
                extents[label] = n
            elif known is not n and known != n and n != 1:
                raise ShapeError(
                    f"einsum: subscript {name_of(label)} has size {n} for operand {k} (shape "
                    f"{hints(x.shape)}) which does not broadcast with previously seen size {known}"
                )
    return extents


def _drop_singles(x: Tensor, labels: Labels, extents: dict[int, Any]) -> tuple[Any, Labels]:
    """x without the dims of size 1 that stand for a label of another extent."""
    single = [i for i, label in enumerate(labels) if _is_single(x.shape[i], extents[label])]
    if not single:
        return x, labels
    return ops.squeeze(x, tuple(single)), tuple(
        label for i, label in enumerate(labels) if i not in single
    )


def _is_single(n: Size, extent: Size) -> bool:
    return bool(n is not extent and n != extent and n == 1)


def _sum_out(x: Tensor, labels: Labels, needed: set[int]) -> tuple[Any, Labels]:
    """x summed over the labels that nothing else needs."""
    drop = tuple(i for i, label in enumerate(labels) if label not in needed)
    if not drop:
        return x, labels
    # Ints become int64 here and not in products, as in PyTorch.
    return ops.sum(x, drop), tuple(label for label in labels if label in needed)


def _contract(a: tuple[Any, Labels], b: tuple[Any, Labels], needed: set[int]) -> tuple[Any, Labels]:
    """The product of two labelled tensors, summed over the labels that nothing else needs."""
    x, of_x = _sum_out(*a, needed | set(b[1]))
    y, of_y = _sum_out(*b, needed | set(of_x))
    if x.dtype is not y.dtype:
        x, y = ops.cast(x, int64), ops.cast(y, int64)
    shared = [label for label in of_x if label in of_y]
    batch = [label for label in shared if label in needed]
    summed = [label for label in shared if label not in needed]
    free_x = [label for label in of_x if label not in shared]
    free_y = [label for label in of_y if label not in shared]
    if not summed and not (free_x and free_y):
        return _multiply(x, of_x, y, of_y)
    out = ops.contract(
        x,
        y,
        tuple(of_x.index(label) for label in summed),
        tuple(of_y.index(label) for label in summed),
        tuple(of_x.index(label) for label in batch),
        tuple(of_y.index(label) for label in batch),
    )
    return out, (*batch, *free_x, *free_y)


def _multiply(x: Tensor, of_x: Labels, y: Tensor, of_y: Labels) -> tuple[Any, Labels]:
    """Nothing to sum, and either operand holds all labels: an elementwise product."""
    if len(of_x) < len(of_y):
        x, of_x, y, of_y = y, of_y, x, of_x
    order = tuple(of_y.index(label) for label in of_x if label in of_y)
    y = ops.permute(y, order) if order != tuple(range(len(order))) else y
    for i, label in enumerate(of_x):
        if label not in of_y:
            y = ops.unsqueeze(y, i)
    return ops.mul(x, y), of_x


def _arranged(x: Tensor, labels: Labels, out: Labels, extents: dict[int, Any]) -> Tensor:
    """x with dims in the order of `out`; a label that x lost (extent 1) comes back."""
    order = tuple(labels.index(label) for label in out if label in labels)
    if order != tuple(range(len(order))):
        x = ops.permute(x, order)
    for i, label in enumerate(out):
        if label not in labels:
            x = ops.unsqueeze(x, i)
    return x


def _nodes(n: NodeBuilder, equation: str, operands: list[Any]) -> object:
    """The nodes of at most two operands; for more, PyTorch's order depends on the installation."""
    if len(operands) > 2:
        return None
    terms, output = parse_equation(equation)
    labels = [_spelled(own, x.rank, 0) for own, x in zip(terms, operands, strict=True)]
    out = _output(equation, output, labels)
    rest = sorted({label for own in labels for label in own} - set(out), key=name_of)
    return einsum_nodes(n, operands, labels, out, rest)


def _einsum_samples(rng: np.random.Generator) -> Iterator[Sample]:
    def sample(equation: str, *shapes: tuple[int, ...]) -> Sample:
        return Sample(equation, *(rng.normal(size=s) for s in shapes))

    yield sample("ij,jk->ik", (2, 3), (3, 4))
    yield sample("ij,jk", (2, 3), (3, 4))
    yield sample("bij,bjk->bik", (5, 2, 3), (5, 3, 4))
    yield sample("...ij,...jk->...ik", (5, 1, 2, 3), (6, 3, 4))
    yield sample("ii->i", (3, 3))
    yield sample("ii", (3, 3))
    yield sample("ij->ji", (2, 3))
    yield sample("i,j->ij", (2,), (3,))
    yield sample("i,i->", (3,), (3,))
    yield sample("ij,ij->ij", (2, 3), (2, 3))
    yield sample("bn,anm,bm->ba", (2, 3), (5, 3, 4), (2, 4))
    yield sample("ij,j", (2, 1), (3,))
    yield sample("iij,jkk->ik", (2, 2, 3), (3, 4, 4))
    yield sample("ijk->", (2, 3, 4))
    yield sample(",i->i", (), (3,))
    yield sample("ij,jk->ik", (2, 0), (0, 4))


@composite(
    functions=("einsum",),
    samples=_einsum_samples,
    supports=NUMERIC,
    grad_nodes=_nodes,
)
def einsum(equation: str, operands: Sequence[Tensor]) -> Tensor:
    """y = sum of products of the operands' elements over the letters not in the output.

    equation: "ij,jk->ik"; without '->' the output has the letters that appear once, sorted.
    '...' stands for dims that broadcast; a repeated letter takes the diagonal.
    Raises ShapeError for a malformed equation or operands that do not fit the equation.
    """
    operands = list(operands)
    terms, output = parse_equation(equation)
    if len(terms) != len(operands):
        raise ShapeError(
            f"einsum: {equation!r} has {len(terms)} operands, but {len(operands)} were provided"
        )
    same_dtype("einsum", *operands)
    spelled = [
        _spelled(labels, len(x.shape), k)
        for k, (labels, x) in enumerate(zip(terms, operands, strict=True))
    ]
    out = _output(equation, output, spelled)
    todo = [
        _without_repeats(x, labels, k)
        for k, (x, labels) in enumerate(zip(operands, spelled, strict=True))
    ]
    extents = _common_extents(todo)
    todo = [_drop_singles(x, labels, extents) for x, labels in todo]
    done = todo[0]
    for k in range(1, len(todo)):
        needed = set(out).union(*(labels for _, labels in todo[k + 1 :]))
        done = _contract(done, todo[k], needed)
    x, labels = _sum_out(*done, set(out))
    return _arranged(x, labels, out, extents)


def equation_of(operands: tuple[Any, ...]) -> tuple[str, tuple[Any, ...]]:
    """The equation that einsum(x, [0, 1], y, [1, 2], [0, 2]) means, and the tensors.

    Raises ArgumentTypeError for a malformed sublist.
    """
    tensors = operands[: len(operands) // 2 * 2 : 2]
    lists = [*operands[1::2], *([operands[-1]] if len(operands) % 2 else [])]
    terms = []
    for row in lists:
        if not isinstance(row, (list, tuple)):
            raise ArgumentTypeError("einsum: expected subscript lists after each operand")
        term = ""
        for item in row:
            if item is not Ellipsis and not (isinstance(item, int) and 0 <= item < 52):
                raise ArgumentTypeError(
                    f"einsum: expected subscripts to be in [0, 52) or Ellipsis, but got {item!r}"
                )
            term += "..." if item is Ellipsis else LETTERS[item]
        terms.append(term)
    if len(operands) % 2:
        return ",".join(terms[:-1]) + "->" + terms[-1], tensors
    return ",".join(terms), tensors


def _of_lists(positional: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """Calls whose equation is spelled as lists of numbers, a list after each operand."""
    if not positional or isinstance(positional[0], str) or "equation" in keywords:
        return NotImplemented
    equation, tensors = equation_of(positional)
    return einsum(equation, list(tensors))


einsum.general = _of_lists
