"""Expressions without side effects: arithmetic, reductions, contractions, layers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from scope import INTS, LOW, Scope, Value, broadcast, promote, shape_text

# A number as bound is the result's; None means: as the operand's.
# fmt: off
SMOOTH: tuple[tuple[str, float | None], ...] = (
    ("torch.tanh({x})", 1), ("torch.sigmoid({x})", 1), ("torch.sin({x})", 1), ("{x}.cos()", 1),
    ("torch.atan({x})", 2), ("torch.erf({x})", 1), ("torch.exp({x} * 0.25)", 20),
    ("torch.exp(-{x} * {x})", 1), ("torch.sqrt({x} * {x} + 1)", None),
    ("torch.rsqrt({x} * {x} + 1)", 1), ("torch.log1p({x} * {x})", None),
    ("torch.reciprocal({x} * {x} + 1)", 1), ("F.softplus({x})", None), ("F.silu({x})", None),
    ("F.gelu({x})", None), ("F.gelu({x}, approximate='tanh')", None), ("torch.square({x})", 40),
    ("({x} ** 2)", 40), ("({x} ** 3)", 60), ("(({x} * {x} + 1) ** 0.5)", None), ("(-{x})", None),
    ("(1 - {x})", None), ("({x} * 0.5)", None), ("({x} + 1)", None), ("({x} / 3)", None),
    ("(2 / ({x} * {x} + 1))", 2), ("torch.sinh({x} * 0.25)", 20), ("torch.expm1({x} * 0.25)", 20),
    ("torch.log({x} * {x} + 0.5)", 5), ("F.logsigmoid({x})", None), ("F.mish({x})", None),
    ("torch.asinh({x})", None), ("(1.5 ** ({x} * 0.5))", 40), ("{x}.neg()", None),
    ("{x}.clone()", None), ("torch.rsub({x}, 2, alpha=0.5)", None), ("{x}.mul(True)", None),
    ("torch.add({x}, 1, alpha=0.5)", None), ("{x}.float().to(torch.float64)", None),
)
KINKED: tuple[tuple[str, float | None], ...] = (
    ("torch.abs({x})", None), ("torch.relu({x})", None), ("F.leaky_relu({x}, 0.1)", None),
    ("{x}.clamp(-0.5, 0.75)", 1), ("torch.clamp({x}, min=0.25)", None),
    ("{x}.clamp(max=0.25)", None),
    ("F.hardtanh({x})", 1), ("F.hardsigmoid({x})", 1), ("F.hardswish({x})", None),
    ("F.elu({x})", None), ("F.selu({x})", None), ("F.celu({x}, 0.5)", None), ("F.relu6({x})", 6),
    ("F.softshrink({x})", None), ("F.softsign({x})", 1), ("{x}.abs().sqrt()", None),
)
JUMPING: tuple[tuple[str, float | None], ...] = (
    ("{x}.floor()", None), ("torch.ceil({x})", None), ("torch.round({x})", None),
    ("{x}.trunc()", None), ("torch.sign({x})", 1), ("{x}.frac()", 1), ("F.hardshrink({x})", None),
    ("F.threshold({x}, 0.1, -1.0)", None), ("torch.fmod({x}, 0.7)", 1), ("({x} % 0.7)", 1),
    ("({x} // 0.7)", None), ("torch.remainder({x}, -0.7)", 1),
    ("torch.nan_to_num({x}.log(), nan=0.5)", 8),
)
SMOOTH_PAIRS: tuple[tuple[str, Callable[[float, float], float]], ...] = (
    ("({x} + {y})", lambda a, b: a + b), ("({x} - {y})", lambda a, b: a + b),
    ("({x} * {y})", lambda a, b: a * b), ("({x} / ({y} * {y} + 1))", lambda a, b: a),
    ("torch.add({x}, {y}, alpha=0.5)", lambda a, b: a + b),
    ("({x} * {y} + {x})", lambda a, b: a * b + a),
    ("torch.hypot({x}, {y} * {y} + 1)", lambda a, b: a + b * b),
    ("torch.atan2({x}, {y} * {y} + 1)", lambda a, b: 2), ("torch.lerp({x}, {y}, 0.25)", max),
    ("torch.logaddexp({x}, {y})", lambda a, b: max(a, b) + 1),
    ("torch.sub({x}, {y}, alpha=2)", lambda a, b: a + 2 * b),
    ("torch.where({m}, {x}, {y})", max), ("torch.where({m}, {x}, 0.5)", max),
    ("{x}.masked_fill({m}, 0.25)", max),
    ("(({y} * {y} + 1) ** {x}.tanh())", lambda a, b: b * b + 1),
    ("torch.addcmul({x}, {y}, {y}, value=0.5)", lambda a, b: a + b * b),
)
KINKED_PAIRS = ("torch.maximum({x}, {y})", "torch.minimum({x}, {y})", "torch.fmax({x}, {y})",
                "torch.where({x} > {y}, {x}, {y})", "torch.fmin({x}, {y})")
JUMPING_PAIRS = ("torch.fmod({x}, {y}.abs() + 0.5)", "torch.where({x} > {y}, {x}, {y} * 0.5)",
                 "({x} % ({y}.abs() + 0.5))", "torch.copysign({x}, {y})")
COMPARISONS = ("({x} > {y})", "({x} <= {y})", "torch.lt({x}, {y})", "torch.ge({x}, {y})",
               "torch.isclose({x}, {y})", "({x} != {y})", "torch.logical_and({x} > 0, {y} > 0)")
INTEGER_PAIRS = ("({x} + {y})", "({x} - {y})", "({x} * {y})", "({x} & {y})", "({x} | {y})",
                 "({x} ^ {y})", "torch.maximum({x}, {y})", "torch.where({x} > {y}, {x}, {y})",
                 "({x} // ({y} * {y} + 1))", "({x} % ({y} * {y} + 1))")
INTEGER_UNARY = ("({x} * 2)", "({x} + 1)", "({x} // 2)", "({x} % 3)", "({x} >> 1)", "(~{x})",
                 "{x}.clamp(0, 2)", "({x} ** 2)", "{x}.square()", "(3 - {x})")
# fmt: on


def unary(s: Scope) -> Value:
    """A smooth function of floats, or of ints."""
    x = s.a_float() if s.depth else nested(s)
    text, bound = s.pick(SMOOTH)
    if "float64" in text:
        s.dtypes.add("float32")
        x = replace(x, dtype="float64")
    return _new(x, text.format(x=x.text), bound=x.bound + 2 if bound is None else bound)


def kinked(s: Scope) -> Value:
    """A function with a kink or a jump, of values away from it."""
    x = s.steady(s.a_float())
    # In 16 bits, numbers lie on the jumps.
    text, bound = s.pick(KINKED if s.low or s.chance(2) else JUMPING)
    return _new(x, text.format(x=x.text), bound=x.bound + 2 if bound is None else bound)


def _new(x: Value, text: str, **changes: object) -> Value:
    """A value of its own that has the type of x, but for the changes."""
    return replace(x, text=text, leaf=False, storage=-1, writable=True, **changes)  # type: ignore[arg-type]


def nested(s: Scope) -> Value:
    """A variable, or now and then an expression that nobody else holds."""
    if not s.chance(3):
        return s.a_float()
    s.depth += 1
    found = s.tame(s.pick((unary, pair))(s))
    s.depth -= 1
    return found


def partner(s: Scope, x: Value) -> Value:
    """A float that broadcasts with x."""
    found = s.find(lambda v: v.is_float and broadcast(x.dims, v.dims) is not None)
    if found is None or s.chance(4):
        found = s.leaf(s.part_of(x.dims))
    return s.tame(found)


def _both(s: Scope, x: Value, y: Value, text: str, bound: float) -> Value:
    dims = broadcast(x.dims, y.dims)
    assert dims is not None
    if "{m}" in text:
        text = text.replace("{m}", s.mask(dims).text)
    if "{y}" not in text:
        dims = broadcast(x.dims, dims) or dims
        text = text.replace("{x}", "({x} + {y})")
    return Value(
        text.format(x=x.text, y=y.text), promote(x, y), dims, bound, x.grad or y.grad
    )  # fmt: skip


def pair(s: Scope) -> Value:
    """A smooth function of two floats."""
    x = s.a_float() if s.depth else nested(s)
    y = partner(s, x)
    text, bound = s.pick(SMOOTH_PAIRS)
    if x.dtype != y.dtype and "lerp" in text:
        text = "({x} + {y})"
    return _both(s, x, y, text, bound(x.bound, y.bound))


def kinked_pair(s: Scope) -> Value:
    """A function of the order of two floats."""
    x = s.a_float()
    y = partner(s, x)
    x, y = s.steady(x), s.steady(y)
    text = s.pick(KINKED_PAIRS if s.low or s.chance(2) else JUMPING_PAIRS)
    return _both(s, x, y, text, max(x.bound, y.bound))


def comparison(s: Scope) -> Value:
    """Booleans."""
    x = s.a_float()
    y = partner(s, x)
    text = s.pick(COMPARISONS)
    if x.dtype != y.dtype and "close" in text:
        text = "({x} > {y})"
    found = _both(s, s.steady(x), s.steady(y), text, 1)
    return replace(found, dtype="bool", grad=False)


def _integer(s: Scope) -> Value:
    found = s.find(lambda v: v.dtype in INTS)
    return found or s.leaf(dtype=s.pick(INTS))


def integer(s: Scope) -> Value:
    """Arithmetic of ints, which wraps around."""
    x = _integer(s)
    if s.chance(2):
        y = s.find(lambda v: v.dtype in INTS and broadcast(x.dims, v.dims) is not None)
        y = y or s.leaf(s.part_of(x.dims), s.pick(INTS))
        return replace(_both(s, x, y, s.pick(INTEGER_PAIRS), 99), grad=False)
    return _new(x, s.pick(INTEGER_UNARY).format(x=x.text))


def mixed(s: Scope) -> Value:
    """Floats with ints or booleans."""
    x = s.a_float()
    y = s.find(lambda v: not v.is_float and broadcast(x.dims, v.dims) is not None)
    y = y or s.leaf(s.part_of(x.dims), s.pick((*INTS, "bool")))
    text = s.pick(
        ("({x} + {y})", "({x} * {y})", "(2 * {y} - {x})", "torch.where({y} > 0, {x}, 1.0)")
    )
    if y.dtype == "uint8" or y.bound > 9:
        y = replace(y, text=f"({y.text} % 3)")
    return replace(_both(s, x, y, text, x.bound * 3), dtype=x.dtype if x.dims else promote(x, y))


def cast(s: Scope) -> Value:
    """Another dtype."""
    if s.chance(3):
        x = _integer(s)
        dtype = s.pick((*INTS, "bool", "float32"))
        return _new(x, f"{x.text}.to(torch.{dtype})", dtype=dtype)
    x = s.a_float()
    if s.chance(3):
        x = s.steady(x)
        dtype = s.pick(("int64", "int32", "bool"))
        return _new(x, f"{x.text}.to(torch.{dtype})", dtype=dtype, grad=False)
    dtype = s.pick(s.floats)
    return replace(x, text=f"{x.text}.to(torch.{dtype})", dtype=dtype, leaf=False, writable=False)


def reduction(s: Scope) -> Value:
    """A sum, mean, variance or the like, over some dims or all."""
    x = s.a_float()
    text = s.pick(
        ("{x}.sum({d})", "{x}.mean({d})", "torch.logsumexp({x}, {a})", "(0.5 * {x} + 1).prod({o})",
         "{x}.var({a}, correction=0{k})", "{s}.amax({a})", "{s}.amin({a})",
         "{s}.std({a}, correction=0)",
         "{s}.max({o}).values", "{s}.min({o}, True)[0].squeeze({o})", "{s}.norm()",
         "{s}.median({o}).values", "torch.linalg.vector_norm({s}, dim={a})", "{x}.nansum({d})")
    )  # fmt: skip
    rank = len(x.dims)
    if "{s}" in text:
        x = s.steady(x)
    text = text.replace("{s}", "{x}")
    keep = s.chance(3)
    single = "{o}" in text
    if text.endswith("norm()") or ("{d}" in text and s.chance(3)) or rank == 0:
        if single or "{a}" in text:
            text = s.pick(("{x}.sum()", "{x}.mean()"))
        return _new(x, text.format(x=x.text, d=""), dims=(), bound=x.bound * 30)
    axes = sorted({s.integer(0, rank - 1) for _ in range(1 if single else s.pick((1, 1, 2, 3)))})
    shown = [a - rank if s.chance(3) else a for a in axes]
    which = str(shown[0]) if len(axes) == 1 else str(tuple(shown))
    keeps = ", keepdim=True" if keep else ""
    if single:
        keep = False
    elif "{k}" not in text and "{d}" not in text:
        text = text[:-1] + keeps + ")"
    dims = tuple(("1" if i in axes else d) for i, d in enumerate(x.dims) if keep or i not in axes)
    bound = x.bound * (30 if "sum" in text or "norm" in text else 1) + 4
    text = text.format(x=x.text, d=which + keeps, a=which, k=keeps, o=which)
    return _new(x, text, dims=dims, bound=100 if "prod" in text else bound)


def along(s: Scope) -> Value:
    """A function along a dim that keeps the shape."""
    x = s.a_float()
    if not x.dims:
        return _new(x, f"torch.softmax({x.text}, 0)", bound=1)
    text, bound = s.pick(
        (("torch.softmax({x}, {d})", 1), ("F.log_softmax({x}, {d})", 9), ("{x}.cumsum({d})", 40),
         ("(1 + {x} * 0.1).cumprod({d})", 9), ("torch.logcumsumexp({x}, {d})", 30),
         ("{s}.sort(dim={d}).values", 4), ("{s}.sort({d}, descending=True)[0]", 4),
         ("({x} - {x}.mean({d}, keepdim=True))", 4), ("{s}.cummax({d}).values", 4),
         ("F.normalize({s}, dim={d})", 1), ("{x}.flip({d})", 2), ("torch.roll({x}, 1, {d})", 2))
    )  # fmt: skip
    if "{s}" in text:
        x = s.steady(x)
    d = s.integer(0, len(x.dims) - 1)
    text = text.replace("{s}", "{x}").format(x=x.text, d=d - len(x.dims) if s.chance(3) else d)
    return _new(x, text, bound=x.bound + bound)


def counting(s: Scope) -> Value:
    """Ints and booleans that come of reductions."""
    if s.chance(2):
        x = s.find(lambda v: v.dtype == "bool") or s.leaf(dtype="bool")
        text = s.pick(
            ("{x}.sum({d})", "{x}.any({d})", "{x}.all({d})", "torch.count_nonzero({x}{c})")
        )
    else:
        x = s.steady(s.a_float())
        text = s.pick(
            ("{x}.argmax({d})", "{x}.argmin({d})", "({x} > 0).sum({d})", "({x} > 0).all({d})")
        )
    dtype = "bool" if ".any" in text or ".all" in text else "int64"
    if not x.dims or s.chance(3):
        text, dims = text.format(x=x.text, d="", c=""), ()
    else:
        d = s.integer(0, len(x.dims) - 1)
        text = text.format(x=x.text, d=d, c=f", {d}")
        dims = x.dims[:d] + x.dims[d + 1 :]
    return _new(x, text, dims=dims, dtype=dtype, grad=False, bound=9)


def _same(s: Scope, x: Value, dims: tuple[str, ...]) -> Value:
    """A float of x's dtype with exactly these dims."""
    found = s.find(lambda v: v.dims == dims and v.dtype == x.dtype)
    return s.tame(found or s.leaf(dims, x.dtype))


def product(s: Scope) -> Value:
    """A matrix product, in one of its forms."""
    x = s.a_float(2)
    if s.chance(6):
        x = s.a_float(3)
    *batch, rows, inner = x.dims
    kind = s.integer(0, 8)
    if kind == 0:
        return _product(x, f"({x.text} @ {x.text}.mT)", (*batch, rows, rows), x)
    if kind == 1:
        y = _same(s, x, (inner,))
        return _product(x, f"({x.text} @ {y.text})", (*batch, rows), y)
    columns = s.pick(("2", "n", "1", "5"))
    if kind == 2:
        y, b = _same(s, x, (columns, inner)), _same(s, x, (columns,))
        found = _product(x, f"F.linear({x.text}, {y.text}, {b.text})", (*batch, rows, columns), y)
        return replace(found, grad=found.grad or b.grad)
    if kind == 3 and not batch:
        y = _same(s, x, (rows, columns))
        return _product(x, f"torch.einsum('ij,ik->jk', {x.text}, {y.text})", (inner, columns), y)
    if kind == 4 and not batch:
        y = _same(s, x, (rows,))
        return _product(x, f"({y.text} @ {x.text})", (inner,), y)
    if kind == 5 and not batch:
        y = _same(s, x, ("2", inner, columns))
        return _product(x, f"({x.text} @ {y.text})", ("2", rows, columns), y)
    y = _same(s, x, (*batch, inner, columns))
    return _product(x, f"({x.text} @ {y.text})", (*batch, rows, columns), y)


def _product(x: Value, text: str, dims: tuple[str, ...], y: Value) -> Value:
    return Value(f"({text} * 0.25)", x.dtype, dims, x.bound * y.bound, x.grad or y.grad)


def layer(s: Scope) -> Value:
    """What networks are made of."""
    kind = s.integer(0, 7)
    rank = {3: 3, 4: 4, 5: 4, 6: 3, 7: 3}.get(kind, 2)
    x = s.a_float(rank)
    if x.dtype in LOW:
        x = _new(x, f"{x.text}.float()", dtype="float32")
        s.dtypes.add("float32")
    if kind < 2:  # normalisation over the last dim
        w = _same(s, x, x.dims[-1:])
        text = s.pick(("F.layer_norm({x}, {n}, {w})", "F.rms_norm({x}, {n}, {w}, eps=0.1)"))
        size = shape_text(x.dims[-1:])
        return replace(_product(x, text.format(x=x.text, w=w.text, n=size), x.dims, w), bound=6)
    if kind == 2:  # a loss
        target = s.index(x.dims[:1], x.dims[1])
        return _new(x, f"F.cross_entropy({x.text}, {target.text})", dims=(), bound=9)
    if kind in (3, 4) and x.dims[1] not in "123456":  # without channels, PyTorch's shapes are odd
        x = s.leaf((x.dims[0], "3", *x.dims[2:]), x.dtype)
    if kind == 3:
        w = _same(s, x, ("2", x.dims[1], "1"))
        return _product(x, f"F.conv1d({x.text}, {w.text})", (x.dims[0], "2", x.dims[2]), w)
    if kind == 4:
        w = _same(s, x, ("2", x.dims[1], "3", "3"))
        dims = (x.dims[0], "2", *x.dims[2:])
        return _product(x, f"F.conv2d({x.text}, {w.text}, padding=1)", dims, w)
    if kind == 5:
        x = s.steady(x) if not s.low else x
        return _new(x, f"F.avg_pool2d({x.text}, 3, stride=1, padding=1)")
    if kind == 6:
        return _product(
            x, f"F.scaled_dot_product_attention({x.text}, {x.text}, {x.text})", x.dims, x
        )
    return _product(x, f"F.batch_norm({x.text}, None, None, training=True, eps=0.1)", x.dims, x)


def constant(s: Scope) -> Value:
    """A new tensor that is made of nothing, or of another's shape."""
    dims = s.dims()
    dtype = s.pick((*s.floats, "int64"))
    size = shape_text(dims)
    text = s.pick(
        (f"torch.zeros({size}, dtype=torch.{dtype})", f"torch.ones({size}, dtype=torch.{dtype})",
         f"torch.full({size}, 2, dtype=torch.{dtype})")
    )  # fmt: skip
    if s.chance(3):
        x = s.a_float()
        text = s.pick((f"torch.zeros_like({x.text})", f"{x.text}.new_ones({size})"))
        return Value(text, x.dtype, x.dims if "like" in text else dims, 2)
    return Value(text, dtype, dims, 2)
