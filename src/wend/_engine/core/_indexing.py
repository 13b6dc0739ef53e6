# mypy: ignore-errors
# cython: boundscheck=False, wraparound=False, auto_pickle=False
"""Parts of tensors: indexing by ints and slices, `chunk`, `split`, `unbind`, and ops as attributes.

Compiled with the types in `_indexing.pxd`, or run as plain Python: see `_hot.py`.
"""

from wend._engine.core._hot import Tensor, current_trace


class OpProperty:
    """A unary op as an attribute of Tensor: x.T."""

    def __init__(self, function):
        self.function = function

    def __get__(self, obj, cls):
        if obj is None:
            return self
        return call_with1(self.function, obj)


def call_parts(function, args, nargs, kwnames):
    """Entry of calls of a `PartsFunction` from C."""
    return function.call(args, nargs, kwnames)


SELECTS = []  # select(dim) for the first dims
UNBOUND = []  # select(dim), for the parts that unbind gives
NARROWS = []  # narrow(dim), for parts of equal length
UNEVENLY = []  # narrow(dim), for parts of several lengths
SLICES = {}  # 4 * dim + 2 * (start given) + (end given) -> slice(dim)
FULL = slice(None, None, None)
MOST_PARTS = 16  # that are cut off by a single op
EVEN = [None] * (8 * MOST_PARTS + 8)  # 8 * count + dim: the op that cuts a dim into equal parts


def set_index_primitives(selects, slices):
    """Set the primitives that `getitem` records for ints and slices."""
    SELECTS.extend(selects)
    SLICES.update(slices)
    for key, prim in slices.items():
        if key & 3 == 3 and key >> 2 < MAX_ROW:
            prim.cuts_dim = key >> 2


def set_part_primitives(unbound, evenly, unevenly):
    """Set the primitives that `PartsFunction` records for parts, per dim."""
    UNBOUND.extend(unbound)
    NARROWS.extend(evenly)
    UNEVENLY.extend(unevenly)


def even_parts(x, dim, count):
    """Views of equal parts of x along a dim whose extent is a multiple of `count`."""
    if dim == 0 or count > MOST_PARTS:  # rows are found by address: each part by itself
        length = x.value.type.row[dim] // count
        return tuple(
            [
                record(NARROWS[dim], 1, x, None, None, None, [k * length, length], None)
                for k in range(count)
            ]
        )
    prim = EVEN[8 * count + dim]
    if prim is None:
        prim = EVEN[8 * count + dim] = SLOTS.even_parts(count, dim)
    return record(prim, 1, x, None, None, None, None, None)


def uneven_parts(x, dim, lengths):
    """Views of parts of these lengths along a dim; None if these do not add up to the extent."""
    total = 0
    for length in lengths:
        if type(length) is not int or length < 0:
            return None
        total += length
    if total != x.value.type.row[dim]:
        return None
    start = 0
    made = []
    for length in lengths:
        made.append(record(UNEVENLY[dim], 1, x, None, None, None, [start, length], None))
        start += length
    return tuple(made)


P_CHUNK = 0  # kinds of PartsFunction: cut into so many parts,
P_SPLIT = 1  # into parts of a length, or of these lengths,
P_UNBIND = 2  # or select all there is


class PartsFunction:
    """The callable behind `chunk`, `split` and `unbind`: no Python frame for plain calls.

    plain: the function of that name in Python, for all further calls
    """

    def __init__(self, plain):
        self.vectorcall = parts_address()
        self.plain = plain
        self.kind = ("chunk", "split", "unbind").index(plain.__name__)
        self.__wrapped__ = plain
        for name in ("__name__", "__qualname__", "__module__", "__doc__", "__annotations__"):
            setattr(self, name, getattr(plain, name))

    def __call__(self, *args, **kwargs):
        return self.call(args + tuple(kwargs.values()), len(args), tuple(kwargs) or None)

    def __get__(self, obj, cls):
        if obj is None:
            return self
        return bound_method(self, obj)

    def __reduce__(self):
        return self.__name__

    def call(self, args, nargs, kwnames):
        """Call with raw arguments: `nargs` positional ones, then those named by `kwnames`."""
        n = nargs
        before = 1 if self.kind == P_UNBIND else 2  # arguments before `dim`
        if kwnames is not None and len(kwnames) == 1 and kwnames[0] == "dim" and nargs == before:
            n = nargs + 1
        if before <= n <= before + 1 and (kwnames is None or n > nargs):
            x = arg(args, 0)
            dim = arg(args, before) if n > before else 0
            if type(x) is Tensor and type(dim) is int and current_trace().symbolic is None:
                found = self.parts(x, dim, arg(args, 1) if before == 2 else None)
                if found is not None:
                    return found
        positional, keywords = unpack(args, nargs, kwnames)
        return self.plain(*positional, **keywords)

    def parts(self, x, dim, by):
        """The parts of a tensor; None for calls that `plain` has to look at, or to refuse."""
        type_ = x.value.type
        rank = type_.rank
        if rank > MAX_ROW or not -rank <= dim < rank:
            return None
        if dim < 0:
            dim += rank
        if dim >= len(NARROWS):
            return None
        n = type_.row[dim]
        if n == 0:
            return None
        if self.kind == P_UNBIND:
            prim = UNBOUND[dim]
            return tuple([record(prim, 1, x, None, None, None, [k], None) for k in range(n)])
        if self.kind == P_SPLIT and (type(by) is list or type(by) is tuple):
            return uneven_parts(x, dim, by)
        if type(by) is not int:
            return None
        count = by if 0 < by <= n else 0
        if count == 0 or n % count != 0:
            return None
        return even_parts(x, dim, count if self.kind == P_CHUNK else n // count)


def getitem(x, key):
    """x[key]: keys of ints and slices natively, all further keys by the indexing planner."""
    if type(x) is not Tensor and overrides(x):
        return SLOTS.torch_function(Tensor.__getitem__, (x, key), {})
    t = type(key)
    try:
        if t is int:
            return record(SELECTS[0], 1, x, None, None, None, [key], None)
        if t is tuple:
            found = getitem_tuple(x, key)
            if found is not None:
                return found
        elif t is slice:
            found = getitem_slice(x, 0, key)
            if found is not None:
                return found
    except (IndexError, ValueError):
        # Not a plain index: the general function takes the call, and raises.
        pass  # the planner raises the error that speaks of the whole key
    return SLOTS.getitem(x, key)


def getitem_tuple(x, key):
    """x[key] for a tuple of ints and slices; None leaves the key to the planner."""
    if len(key) > 6:
        return None
    for item in key:
        if type(item) is not slice and type(item) is not int:
            return None
    dim = 0
    out = x
    for item in key:
        if type(item) is int:
            out = record(SELECTS[dim], 1, out, None, None, None, [item], None)
        else:
            if item is not FULL and not is_full(item):
                out = getitem_slice(out, dim, item)
                if out is None:
                    return None
            dim += 1
    if dim > out.value.type.rank:
        return None
    return None if out is x else out


def is_full(key):
    """Whether a slice takes all there is."""
    return slice_start(key) is None and slice_stop(key) is None and slice_step(key) is None


def getitem_slice(x, dim, key):
    """x[:, ..., start:stop] with the slice at `dim`; None unless the bounds are ints or None."""
    if slice_step(key) is not None:
        return None
    start = slice_start(key)
    stop = slice_stop(key)
    if start is None:
        if type(stop) is not int:
            return None
        return record(SLICES[4 * dim + 1], 1, x, None, None, None, [stop, 1], None)
    if type(start) is not int:
        return None
    if stop is None:
        return record(SLICES[4 * dim + 2], 1, x, None, None, None, [start, 1], None)
    if type(stop) is not int:
        return None
    return record(SLICES[4 * dim + 3], 1, x, None, None, None, [start, stop, 1], None)


def set_parts_probe(probe):
    """As `set_probe`, for `PartsFunction`."""
    probe.vectorcall = 0x57454E44


COLD.getitem = getitem

if COMPILED:
    probe = PartsFunction.__new__(PartsFunction)
    set_parts_probe(probe)
    set_parts_target()
    install_vectorcall(probe, 1)
    unlock_type(PartsFunction)
