"""Strings: ops that prepare text, run by Python on lists; no gradient passes through."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable
from typing import Any

import wend
from wend._engine.base.dtypes import DType
from wend._engine.base.errors import ArgumentError
from wend._engine.core._hot import Tensor
from wend.onnx.importing.registry import OpNode, op
from wend.onnx.importing.types import Carried, Text, dtype_of, element_of, plain, with_element


def _broadcast(a: Text, b: Text) -> tuple[list[str], list[str], tuple[int, ...]]:
    """The strings of both, side by side, and the common shape."""
    rank = max(len(a.shape), len(b.shape))
    shapes = [(1,) * (rank - len(t.shape)) + t.shape for t in (a, b)]
    shape = tuple(n if m == 1 else m for n, m in zip(*shapes))
    if any(n not in (1, whole) for own in shapes for n, whole in zip(own, shape)):
        raise ArgumentError(f"onnx: strings of shapes {a.shape} and {b.shape} do not broadcast")
    columns = []
    for text, own in zip((a, b), shapes):
        places = wend.arange(math.prod(own)).reshape(own).expand(shape).reshape(-1).tolist()
        columns.append([text.flat[int(i)] for i in places])
    return columns[0], columns[1], shape


def _as_tensor(values: Iterable[float], shape: tuple[int, ...], dtype: DType) -> Tensor:
    return wend.tensor(list(values), dtype=dtype).reshape(shape)


@op("Identity", on_text=True)
def identity(node: OpNode, x: Text) -> Text:
    """The input."""
    return x


@op("Equal", on_text=True)
def equal(node: OpNode, a: Text, b: Text) -> Tensor:
    """Whether strings are equal."""
    first, second, shape = _broadcast(a, b)
    return _as_tensor([x == y for x, y in zip(first, second)], shape, wend.bool)


@op("StringConcat", on_text=True)
def string_concat(node: OpNode, a: Text, b: Text) -> Text:
    """Strings joined, pair by pair."""
    first, second, shape = _broadcast(a, b)
    return Text([x + y for x, y in zip(first, second)], shape)


@op("RegexFullMatch", on_text=True)
def regex_full_match(node: OpNode, x: Text) -> Tensor:
    """Whether a pattern fits whole strings, by Python's syntax."""
    pattern = re.compile(node.get("pattern", ""))
    return _as_tensor([pattern.fullmatch(s) is not None for s in x.flat], x.shape, wend.bool)


@op("StringSplit", on_text=True)
def string_split(node: OpNode, x: Text) -> tuple[Text, Tensor]:
    """The parts of each string, filled up with empty strings, and how many there are."""
    parts = [s.split(node.get("delimiter") or None, node.get("maxsplit", -1)) for s in x.flat]
    most = max(map(len, parts), default=0)
    flat = [part for row in parts for part in (*row, *[""] * (most - len(row)))]
    return Text(flat, (*x.shape, most)), _as_tensor(map(len, parts), x.shape, wend.int64)


@op("StringNormalizer", on_text=True)
def string_normalizer(node: OpNode, x: Text) -> Text:
    """Strings without stop words, in upper or lower case."""
    stopped = node.get("stopwords", ())
    if node.get("is_case_sensitive", 0):
        kept = [s for s in x.flat if s not in stopped]
    else:
        lower = {word.lower() for word in stopped}
        kept = [s for s in x.flat if s.lower() not in lower]
    case = {"UPPER": str.upper, "LOWER": str.lower}.get(node.get("case_change_action", "NONE"))
    kept = [case(s) if case else s for s in kept] or [""]
    return Text(kept, (*x.shape[:-1], len(kept)))


def _listed(node: OpNode, what: str) -> tuple[list[Any], int]:
    """The keys or values of a LabelEncoder, and the element type."""
    for name, element in (("strings", 8), ("int64s", 7), ("floats", 1)):
        entries = node.get(f"{what}_{name}")
        if entries is not None:
            return list(entries), element
    value = node.get(f"{what}_tensor")
    flat = value.flat if isinstance(value, Text) else plain(value).reshape(-1).tolist()
    return flat, element_of(value)


@op("LabelEncoder", domain="ai.onnx.ml")
@op("LabelEncoder", domain="ai.onnx.ml", on_text=True)
def label_encoder(node: OpNode, x: Tensor | Carried | Text) -> Tensor | Carried | Text:
    """Each element by a table of keys and values."""
    keys, _ = _listed(node, "keys")
    values, element = _listed(node, "values")
    default = node.get("default_tensor")
    if default is None:
        names = {8: ("string", "_Unused"), 7: ("int64", -1), 1: ("float", -0.0)}
        name, usual = names.get(element, ("int64", 0))
        default = node.get(f"default_{name}", usual)
    elif isinstance(default, Text):
        default = default.flat[0]
    else:
        default = plain(default).reshape(-1).tolist()[0]
    table = dict(zip(keys, values))
    flat = x.flat if isinstance(x, Text) else plain(x).reshape(-1).tolist()
    labels = [table.get(key, default) for key in flat]
    if element == 8:
        return Text(labels, tuple(x.shape))
    return with_element(_as_tensor(labels, tuple(x.shape), dtype_of(element)), element)


@op("TfIdfVectorizer")
@op("TfIdfVectorizer", on_text=True)
def tf_idf_vectorizer(node: OpNode, x: Tensor | Text) -> Tensor:
    """How often each n-gram of a list occurs in the rows, weighted or not."""
    pool = node.get("pool_strings") or node.get("pool_int64s")
    starts, columns = node.get("ngram_counts"), node.get("ngram_indexes")
    known: dict[tuple[Any, ...], int] = {}
    bounds = [*starts, len(pool)]
    for n, (first, end) in enumerate(itertools.pairwise(bounds), 1):
        for place in range(first, end, n):
            known[tuple(pool[place : place + n])] = columns[len(known)]
    flat = x.flat if isinstance(x, Text) else x.reshape(-1).tolist()
    width = x.shape[-1] if x.shape else 1
    rows = [flat[i * width : (i + 1) * width] for i in range(math.prod(x.shape[:-1]))]
    size = max(columns) + 1
    counts = [_counted(node, row, known, size) for row in rows]
    result = wend.tensor(counts, dtype=wend.float32).reshape(*x.shape[:-1], size)
    weights, mode = node.get("weights"), node.get("mode")
    if mode == "TF":
        return result
    scale = wend.ones(size)
    if weights is not None:
        scale = scale.scatter(0, wend.tensor(list(columns)), wend.tensor(list(weights)))
    return (result > 0).float() * scale if mode == "IDF" else result * scale


def _counted(
    node: OpNode, row: list[Any], known: dict[tuple[Any, ...], int], size: int
) -> list[float]:
    """The numbers of known n-grams of a row, with gaps up to the allowed size."""
    counts = [0.0] * size
    for n in range(node.get("min_gram_length"), node.get("max_gram_length") + 1):
        for step in range(1, 2 + (node.get("max_skip_count") if n > 1 else 0)):
            for start in range(len(row) - (n - 1) * step):
                column = known.get(tuple(row[start : start + (n - 1) * step + 1 : step]))
                if column is not None:
                    counts[column] += 1
    return counts
