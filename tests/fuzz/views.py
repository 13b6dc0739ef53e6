"""Views, joins and selections, of floats mostly."""

from __future__ import annotations

from dataclasses import replace

from expressions import nested
from scope import OPAQUE, Dims, Scope, Value, plus, shape_text, times


def any_value(s: Scope, rank: int) -> Value:
    """A variable of at least some rank: floats mostly, as they are (a view shows their memory)."""
    found = s.find(lambda v: len(v.dims) >= rank and (v.is_float or s.chance(4)))
    return found or s.leaf(s.dims(max(rank, s.pick((2, 1, 3)))))


def _view(x: Value, text: str, dims: Dims, writable: bool = True) -> Value:
    return replace(x, text=text, dims=dims, writable=x.writable and writable)


def view(s: Scope) -> Value:
    """A view, by a method or by a subscript."""
    return s.pick((subscript, subscript, turned, reshaped, part))(s)


def subscript(s: Scope) -> Value:
    """x[...]."""
    x = any_value(s, 1)
    items: list[str] = []
    dims: list[str] = []
    for d in x.dims[: s.integer(1, len(x.dims))]:
        kind = s.integer(0, 6)
        if kind == 0:
            items.append(s.pick(("0", "-1", "0")))
            continue
        if kind == 4:
            items.append("None")
            dims.append("1")
        items.append({1: "1:", 2: ":-1", 3: "::2"}.get(kind, ":"))
        if kind in (1, 2):
            dims.append(str(max(int(d) - 1, 0)) if d.isdigit() else f"({d} - 1)")
        elif kind == 3:
            dims.append(str((int(d) + 1) // 2) if d.isdigit() else f"(({d} + 1) // 2)")
        else:
            dims.append(d)
    rest = x.dims[len([i for i in items if i != "None"]) :]
    if rest and s.chance(4):
        items.append("...")
    return _view(x, f"{x.text}[{', '.join(items)}]", (*dims, *rest))


def turned(s: Scope) -> Value:
    """Dims in another order, more of them, or fewer."""
    x = any_value(s, 2)
    rank = len(x.dims)
    kind = s.integer(0, 5)
    a, b = s.integer(0, rank - 1), s.integer(0, rank - 1)
    dims = list(x.dims)
    if kind == 0:
        dims[a], dims[b] = dims[b], dims[a]
        return _view(x, f"{x.text}.transpose({a}, {b - rank})", tuple(dims))
    if kind == 1:
        order = list(range(rank))
        order = order[a:] + order[:a]
        return _view(x, f"{x.text}.permute({order})", tuple(dims[i] for i in order))
    if kind == 2:
        dims.insert(a, "1")
        return _view(x, f"{x.text}.unsqueeze({a})", tuple(dims))
    if kind == 3:
        ones = [i for i, d in enumerate(dims) if d == "1"]
        if ones:
            return _view(
                x, f"{x.text}.squeeze({ones[0]})", (*dims[: ones[0]], *dims[ones[0] + 1 :])
            )
        return _view(x, f"{x.text}.mT", (*dims[:-2], dims[-1], dims[-2]))
    if kind == 4:
        size = s.pick(("2", "n", "3"))
        shape = (size, *(s.pick(("-1", d)) for d in dims))
        return _view(x, f"{x.text}.expand({', '.join(shape)})", (size, *dims), writable=False)
    dims.insert(b, dims.pop(a))
    return _view(x, f"torch.movedim({x.text}, {a}, {b})", tuple(dims))


def reshaped(s: Scope) -> Value:
    """The same elements in another shape: a view where the memory allows it."""
    x = any_value(s, 1)
    kind = s.integer(0, 4)
    total = "1"
    for d in x.dims:
        total = times(total, d)
    if kind == 0:
        return replace(_view(x, f"{x.text}.reshape(-1)", (total,)), writable=False)
    if kind == 1 and len(x.dims) > 1:
        i = s.integer(0, len(x.dims) - 2)
        dims = (*x.dims[:i], times(x.dims[i], x.dims[i + 1]), *x.dims[i + 2 :])
        return _view(x, f"{x.text}.flatten({i}, {i + 1})", dims, writable=False)
    if kind == 2:
        parts = {"4": ("2", "2"), "6": ("2", "3")}
        where = [i for i, d in enumerate(x.dims) if d in parts]
        if where:
            i = where[0]
            dims = (*x.dims[:i], *parts[x.dims[i]], *x.dims[i + 1 :])
            return _view(x, f"{x.text}.unflatten({i}, {shape_text(parts[x.dims[i]])})", dims)
    dims = (x.dims[-1], *x.dims[:-1]) if kind == 3 else (total, "1")
    way = "view" if s.chance(8) else "reshape"
    return _view(x, f"{x.text}.{way}({', '.join(dims)})", dims, writable=False)


def part(s: Scope) -> Value:
    """A piece: select, narrow, diagonal, one of several."""
    x = any_value(s, 1)
    d = s.integer(0, len(x.dims) - 1)
    fewer = (*x.dims[:d], *x.dims[d + 1 :])
    kind = s.integer(0, 5)
    if x.dims[d] in ("0", "n", "m") and not s.chance(3):
        kind = 4
    if kind == 0:
        return _view(x, f"{x.text}.select({d}, 0)", fewer)
    if kind == 1:
        return _view(x, f"{x.text}.narrow({d}, 0, 1)", (*x.dims[:d], "1", *x.dims[d + 1 :]))
    if kind == 2:
        return _view(x, f"{x.text}.unbind({d})[0]", fewer, writable=False)
    if kind == 3 and x.dims[d] in ("4", "6"):
        half = str(int(x.dims[d]) // 2)
        dims = (*x.dims[:d], half, *x.dims[d + 1 :])
        which = s.pick(("chunk(2", f"split({half}", "tensor_split(2"))
        return _view(x, f"{x.text}.{which}, {d})[1]", dims, writable=False)
    if kind == 4 and len(x.dims) == 2 and x.dims[0] == x.dims[1]:
        return _view(x, f"{x.text}.diagonal()", x.dims[:1])
    if kind == 5:
        return _view(x, f"{x.text}.unfold({d}, 1, 1)", (*x.dims, "1"))
    return _view(x, f"{x.text}.view_as({x.text})", x.dims)


def join(s: Scope) -> Value:
    """cat, stack, repeat."""
    x = nested(s)
    kind = s.integer(0, 4)
    if kind == 0 or not x.dims:
        y = s.find(lambda v: v.dims == x.dims and v.dtype == x.dtype) or s.leaf(x.dims, x.dtype)
        d = s.integer(0, len(x.dims))
        dims = (*x.dims[:d], "2", *x.dims[d:])
        text = f"torch.stack([{x.text}, {y.text}], {d})"
        return Value(text, x.dtype, dims, max(x.bound, y.bound), x.grad or y.grad)
    d = s.integer(0, len(x.dims) - 1)
    before, after = x.dims[:d], x.dims[d + 1 :]
    if kind in (1, 2):
        y = s.find(
            lambda v: v.dtype == x.dtype and len(v.dims) == len(x.dims)
            and v.dims[:d] == before and v.dims[d + 1 :] == after
        ) or s.leaf((*before, s.pick(("2", "n", "0")), *after), x.dtype)  # fmt: skip
        text = f"torch.cat([{x.text}, {y.text}, {x.text}], dim={d})"
        dims = (*before, plus(plus(x.dims[d], y.dims[d]), x.dims[d]), *after)
        return Value(text, x.dtype, dims, max(x.bound, y.bound), x.grad or y.grad)
    twice = (*before, times("2", x.dims[d]), *after)
    if kind == 3:
        return _own(x, f"{x.text}.repeat_interleave(2, dim={d})", twice)
    counts = ", ".join("2" if i == d else "1" for i in range(len(x.dims)))
    return _own(x, f"{x.text}.repeat({counts})", twice)


def _own(x: Value, text: str, dims: Dims) -> Value:
    return replace(x, text=text, dims=dims, leaf=False, storage=-1, writable=True)


def selection(s: Scope) -> Value:
    """Elements picked by indices or masks."""
    x = any_value(s, 1)
    d = s.integer(0, len(x.dims) - 1)
    before, size, after = x.dims[:d], x.dims[d], x.dims[d + 1 :]
    kind = s.integer(0, 7)
    count = s.pick(("3", "n", "1"))
    if kind == 0:
        index = s.index((count,), size)
        return _own(x, f"{x.text}.index_select({d}, {index.text})", (*before, count, *after))
    if kind == 1:
        index = s.index((*before, count, *after), size)
        return _own(x, f"{x.text}.gather({d}, {index.text})", index.dims)
    if kind == 2:
        index = s.index(("2", count), x.dims[0])
        return _own(x, f"{x.text}[{index.text}]", ("2", count, *x.dims[1:]))
    if kind == 3 and len(x.dims) > 1:
        i, j = s.index((count,), x.dims[0]), s.index((count,), x.dims[1])
        return _own(x, f"{x.text}[{i.text}, {j.text}]", (count, *x.dims[2:]))
    if kind == 4:
        mask = s.leaf(x.dims[: s.integer(1, len(x.dims))], "bool")
        rest = x.dims[len(mask.dims) :]
        return _own(x, f"{x.text}[{mask.text}]", (OPAQUE, *rest))
    if kind == 5 and len(x.dims) > 1:
        index = s.index((count,), x.dims[1])
        return _own(x, f"{x.text}[:, {index.text}]", (x.dims[0], count, *x.dims[2:]))
    if kind == 6 and len(x.dims) > 1:
        return _own(x, f"torch.{s.pick(('tril', 'triu'))}({x.text}, {s.integer(-1, 1)})", x.dims)
    index = s.index(x.dims, size)
    return _own(x, f"torch.take_along_dim({x.text}, {index.text}, {d})", x.dims)


def scattered(s: Scope) -> Value:
    """Elements put where indices say."""
    x = nested(s)
    if not x.dims:
        return _own(x, f"{x.text}.clone().reshape(1, 1)", ("1", "1"))
    d = s.integer(0, len(x.dims) - 1)
    kind = s.integer(0, 3)
    source = s.find(lambda v: v.dims == x.dims and v.dtype == x.dtype) or s.leaf(x.dims, x.dtype)
    grad = x.grad or source.grad
    bound = x.bound + 4 * source.bound
    if kind == 0:
        index = s.index(x.dims[d : d + 1], x.dims[d])
        text = f"{x.text}.index_add({d}, {index.text}, {source.text})"
    elif kind == 1:
        index = s.index(x.dims, x.dims[d])
        text = f"{x.text}.scatter_add({d}, {index.text}, {source.text})"
    elif kind == 2:
        index = s.index(x.dims[d : d + 1], x.dims[d])
        text = f"{x.text}.index_fill({d}, {index.text}, 0.5)"
        grad = x.grad
    else:
        index = s.index(x.dims[:1], x.dims[0])
        text = f"torch.index_put({x.text}, ({index.text},), {source.text}, accumulate=True)"
    return replace(_own(x, text, x.dims), grad=grad, bound=bound)


def shaped(s: Scope) -> Value:
    """Sizes as numbers: they are no structure."""
    x = s.a_float()
    rank = len(x.dims)
    number = f"{x.text}.shape[{s.integer(0, rank - 1)}]" if rank else f"{x.text}.numel()"
    text = s.pick((f"({x.text} / (1 + {number}))", f"({x.text} + {number} * 0.1)"))
    if s.chance(3):
        return Value(f"torch.arange({number}, dtype=torch.{x.dtype})", x.dtype, (OPAQUE,), 9)
    return replace(x, text=text, leaf=False, storage=-1, writable=True, bound=x.bound + 1)
