# mypy: ignore-errors
# cython: boundscheck=False, wraparound=False, auto_pickle=False
"""The hot core: handles, values, the trie of paths, and the step that records an op.

Compiled with Cython in pure-Python mode (types in `_hot.pxd`) and also run as plain Python: the
same source, the same tests.  There is no policy here: compare, append, advance.  Decisions (type
rules, planning, views, errors) are calls through `SLOTS`, which upper layers fill.  The cold parts
of the core are beside it, and called through `COLD`.

Names without an import here are C names.  `_hot.pxd` takes these from `_types` and from headers:
`current_code`, `arg`, `refcount` and the like.  Uncompiled, `_select.py` supplies both.
"""

import threading
import weakref

from wend._engine.base.errors import GraphError

MAX_STATES = 60_000
MOST_OFF_TRIE = 1_000_000  # nodes pending at most where structure does not come back
MOST_ROOM = 4096  # entries that a fresh trace has room for at most
GRAD_NONE = 0
GRAD_LEAF = 1
GRAD_NODE = 2
INFERENCE = 3  # made in inference mode: may not be saved for a backward pass

# fmt: off
OPERATOR_NAMES = (
    "__add__", "__sub__", "__mul__", "__truediv__", "__floordiv__", "__mod__", "__pow__",
    "__matmul__", "__and__", "__or__", "__xor__", "__lshift__", "__rshift__",
    "__iadd__", "__isub__", "__imul__", "__itruediv__", "__ifloordiv__", "__imod__", "__ipow__",
    "__imatmul__", "__iand__", "__ior__", "__ixor__", "__ilshift__", "__irshift__",
    "__lt__", "__le__", "__gt__", "__ge__", "__eq__", "__ne__",
    "__neg__", "__pos__", "__abs__", "__invert__",
)
# fmt: on
OPERATORS = frozenset(OPERATOR_NAMES)
BOUND = [None] * len(OPERATOR_NAMES)  # per operator its OpFunction, by index in OPERATOR_NAMES
PLAIN_TYPES = {}  # Tensor subclasses that do not override __torch_function__,
LAST_PLAIN = [None]  # and the class met last, often the only one


class Cold:
    """Functions that the core's cold parts fill in, and that this file calls seldom.

    getitem          x[key]: `_indexing.py`
    backward_known   the backward pass of a known path: `_backward.py`
    call_cold        a call in a form not met lately: `_calls.py`, as the next
    call_override    a call with a tensor of a class that overrides `__torch_function__`
    admit            whether a divergence may grow the trie: `_trie_policy.py`, as the next six
    leaf_child       the step by which a value enters
    find_child       the step of an op that differs from the last one here
    retype           a known step with new sizes
    count_pass       counts the states passed, after a flush
    check_budget     flushes if too much is pending
    join_held        an op that joins many held tensors, computed at once
    begin_trace      the trace of a thread that has none: `_siblings.py`, as all below
    share_leaf       notes a value that two threads use
    record_shared    `record_new` where several threads record
    leave_own        lets others flush the trace of a thread that waits
    keep_journal     notes the rebindings of a trace before a flush
    put_back         has all pending again that a flush, cut short, has not computed
    """


COLD = Cold()


def set_slot(name, function):
    """Fill the upward call `name`: see `CoreSlots`."""
    setattr(SLOTS, name, function)


def slot(name):
    """The function that fills the upward call `name`."""
    return getattr(SLOTS, name)


def new_epoch():
    """Type rules may answer differently from now on (the default dtype has changed)."""
    COUNTS.epoch += 1


def set_count(name, value):
    """Set a counter: 'states' or 'flushes'."""
    if name == "states":
        COUNTS.states = value
    elif name == "flushes":
        COUNTS.flushes = value
    else:
        raise KeyError(name)


def count(name):
    """Read a counter: 'types' (interned), 'states' or 'flushes'."""
    if name == "types":
        return count_known_types()
    return {"states": COUNTS.states, "flushes": COUNTS.flushes}[name]


def set_operator(name, function):
    """Let the Python operator `name` (such as '__add__') call `function`."""
    BOUND[OPERATOR_NAMES.index(name)] = function


# -- values and handles ---------------------------------------------------------------------


class Value:
    """An immutable result with its gradient identity: pending in a trace, or held in a buffer."""

    def __init__(self, type):
        self.type = type


class Leaf:
    """Gradient identity of a leaf variable: where its gradient accumulates."""

    def __init__(self, handle):
        self.requires_grad = True
        self.ref = weakref.ref(handle)
        self.hooks = None
        self.post_hooks = None
        self.node = None


class Alias:
    """Derivation of a handle: a chain of view ops on a base, a shared storage."""

    def __init__(self):
        self.base = None
        self.version = 0
        self.storage = None
        self.storage_version = 0
        self.writes = None
        self.leaf = None

    @property
    def chain(self):
        """The view ops from the base to the handle, as (primitive, run-time args)."""
        out = []
        alias = self
        while alias is not None and alias.prim is not None:
            out.append((alias.prim, tuple(alias.args) if alias.args is not None else ()))
            alias = alias.outer
        out.reverse()
        return tuple(out)

    @chain.setter
    def chain(self, steps):
        self.prim = None
        self.args = None
        self.outer = None
        for prim, args in steps:
            if self.prim is not None:
                inner = Alias()
                inner.prim = self.prim
                inner.args = self.args
                inner.outer = self.outer
                self.outer = inner
            self.prim = prim
            self.args = list(args)


VOLATILE = "volatile"  # mark of a value whose buffer the outside may write to


class Storage:
    """Data shared by handles of unlike gradient identity (detach, .data) or with the outside."""

    def __init__(self, data):
        self.data = data
        self.version = 0
        self.shared = None


class Segment:
    """Results of a flush, as far as needed by a later backward pass."""

    def __init__(self, serial, structure):
        self.serial = serial
        self.structure = structure
        self.inputs = None  # input values of the flush, by dense index
        self.saved = None  # id -> buffer
        self.types = None
        self.args = None
        self.freed = False
        self.sites = None
        self.spent = None
        self.hooks = None
        self.origin = 0  # serial of the trace that this was
        self.depth = 0  # length of the chain of spent segments below


class Tensor:
    """A multi-dimensional array of a single dtype, with the history that gradients need."""

    def __init__(self, *args, **kwargs):
        if self.value is None:  # not set by the __new__ of a subclass
            SLOTS.tensor_init(self, args, kwargs)

    # Operators are slots here, so that no Python frame stands between the user's line and the
    # step.  In-place ones go through the in-place twin of the op.
    # fmt: off
    def __add__(self, other): return operator2(0, self, other, False)
    def __radd__(self, other): return operator2(0, self, other, True)
    def __sub__(self, other): return operator2(1, self, other, False)
    def __rsub__(self, other): return operator2(1, self, other, True)
    def __mul__(self, other): return operator2(2, self, other, False)
    def __rmul__(self, other): return operator2(2, self, other, True)
    def __truediv__(self, other): return operator2(3, self, other, False)
    def __rtruediv__(self, other): return operator2(3, self, other, True)
    def __floordiv__(self, other): return operator2(4, self, other, False)
    def __rfloordiv__(self, other): return operator2(4, self, other, True)
    def __mod__(self, other): return operator2(5, self, other, False)
    def __rmod__(self, other): return operator2(5, self, other, True)
    def __pow__(self, other, modulo=None): return operator2(6, self, other, False)
    def __rpow__(self, other, modulo=None): return operator2(6, self, other, True)
    def __matmul__(self, other): return operator2(7, self, other, False)
    def __rmatmul__(self, other): return operator2(7, self, other, True)
    def __and__(self, other): return operator2(8, self, other, False)
    def __rand__(self, other): return operator2(8, self, other, True)
    def __or__(self, other): return operator2(9, self, other, False)
    def __ror__(self, other): return operator2(9, self, other, True)
    def __xor__(self, other): return operator2(10, self, other, False)
    def __rxor__(self, other): return operator2(10, self, other, True)
    def __lshift__(self, other): return operator2(11, self, other, False)
    def __rlshift__(self, other): return operator2(11, self, other, True)
    def __rshift__(self, other): return operator2(12, self, other, False)
    def __rrshift__(self, other): return operator2(12, self, other, True)
    def __iadd__(self, other): return operator2(13, self, other, False)
    def __isub__(self, other): return operator2(14, self, other, False)
    def __imul__(self, other): return operator2(15, self, other, False)
    def __itruediv__(self, other): return operator2(16, self, other, False)
    def __ifloordiv__(self, other): return operator2(17, self, other, False)
    def __imod__(self, other): return operator2(18, self, other, False)
    def __ipow__(self, other): return operator2(19, self, other, False)
    def __iand__(self, other): return operator2(21, self, other, False)
    def __ior__(self, other): return operator2(22, self, other, False)
    def __ixor__(self, other): return operator2(23, self, other, False)
    def __ilshift__(self, other): return operator2(24, self, other, False)
    def __irshift__(self, other): return operator2(25, self, other, False)
    def __lt__(self, other): return operator2(26, self, other, False)
    def __le__(self, other): return operator2(27, self, other, False)
    def __gt__(self, other): return operator2(28, self, other, False)
    def __ge__(self, other): return operator2(29, self, other, False)
    def __eq__(self, other): return operator2(30, self, other, False)
    def __ne__(self, other): return operator2(31, self, other, False)
    def __neg__(self): return operator1(32, self)
    def __pos__(self): return operator1(33, self)
    def __abs__(self): return operator1(34, self)
    def __invert__(self): return operator1(35, self)
    def __hash__(self): return id(self)
    def __bool__(self): return truth(self)
    def __int__(self): return whole(self)
    def __float__(self): return SLOTS.float(self)
    def __complex__(self): return SLOTS.complex(self)
    def __index__(self): return SLOTS.index(self)
    def __len__(self): return length(self)
    def __iter__(self): return SLOTS.iter(self)
    def __contains__(self, item): return SLOTS.contains(self, item)
    def __getitem__(self, key): return COLD.getitem(self, key)
    def __setitem__(self, key, value): SLOTS.setitem(self, key, value)
    def __repr__(self): return SLOTS.repr(self)
    # fmt: on

    @property
    def shape(self):
        """Extents of the dims, as a Size."""
        if self.derived is not None:
            return refreshed(self).type.shape
        return self.value.type.shape

    def size(self, dim=None):
        """The shape, or the extent of a dim."""
        shape = self.shape
        if dim is None:
            return shape
        if type(dim) is int and -len(shape) <= dim < len(shape):
            return shape[dim]
        return SLOTS.size(self, dim)

    def dim(self):
        """Number of dims."""
        return self.value.type.rank

    @property
    def ndim(self):
        """Number of dims."""
        return self.value.type.rank

    @property
    def dtype(self):
        """Element type."""
        return self.value.type.dtype

    @property
    def device(self):
        """Where the data lies."""
        return self.value.type.device

    @property
    def requires_grad(self):
        """Whether gradients flow to, or through, this tensor."""
        if self.leaf is not None:
            return self.leaf.requires_grad
        if self.derived is not None:
            return refreshed(self).requires_grad
        return self.value.requires_grad

    @requires_grad.setter
    def requires_grad(self, flag):
        SLOTS.requires_grad_(self, flag)

    @property
    def is_leaf(self):
        """Whether this tensor was made by the user, or does not require grad."""
        return self.leaf is not None or not refreshed(self).requires_grad

    @property
    def alias(self):
        """Derivation from bases or a storage (an `Alias`), or None."""
        return own_alias(self)

    @alias.setter
    def alias(self, alias):
        put_alias(self, alias)

    @property
    def grad(self):
        """The accumulated gradient, or None."""
        if self._grad is None and self.leaf is None and self.value.requires_grad:
            return SLOTS.nonleaf_grad(self)
        if self._layout is not None and self._grad is not None:
            SLOTS.lay_out(None, [self], None, self._grad)
        return self._grad

    @grad.setter
    def grad(self, value):
        if value is None:
            self._grad = None
        else:
            SLOTS.set_grad(self, value)

    @grad.deleter
    def grad(self):
        self._grad = None

    def backward(self, gradient=None, retain_graph=None, create_graph=False, inputs=None):
        """Accumulate gradients of this tensor into the `.grad` of the leaves it depends on.

        gradient: of this tensor, same shape; may be left out for a single element
        inputs: only these get gradients

        Raises GraphError (a RuntimeError) as PyTorch does.
        """
        if gradient is None and inputs is None and not create_graph:
            if COLD.backward_known(self, retain_graph is True):
                return
        SLOTS.backward(self, gradient, retain_graph, create_graph, inputs)

    @property
    def _version(self):
        if self.value.inference:
            raise GraphError("_version: inference tensors do not track a version counter")
        return SLOTS.writes(self)


def native_new(cls):
    """A handle of class `cls` without a value yet."""
    return Tensor.__new__(cls)


def wrap(value):
    """A new handle on `value`."""
    t = Tensor.__new__(Tensor)
    t.value = value
    return t


def symbolic_value(type_, serial, index):
    """A value inside a rule: number `index` of the recorder `serial`."""
    v = Value.__new__(Value)
    v.type = type_
    v.serial = serial
    v.index = index
    return v


def fresh_serial():
    """A serial for a recorder."""
    return next_serial()


def held(type_, buffer):
    """A held value that requires no grad."""
    v = Value.__new__(Value)
    v.type = type_
    v.buffer = buffer
    return v


def held_in_segment(type_, buffer, segment, index):
    """A held value with the gradient identity (segment, index)."""
    v = held(type_, buffer)
    v.segment = segment
    v.seg_index = index
    v.requires_grad = True
    return v


def slim(value):
    """A value that requires grad, without its data: enough for a gradient to find its way."""
    v = held_in_segment(value.type, None, value.segment, value.seg_index)
    v.leaf = value.leaf
    return v


def make_leaf(handle):
    """Make `handle` a leaf that requires grad; its value gets a fresh gradient identity."""
    handle.leaf = Leaf(handle)


def truth(handle):
    """Truth of a tensor with a single element."""
    v = refreshed(handle)
    if v.type.rank == 0 and v.error is None:
        return bool(ensure(v))
    return SLOTS.bool(handle)


def whole(handle):
    """The single element of a tensor as an int."""
    v = refreshed(handle)
    if v.type.rank == 0 and v.error is None:
        return int(ensure(v).item())
    return SLOTS.int(handle)


def length(handle):
    """Extent of a tensor's first dim."""
    if type(handle) is Tensor:
        v = refreshed(handle)
        if v.type.rank > 0:
            extent = dims_of(v.type)[0]
            if type(extent) is int:
                return extent
    return SLOTS.len(handle)


def value_of(handle):
    """The handle's value, derived anew if the handle is a view of something that changed."""
    return refreshed(handle)


def bump(handle):
    """Count an in-place change."""
    handle.version += 1


def operator1(code, x):
    """The unary operator OPERATOR_NAMES[code]."""
    f = BOUND[code]
    return f.call1(x)


def operator2(code, x, y, swap):
    """The operator OPERATOR_NAMES[code]; NotImplemented if `y` is neither tensor nor number."""
    f = BOUND[code]
    found = f.quick2(y, x) if swap else f.quick2(x, y)
    if found is not None:
        return found
    t = type(y)
    if t is not float and t is not int and not isinstance(y, Tensor):
        return SLOTS.operator(OPERATOR_NAMES[code], f, x, y, swap)
    return call_with2(f, y, x) if swap else call_with2(f, x, y)


# -- the trie -------------------------------------------------------------------------------


class Record:
    """A step as kept by a trace: op, operands, results.  Off the trie that is all."""

    parent = None  # asked of states and of records alike
    plans = None
    passed = 0

    def operand_indices(self):
        """Dense indices of the operands."""
        out = []
        if self.n_in > 0:
            out.append(self.i0)
        if self.n_in > 1:
            out.append(self.i1)
        if self.n_in > 2:
            out.append(self.i2)
        if self.rest is not None:
            out.extend(self.rest)
        return out


class State(Record):
    """A node of the trie: exactly this has been recorded since the root."""

    def __init__(self, parent, prim):
        self.parent = parent
        self.prim = prim
        self.i0 = -1
        self.i1 = -1
        self.i2 = -1
        self.children = None
        self.child = None
        self.plans = None
        if parent is not None:
            self.depth = parent.depth + 1
            self.linked = True

    def path(self):
        """The states from the first recorded to this one."""
        out = []
        state = self
        while state.parent is not None:
            out.append(state)
            state = state.parent
        out.reverse()
        return out

    def key(self):
        """The key by which its parent finds this child."""
        return (self.prim, self.i0, self.i1, self.i2, self.rest, self.mode, self.program)

    def offspring(self):
        """All children. A dict is made for the second child: most states have only one."""
        if self.children is not None:
            return list(self.children.values())
        return [] if self.child is None else [self.child]

    def retain(self, kept):
        """Let go of all children but those in the list `kept`."""
        self.children = {child.key(): child for child in kept} if len(kept) > 1 else None
        self.child = kept[len(kept) - 1] if kept else None


class Trace:
    """All that is pending in a thread, in order, and the place of its path in the trie."""

    def __init__(self, root):
        self.renew_lock()
        self.begin(root)

    def begin(self, root):
        """Have nothing pending, and no settings yet."""
        self.root = root
        self.serial = 0
        self.mode = None
        self.symbolic = None
        self.eager = False
        self.volatile = False
        self.foreign = {}
        self.soft_nodes = 4000
        self.hard_nodes = 40_000
        self.soft_bytes = 1 << 28
        self.hard_bytes = 1 << 31
        self.modules = []
        self.flushing = False
        self.fiber = None
        self.ref = None  # weak reference to the trace itself, for `TRACES`
        self.journal = None  # rebindings of former flushes, while somebody may take them back
        self.n = 0
        self.room = 0
        self.ops = 0
        self.ops_before = 0  # that were recorded until the last reset
        self.reset()

    def renew_lock(self):
        """Have a lock that nobody holds: `take` it, and `give` it back, without a look-up."""
        lock = self.lock = threading.RLock()
        self.take = lock.acquire
        self.give = lock.release

    def reset(self):
        """Back to the root, with nothing pending."""
        # Lists that grow are moved again and again: they begin with the room that longer ones took.
        self.room = min(max(self.n, self.room - (self.room >> 8), 32), MOST_ROOM)
        states = roomy(self.room)  # all memory first: if there is none, the trace stays unchanged
        values = roomy(self.room)
        args = roomy(self.room >> 2)
        touched = []
        self.serial = next_serial()
        self.state = self.root
        self.states = states
        self.values = values
        self.args = args
        self.touched = touched
        self.sites = None
        self.live = None  # the values that are `wanted`, as somebody has found out,
        self.n_live = 0  # when there were so many
        self.n = self.nbytes = self.held_bytes = 0  # held: of values from outside
        self.ops_before += self.ops
        self.ops = 0
        self.extra = None
        if self.foreign:
            self.foreign = {}
        return None


SERIAL = [0]


def next_serial():
    """A number never used before: no trace is mistaken for another."""
    SERIAL[0] += 1
    return SERIAL[0]


ROOT = State(None, None)
LAST_THREAD = -1
LAST_TRACE = None
# Thread id (of threads that have ended: minus a serial number) -> weak reference to its trace.
TRACES = {}


def current_trace():
    """The trace of this thread."""
    global LAST_THREAD, LAST_TRACE
    t = thread_id()
    if t == LAST_THREAD and COMPILED:  # else another thread may come in between the two
        return LAST_TRACE
    ref = TRACES.get(t)
    trace = ref() if ref is not None else None
    if trace is None:
        trace = COLD.begin_trace(t)
    LAST_TRACE = trace
    LAST_THREAD = t
    return trace


def forget_last(trace):
    """Forget who asked for a trace last if that was `trace`, or in any case (None); whether so."""
    global LAST_THREAD, LAST_TRACE
    if trace is not None and trace is not LAST_TRACE:
        return False
    LAST_THREAD = -1
    LAST_TRACE = None
    return True


def count_threads():
    """Note whether several threads record, so that steps have to look out for them."""
    global SEVERAL, QUICK
    SEVERAL = len(TRACES) > 1
    QUICK = AUTOBATCH and not SEVERAL


def swap_trace(trace):
    """Make `trace` that of this thread; returns the trace before, which is to be put back.

    Until then somebody else has to keep `trace` alive.
    """
    global LAST_TRACE
    before = current_trace()
    if trace.ref is None:
        trace.ref = weakref.ref(trace)
    TRACES[LAST_THREAD] = trace.ref
    LAST_TRACE = trace
    return before


# -- sites ----------------------------------------------------------------------------------

INTERNAL = {}
INTERNAL_PREFIX = ["\0"]


CODES = [None] * 256  # code objects met lately, by address; FLAGS: whether internal
FLAGS = [False] * 256


def is_internal(code):
    """Whether a code object belongs to the package, so that the user's line is further out."""
    k = (address(code) >> 6) & 255
    if CODES[k] is code:
        return FLAGS[k]
    # Keyed by identity: hashing a code object reads all of it.
    row = INTERNAL.get(id(code))
    if row is None:
        name = code.co_filename if code is not None else ""
        flag = name.startswith((INTERNAL_PREFIX[0], "<frozen"))
        if len(INTERNAL) > 20_000:
            INTERNAL.clear()
        row = INTERNAL[id(code)] = (code, flag)
    CODES[k] = code
    FLAGS[k] = row[1]
    return FLAGS[k]


def note_site(trace, state, code, lasti):
    """Keep the site of the step just taken where it differs from the state's own.

    A site is the user's line; `within`: the line called the package, which took the step.
    """
    if is_internal(code):
        if trace.site_code is not None:
            code = trace.site_code
            lasti = trace.site_lasti
        else:
            code, lasti = SLOTS.user_site()
        if state.within and state.code is code and state.lasti == lasti:
            return
        within = True
    else:
        within = False
    if state.code is None:
        state.code = code
        state.lasti = lasti
        state.within = within
        return
    if trace.sites is None:
        trace.sites = {}
    trace.sites[len(trace.states) - 1] = (code, lasti)


# -- recording ------------------------------------------------------------------------------


def lone(alias):
    """Whether an alias is the only one of its storage, up to date, and not known outside."""
    storage = alias.storage
    writes = alias.writes
    return (
        storage.shared is None
        and alias.storage_version == storage.version
        and refcount(storage) <= LONE_REFERENCES
        and (writes is None or refcount(writes) <= LONE_REFERENCES)
    )


def lone_baseline():
    """References to the storage of a lone alias, as `lone` counts them."""
    alias = Alias.__new__(Alias)
    alias.storage = Storage(None)
    storage = alias.storage
    return refcount(storage)


LONE_REFERENCES = lone_baseline()


def refreshed(handle):
    """The value of a handle, derived anew if it is an alias of something that has changed."""
    alias = handle.derived
    if alias is not None:
        base = alias.base
        if base is None and alias.storage is not None and lone(alias):
            if handle._layout is None:  # else `view` has to look at its strides
                handle.derived = None  # nobody shares the data any more
            alias = None
    if alias is not None:
        if base is not None and (base.derived is not None or alias.version != base.version):
            SLOTS.rederive(handle)
        elif alias.storage is not None and (
            alias.storage_version != alias.storage.version or alias.storage.shared is not None
        ):
            SLOTS.rederive(handle)
    leaf = handle.leaf
    v = handle.value
    if leaf is not v.leaf:
        if leaf is None or not leaf.requires_grad or v.buffer is None:
            SLOTS.relabel(handle)
            return handle.value
        fresh = held(v.type, v.buffer)  # a parameter after the optimizer's step, say
        fresh.inference = v.inference
        fresh.leaf = leaf
        fresh.requires_grad = True
        handle.value = fresh
        return fresh
    return v


def enter(trace, v):
    """Index of a value from outside in this trace; its first use is a separate step."""
    if v.buffer is None:
        if v.serial == trace.serial:
            return v.index
        compute(v)
    if v.serial != 0 and trace.foreign:
        known = trace.foreign.get(id(v))
        if known is not None:
            return known[0]
    grad = GRAD_NONE
    if v.requires_grad:
        grad = GRAD_LEAF if v.leaf is not None else GRAD_NODE
    elif v.inference:
        grad = INFERENCE
    kind = v.type.kind
    prim = kind.plain_leaf if grad == GRAD_NONE else kind.leaves[grad]
    state = trace.state
    index = trace.n
    serial = trace.serial
    if state is not None:
        child = state.child
        if child is not None and child.prim is prim:
            ask_next(child)
            step = child
        else:
            step = COLD.leaf_child(trace, state, prim, grad)
    else:
        step = new_leaf(None, prim, grad, index)
    if SEVERAL and v.serial != 0:
        COLD.share_leaf(trace, v)
    if trace.serial != serial or trace.n != index:
        return enter(trace, v)  # a finalizer recorded or flushed while we allocated
    if state is not None:
        trace.state = as_state(step) if step.linked else None
    v.serial = serial
    v.index = index
    push(trace.values, v)
    push(trace.states, step)
    trace.n = index + 1
    trace.nbytes += v.type.nbytes
    trace.held_bytes += v.type.nbytes
    return index


def new_leaf(parent, prim, grad, index):
    """A step for a value from outside."""
    if parent is not None:
        state = State(parent, prim)
        state.born = COUNTS.flushes  # steps behind it are the tail of this divergence: see `admit`
        step = state
    else:
        step = fresh_record()
        step.prim = prim
        step.i0 = -1
        step.i1 = -1
        step.i2 = -1
    step.first = index
    step.n_out = 1
    step.requires_grad = grad == GRAD_LEAF or grad == GRAD_NODE
    return step


def current(handle):
    """Whether the handle of a view is up to date, and so is the base."""
    return (
        handle.derived.base is not None
        and handle.derived.base.derived is None
        and handle.derived.version == handle.derived.base.version
    )


def is_operand(handle, serial, index, type_):
    """Whether a handle stands for the value with this index in the trace, and has this type."""
    v = handle.value
    return (
        v.serial == serial
        and v.index == index
        and v.type is type_
        and v.leaf is handle.leaf
        and (handle.derived is None or current(handle))
    )


def record(prim, n, h0, h1, h2, rest, values, inplace):
    """One step: record an op, return the handle (or tuple of handles) of its result.

    prim: an interned primitive
    n: number of tensor operands
    h0, h1, h2: the first three operands
    rest: list of the remaining operands, or None
    values: list of run-time ints and numbers, or None
    inplace: None, or the in-place op on whose behalf h0 is to be rebound to the result

    Here are steps off the trie of which only the types of operands are looked at: the op was called
    with these before.  `record_known` has the steps on the trie, `record_any` the rest.
    """
    thread = this_thread()
    trace = LAST_TRACE if id_of(thread) == LAST_THREAD else current_trace()
    serial = trace.serial
    if trace.state is not None:
        if n < MANY_JOINED and not prim.check_held and not prim.check_numbers:
            return record_known(trace, prim, n, h0, h1, h2, rest, values, inplace)
    elif (
        prim.quick_n == n
        and inplace is None
        and is_ready(h0, serial)
        and (n < 2 or is_ready(h1, serial))
        and (n < 3 or is_ready(h2, serial))
        and (
            (
                h0.value.type is prim.last_t0
                and (n < 2 or h1.value.type is prim.last_t1)
                and (n < 3 or h2.value.type is prim.last_t2)
            )
            or as_before(prim, n, h0, h1, h2)
        )
        and prim.epoch == COUNTS.epoch
        and trace.symbolic is None
        and not trace.eager
        and not trace.volatile
        and trace.n < MOST_OFF_TRIE
        and trace.nbytes < trace.hard_bytes
        and QUICK
    ):
        grad = prim.flows and trace.mode.grad and any_grad(n, h0, h1, h2)
        if not grad or not any_inference(n, h0, h1, h2):
            step = fresh_record()
            v = fresh_value()
            t = fresh_tensor()
            if trace.serial == serial:  # no finalizer recorded or flushed while we allocated
                fill_record(step, trace, prim)
                fill_result(step, t, v, trace, prim.last_outs)
                fill_operands(step, trace, n, h0, h1, h2, grad)
                v.requires_grad = grad
                v.inference = trace.mode.inference
                trace.nbytes += v.type.nbytes
                push_all(trace.args, values)
                known = same_line(step, trace, LAST_CODE, LAST_INNER, thread)
                take_step(trace, step, v)
                if not known:
                    note_line(trace)
                return t
    return record_any(trace, prim, n, h0, h1, h2, rest, values, inplace)


def as_before(prim, n, h0, h1, h2):
    """Whether operands are of the types before the last ones, which are the last ones then."""
    if not (
        h0.value.type is prim.other_t0
        and (n < 2 or h1.value.type is prim.other_t1)
        and (n < 3 or h2.value.type is prim.other_t2)
    ):
        return False
    put_types(prim, n, h0, h1, h2, prim.other_outs)
    return True


def put_types(prim, n, h0, h1, h2, outs):
    """Note an op's types of operands and results as the last; the former last become `other_*`."""
    prim.other_t0 = prim.last_t0
    prim.other_t1 = prim.last_t1
    prim.other_t2 = prim.last_t2
    prim.other_outs = prim.last_outs
    prim.last_t0 = h0.value.type
    prim.last_t1 = h1.value.type if n > 1 else None
    prim.last_t2 = h2.value.type if n > 2 else None
    prim.last_outs = outs


def record_any(trace, prim, n, h0, h1, h2, rest, values, inplace):
    """`record` where something has to be looked at."""
    if n >= MANY_JOINED and prim.joins_held and trace.symbolic is None:
        t = COLD.join_held(trace, prim, h0, h1, h2, rest)
        if t is not None:
            return t
    if prim.check_numbers and trace.symbolic is None:
        SLOTS.check_numbers(prim, n, values)
    elif prim.check_held and trace.symbolic is None and any_known(n, h1, h2, rest):
        if not prim.pick_rows or not names_rows(h0, h1):
            SLOTS.check_held(prim, operand_list(n, h0, h1, h2, rest), values)
        elif h1.derived is not None and h1.leaf is None and not trace.volatile:
            h1 = wrap(h1.value)  # shared memory that was looked at is not looked at again
    if trace.state is None and inplace is None and n > 0 and trace.symbolic is None:
        t = record_off(trace, prim, n, h0, h1, h2, rest, values)
        if t is not None:
            return t
    return record_known(trace, prim, n, h0, h1, h2, rest, values, inplace)


#: So many held tensors, of no more than MOST_JOINED bytes, are joined at once: the length of a list
#: that a program collects hardly comes back, and the path would be planned for nothing.
MANY_JOINED = 16


def any_known(n, h1, h2, rest):
    """Whether any of an op's operands behind the first is computed already, as far as is seen here.

    Only such are looked at (`Primitive.checked`); pending operands have a value later.
    """
    return (
        (n > 1 and (h1.derived is not None or h1.value.buffer is not None))
        or (n > 2 and (h2.derived is not None or h2.value.buffer is not None))
        or rest is not None
    )


def names_rows(table, index):
    """Whether the index is held, and each of its elements is the number of a row of the table."""
    t = refreshed(table).type
    return t.rank > 0 and all_below(refreshed(index).buffer, t.row[0])


def record_known(trace, prim, n, h0, h1, h2, rest, values, inplace):
    """`record` on the trie, and rare cases off the trie."""
    state = trace.state
    if state is None or trace.symbolic is not None or (inplace is not None and SEVERAL):
        return record_new(trace, prim, n, h0, h1, h2, rest, values, inplace)
    child = state.child
    if (
        child is None
        or child.prim is not prim
        or child.mode is not trace.mode
        or child.out_type is None
        or trace.n >= trace.soft_nodes
        or trace.held_bytes >= trace.hard_bytes
        or (rest is not None and not same_rest(trace, child, rest))
    ):
        return record_new(trace, prim, n, h0, h1, h2, rest, values, inplace)
    ask_next(child)
    serial = trace.serial
    if (
        (n > 0 and not is_operand(h0, serial, child.i0, child.t0))
        or (n > 1 and not is_operand(h1, serial, child.i1, child.t1))
        or (n > 2 and not is_operand(h2, serial, child.i2, child.t2))
        or (prim.sized and not same_args(child.last_args, values))
    ):
        return record_new(trace, prim, n, h0, h1, h2, rest, values, inplace)
    t = commit(trace, prim, child, h0, values, inplace)
    if t is None:
        return record_new(trace, prim, n, h0, h1, h2, rest, values, inplace)
    return t


def at_hand(trace, handle):
    """Whether a handle's own value is its operand; a value from outside enters the trace."""
    # No local names here and below: each would count a reference.
    if handle.leaf is not handle.value.leaf or (handle.derived is not None and not current(handle)):
        return False
    if handle.value.serial != trace.serial:
        enter(trace, handle.value)
    return True


def at_hand_all(trace, handles):
    """`at_hand` for all handles of a list."""
    for k in range(len(handles)):
        if not at_hand(trace, handle_at(handles, k)):
            return False
    return True


def same_operands(types, handles):
    """Whether the values of handles have exactly these types."""
    for k in range(len(handles)):
        h = handle_at(handles, k)
        if types[k] is not h.value.type:
            return False
    return True


def any_requires_grad(handles):
    """Whether gradients flow to any of these."""
    for k in range(len(handles)):
        h = handle_at(handles, k)
        if h.value.requires_grad:
            return True
    return False


def rest_indices(prim, handles):
    """Indices of values in a trace, as the tuple of the op's last call if that is equal.

    A cell that is called again and again reads the same weights each time.
    """
    known = prim.last_rest
    if known is not None and len(known) == len(handles):
        k = 0
        for at in known:
            h = handle_at(handles, k)
            if h.value.index != at:
                break
            k += 1
        if k == len(handles):
            return known
    prim.last_rest = tuple([h.value.index for h in handles])
    return prim.last_rest


def resized(prim, n, h0, h1, h2, rest, values):
    """Result types of an op for operands of the kinds, not the types, of its last call; or None.

    The op's last types are these then, and the former last types are `other_*`: see `put_types`.
    """
    if not (
        h0.value.type.kind is prim.last_t0.kind
        and (n < 2 or h1.value.type.kind is prim.last_t1.kind)
        and (n < 3 or h2.value.type.kind is prim.last_t2.kind)
    ):
        return None
    more = None
    if rest is not None:
        more = [h.value.type for h in rest]
        if not same_kinds(prim.last_more, more):
            return None
    if prim.cuts_dim >= 0:
        return cut_type(prim, h0, values)
    out = prim.last_program.resize(
        h0.value.type,
        h1.value.type if n > 1 else None,
        h2.value.type if n > 2 else None,
        more,
        values,
    )
    if more is None and not prim.sized and out is not None:
        put_types(prim, n, h0, h1, h2, out)
    return out


def cut_type(prim, h0, values):
    """`resized` of a slice: the type of a part inside the operand depends on its length alone."""
    start = values[0]
    stop = values[1]
    whole = h0.value.type
    inside = 0 <= start <= stop <= whole.row[prim.cuts_dim] and values[2] == 1
    if (
        inside
        and prim.cut_program is prim.last_program
        and prim.cut_from is whole
        and prim.cut.row[prim.cuts_dim] == stop - start
    ):
        return prim.cut
    out = prim.last_program.resize(whole, None, None, None, values)
    if inside and out is not None:
        prim.cut_program = prim.last_program
        prim.cut_from = whole
        prim.cut = out
    return out


def record_off(trace, prim, n, h0, h1, h2, rest, values):
    """A step off the trie, where the op was met before with operands of these kinds; else None.

    The result is that of `record_new`, without a look at rare cases.  References to operands are
    not taken: the counting would be a third of the work.
    """
    if trace.n >= trace.soft_nodes or trace.nbytes >= trace.soft_bytes:
        if trace.n >= MOST_OFF_TRIE or trace.nbytes >= trace.hard_bytes or not AUTOBATCH:
            COLD.check_budget(trace, AUTOBATCH)
    serial = trace.serial
    if (
        prim.last_n != n  # if equal, there is a program
        or (SEVERAL and rest is not None)
        or prim.epoch != COUNTS.epoch
        or trace.eager
        or trace.volatile
        or not (is_ready(h0, serial) or at_hand(trace, h0))
        or (n > 1 and not (is_ready(h1, serial) or at_hand(trace, h1)))
        or (n > 2 and not (is_ready(h2, serial) or at_hand(trace, h2)))
        or (rest is not None and not at_hand_all(trace, rest))
        or trace.serial != serial
        or trace.state is not None
    ):
        return None
    if (
        not prim.sized
        and h0.value.type is prim.last_t0
        and (n < 2 or h1.value.type is prim.last_t1)
        and (n < 3 or h2.value.type is prim.last_t2)
        and (rest is None or same_operands(prim.last_more, rest))
    ):
        out = prim.last_outs
    elif not prim.sized and rest is None and as_before(prim, n, h0, h1, h2):
        out = prim.last_outs
    else:
        out = resized(prim, n, h0, h1, h2, rest, values)
    if out is None or (type(out) is tuple) != prim.last_program.many:
        return None
    grad = (
        trace.mode.grad
        and prim.is_differentiable
        and (any_grad(n, h0, h1, h2) or (rest is not None and any_requires_grad(rest)))
        and prim.last_program.real
    )
    if grad and (any_inference(n, h0, h1, h2) or not prim.last_program.all_real):
        return None
    places = rest_indices(prim, rest) if rest is not None else None
    if prim.last_program.many:
        return record_parts(trace, prim, n, h0, h1, h2, places, values, out, grad, serial)
    step = fresh_record()
    v = fresh_value()
    t = fresh_tensor()
    if trace.serial != serial or (SEVERAL and not all_ready(n, h0, h1, h2, serial)):
        return None  # a finalizer recorded or flushed while we allocated, or another thread did
    fill_record(step, trace, prim)
    fill_result(step, t, v, trace, out)
    fill_operands(step, trace, n, h0, h1, h2, grad)
    v.requires_grad = grad
    v.inference = trace.mode.inference
    if places is not None:
        step.rest = places
    push_all(trace.args, values)
    known = same_line(step, trace, LAST_CODE, LAST_INNER, this_thread())
    trace.nbytes += v.type.nbytes
    take_step(trace, step, v)
    if not known:
        note_line(trace)
    if prim.is_view:
        attach_view(t, h0, prim, values)
    return t


def record_parts(trace, prim, n, h0, h1, h2, places, values, outs, grad, serial):
    """`record_off` of an op with several results, of the types `outs`, once all is known of it."""
    step = fresh_record()
    parts = fresh_parts(outs)
    if trace.serial != serial or (SEVERAL and not all_ready(n, h0, h1, h2, serial)):
        return None
    fill_record(step, trace, prim)
    fill_operands(step, trace, n, h0, h1, h2, grad)
    step.many = True
    step.outs = outs
    step.n_out = len(parts)
    if places is not None:
        step.rest = places
    push_all(trace.args, values)
    known = same_line(step, trace, LAST_CODE, LAST_INNER, this_thread())
    push(trace.states, step)
    trace.ops += 1
    take_parts(trace, parts, grad)
    if not known:
        note_line(trace)
    if prim.piece is not None:
        attach_parts(parts, outs, h0, prim)
    wrap = prim.last_program.wrap
    return parts if wrap is tuple else wrap(parts)


def all_ready(n, h0, h1, h2, serial):
    """Whether the values of these operands still know their place in the trace."""
    return (
        is_ready(h0, serial) and (n < 2 or is_ready(h1, serial)) and (n < 3 or is_ready(h2, serial))
    )


def note_line(trace):
    """Note the line of the step just recorded off the trie: it is not that of the step before."""
    global LAST_CODE, LAST_INNER
    step = record_at(trace.states, len(trace.states) - 1)
    code = current_code()
    note_site(trace, step, code, current_lasti())
    if step.within:
        LAST_INNER = code
    elif step.code is code:
        LAST_CODE = code
    return True


def fresh_handles(types):
    """Handles on new values of these types, which are of no trace yet."""
    fresh = []
    for type_ in types:
        v = Value.__new__(Value)
        v.type = type_
        fresh.append(wrap(v))
    return fresh


def fresh_parts(types):
    """As `fresh_handles`, but as a tuple, of values that the collector is not told of."""
    n = len(types)
    parts = new_row(n)
    for k in range(n):
        v = fresh_value()
        t = fresh_tensor()
        put_part(parts, k, t, v, types)
    return tuple(parts)


def attach_parts(parts, outs, h0, prim):
    """Note how the results of an op that cuts an operand along a dim derive from that operand.

    All share a note, until somebody asks for that of a single part: see `own_alias`.
    """
    if prim.piece_outs is not outs:
        start = 0
        found = []
        for type_ in outs:
            length = dims_of(type_)[prim.piece_dim]
            found.append([start, length])
            start += length
        prim.piece_args = found
        prim.piece_outs = outs
    first = part_at(parts, 0)
    attach_view(first, h0, prim.piece, prim.piece_args)
    first.part = 1
    share_alias(parts, first)


def put_alias(handle, alias):
    """Note the derivation of a handle, and of that handle alone."""
    handle.derived = alias
    handle.part = 0


def exchange_classes(a, b):
    """Exchange the classes of two tensors."""
    swap_classes(a, b)


def own_attribute(handle, name):
    """An attribute that a handle has been given, or None: a look at `__dict__` makes a dict."""
    return attribute(handle, name)


def rebase(alias, base):
    """Let an alias derive from `base`, which counts it among its views."""
    leave_base(alias)
    alias.base = base
    base._views += 1


def own_alias(handle):
    """The note of a handle's derivation, or None.

    Several parts have `derived` in common (`part` counts from 1); a part that is asked for gets a
    separate note here.
    """
    if handle.part == 0:
        return handle.derived
    shared = handle.derived
    alias = fresh_alias()
    alias.base = shared.base
    alias.base._views += 1
    alias.plain = shared.plain
    alias.prim = shared.prim
    alias.args = shared.args[handle.part - 1]
    alias.outer = shared.outer
    alias.version = shared.version
    handle.derived = alias
    handle.part = 0
    return alias


LAST_CODE = None  # code object of the user's that the last step off the trie came from,
LAST_INNER = None  # and that of the package's


def same_rest(trace, child, rest):
    """Whether the fourth and later operands are the ones, of the types, that `child` saw last."""
    indices = child.rest
    types = child.trest
    if indices is None or len(indices) != len(rest):
        return False
    i = 0
    for h in rest:
        if not is_operand(h, trace.serial, indices[i], types[i]):
            return False
        i += 1
    return True


def record_new(trace, prim, n, h0, h1, h2, rest, values, inplace):
    """A step that is not just the last one again: leaves enter, types and children are found."""
    if SEVERAL:
        return COLD.record_shared(trace, prim, n, h0, h1, h2, rest, values, inplace)
    return record_alone(trace, prim, n, h0, h1, h2, rest, values, inplace)


def record_alone(trace, prim, n, h0, h1, h2, rest, values, inplace):
    """`record_new`, with no second thread in the way."""
    if trace.symbolic is not None:
        return record_in_rule(trace, prim, n, h0, h1, h2, rest, values, inplace)
    if trace.n >= trace.soft_nodes or trace.nbytes >= trace.soft_bytes:
        COLD.check_budget(trace, AUTOBATCH)
    v0 = v1 = v2 = None
    i0 = i1 = i2 = -1
    others = None
    indices = None
    if n > 0:
        ask_value(h0)
        if n > 1:
            ask_value(h1)
            if n > 2:
                ask_value(h2)
                ask_type(h2)
            ask_type(h1)
        ask_type(h0)
        v0 = h0.value if is_at_rest(h0) else refreshed(h0)
        if n > 1:
            v1 = h1.value if is_at_rest(h1) else refreshed(h1)
            if n > 2:
                v2 = h2.value if is_at_rest(h2) else refreshed(h2)
                if rest is not None:
                    others = [refreshed(h) for h in rest]
    while True:
        serial = trace.serial
        if n > 0:
            i0 = v0.index if v0.serial == serial else enter(trace, v0)
            if n > 1:
                i1 = v1.index if v1.serial == serial else enter(trace, v1)
                if n > 2:
                    i2 = v2.index if v2.serial == serial else enter(trace, v2)
                    if others is not None:
                        indices = indices_of(trace, others)
        if trace.serial == serial:
            break
    state = trace.state
    step = None
    child = state.child if state is not None else None
    if child is not None:
        ask_next(child)
        ask_types(child)
        if (
            child.prim is not prim
            or child.i0 != i0
            or child.i1 != i1
            or child.i2 != i2
            or child.mode is not trace.mode
            or (others is not None and child.rest != indices)
        ):
            pass
        elif (
            (n > 0 and child.t0 is not v0.type)
            or (n > 1 and child.t1 is not v1.type)
            or (n > 2 and child.t2 is not v2.type)
            or (prim.sized and not same_args(child.last_args, values))
            or (others is not None and not same_types(child.trest, others))
        ):
            step = COLD.retype(child, n, v0, v1, v2, others, values)
        else:
            step = child
    if step is None:
        step = COLD.find_child(
            trace, state, prim, n, i0, i1, i2, indices, values, v0, v1, v2, others
        )
        if trace.serial != serial:
            return record(prim, n, h0, h1, h2, rest, values, inplace)
    # -- commit: from here to the end nothing can run foreign Python code in between
    if step.out_type is None:
        t = finish_many(trace, prim, step, h0, values, inplace)
    else:
        t = commit(trace, prim, step, h0, values, inplace)
        if t is None:
            return record(prim, n, h0, h1, h2, rest, values, inplace)
    if n > 0 and inplace is None and any_laid_out(n, h0, h1, h2):
        SLOTS.lay_out(prim, operand_list(n, h0, h1, h2, rest), values, t)
    return t


def record_in_rule(trace, prim, n, h0, h1, h2, rest, values, inplace):
    """`record` inside a rule, whose ops a recorder takes."""
    t = trace.symbolic.record(prim, operand_list(n, h0, h1, h2, rest), values or [])
    if inplace is None:
        return t
    assign(h0, t, inplace)
    return h0


def finish_many(trace, prim, step, h0, values, inplace):
    """Commit the step of an op with several results, and note how these derive from `h0`."""
    results = commit_many(trace, prim, step, values)
    if prim.piece is not None:
        attach_parts(tuple(results), step.outs, h0, prim)
    if inplace is None:
        return results
    assign(h0, results, inplace)
    return h0


def indices_of(trace, others):
    """Indices of operands in the trace; those from outside enter."""
    out = []
    for v in others:
        out.append(v.index if v.serial == trace.serial else enter(trace, v))
    return tuple(out)


def commit(trace, prim, child, h0, values, inplace):
    """Append the step `child`; the handle of its result, or None if the trace was flushed."""
    serial = trace.serial
    # A value off the trie leads to its trace until the flush, and to no such value after it.
    v = watched_value() if child.linked else fresh_value()
    t = None
    old = None
    if inplace is not None:
        old = h0.value
        if (
            h0.derived is not None
            or h0.leaf is not None
            or child.out_type is not old.type
            or (old.requires_grad and not child.requires_grad)
            or old.inference is not trace.mode.inference
            or trace.eager
            or trace.volatile
        ):
            old = None
    if old is None:
        t = fresh_tensor()
    if trace.serial != serial:  # a finalizer recorded or flushed while we allocated
        return None
    out_type = child.out_type
    v.type = out_type
    v.serial = serial
    v.index = trace.n
    v.trace = trace
    v.requires_grad = child.requires_grad
    v.inference = trace.mode.inference
    push(trace.values, v)
    push(trace.states, child)
    trace.n += 1
    trace.ops += 1
    trace.nbytes += out_type.nbytes
    push_all(trace.args, values)
    trace.state = as_state(child) if child.linked else None
    code = current_code()
    if code is not child.code or current_lasti() != child.lasti or child.within:
        note_site(trace, child, code, current_lasti())
    if old is not None:
        trace.touched.append((h0, old if old.trace is not trace else old.index, trace.n))
        h0.value = v
        h0.version += 1
        return h0
    t.value = v
    if prim.is_view:
        attach_view(t, h0, prim, values)
    # A view of shared memory is derived again where it is used; nothing is read before.
    derives = inplace is None and t.derived is not None and t.derived.base is not None
    if trace.eager or (trace.volatile and not derives):
        trace.volatile = False
        flush_now(trace)
    if inplace is not None:
        assign(h0, t, inplace)
        return h0
    return t


def operand_list(n, h0, h1, h2, rest):
    """The operands of a call as a list."""
    out = []
    if n > 0:
        out.append(h0)
    if n > 1:
        out.append(h1)
    if n > 2:
        out.append(h2)
    if rest is not None:
        out.extend(rest)
    return out


def same_args(a, b):
    """Whether two lists of run-time args are equal."""
    if a is None or len(a) != len(b):
        return False
    for i in range(len(a)):
        if a[i] is not b[i] and a[i] != b[i]:
            return False
    return True


def same_types(types, values):
    """Whether the values have exactly these types."""
    i = 0
    for v in values:
        if types[i] is not v.type:
            return False
        i += 1
    return True


def same_kinds(types, others):
    """Whether types are of the same kinds as `others`."""
    for k in range(len(others)):
        a = types[k]
        b = others[k]
        if a.kind is not b.kind:
            return False
    return True


def commit_many(trace, prim, child, values):
    """Commit a step with several results, or with a container of results."""
    serial = trace.serial
    fresh = fresh_handles(child.outs)
    if trace.serial != serial:
        raise GraphError("a trace was flushed by a finalizer while a step was being recorded")
    for t in fresh:
        v = t.value
        v.requires_grad = child.requires_grad and v.type.dtype.category >= 2
        v.inference = trace.mode.inference
        v.serial = serial
        v.index = trace.n
        v.trace = trace
        trace.values.append(v)
        trace.n += 1
        trace.nbytes += v.type.nbytes
    trace.states.append(child)
    trace.ops += 1
    if values is not None:
        trace.args.extend(values)
    trace.state = as_state(child) if child.linked else None
    code = current_code()
    if code is not child.code or current_lasti() != child.lasti or child.within:
        note_site(trace, child, code, current_lasti())
    if trace.eager or trace.volatile:
        trace.volatile = False
        flush_now(trace)
    if prim is None:
        return fresh
    return prim.result_wrap()(fresh)


AUTOBATCH = True  # whether ops of like structure run together
SEVERAL = False  # whether several threads record
QUICK = True  # AUTOBATCH and not SEVERAL


def set_autobatch(on):
    """Say whether ops of like structure run together: then more ops may be pending."""
    global AUTOBATCH
    AUTOBATCH = on
    count_threads()


def attach_view(t, h0, prim, values):
    """Note how a view derives from a base, so that a write to either reaches both."""
    if not prim.is_differentiable:
        SLOTS.attach_detached(t, h0)
        return
    parent = own_alias(h0)
    if prim.check_strides and parent is not None:
        if not SLOTS.attach_reshape(t, h0, prim, values):
            return
    alias = fresh_alias()
    alias.prim = prim
    alias.args = values
    if parent is not None and parent.base is not None:
        alias.base = parent.base
        alias.outer = parent
        alias.plain = parent.plain
    else:
        alias.base = h0
    alias.base._views += 1
    alias.version = alias.base.version
    if h0.value.requires_grad and not t.value.requires_grad:
        alias.plain = True
    t.derived = alias
    t.value.inference = h0.value.inference


# -- computing ------------------------------------------------------------------------------


class FlushJob:
    """All that a flush hands to the executor.

    fault: the exception of an executor that had to leave the flush to another
    """

    def __init__(self, states, values, args, state, sites, serial, touched, extra):
        self.states = states
        self.values = values
        self.args = args
        self.state = state
        self.sites = sites
        self.serial = serial
        self.touched = touched
        self.extra = extra
        self.fault = None


def live_baseline():
    """Reference count of a value that only a trace's list holds, as `wanted` sees it."""
    return count_of_item([Value(None)], 0)


BASELINE = live_baseline()


def wanted(trace):
    """Indices of pending values that something outside the trace still refers to."""
    out = []
    values = trace.values
    for i in range(len(values)):
        ask_ahead(values, i)
        if count_of_item(values, i) > BASELINE:  # few are: the rest is not touched
            v = values[i]
            if v.trace is trace and v.buffer is None:
                out.append(v.index)
    return out


def flush(trace):
    """Have everything pending computed that is still wanted.

    A fiber waits for the rest first: all that is pending in any fiber is computed together.
    """
    if trace.fiber is not None and trace.n > 0 and not trace.flushing:
        if SLOTS.park(trace):
            return
    flush_now(trace)


def flush_now(trace):
    """Compute everything pending that is still wanted; the trace returns to the root.

    If cut short, by an interrupt say, the values not computed yet are pending as before.
    """
    if trace.n == 0 and not trace.flushing:
        return
    left = None
    if SEVERAL:
        left = COLD.leave_own(trace)
    try:
        flush_held(trace)
    finally:
        if left is not None:
            left[0]._acquire_restore(left[1])


def several():
    """Whether several threads record."""
    return SEVERAL


def flush_held(trace):
    """`flush_now`, where this thread may wait for the trace."""
    trace.take()
    try:
        if trace.n == 0 or trace.flushing:
            return
        values = trace.values
        batch = FlushJob.__new__(FlushJob)
        batch.states = trace.states
        batch.values = values
        batch.args = trace.args
        batch.state = trace.state
        batch.sites = trace.sites
        batch.serial = trace.serial
        batch.touched = trace.touched
        batch.extra = trace.extra
        batch.fault = None
        live = trace.live
        if trace.journal is not None:  # then all that may be taken back is wanted, too
            COLD.keep_journal(trace)
            live = None
        if live is None or trace.n_live != trace.n:
            live = wanted(trace)
        trace.reset()
        COUNTS.flushes += 1
        alone = False
        trace.flushing = True
        try:
            if live:
                SLOTS.execute(batch, live)
            alone = refcount(values) == ALONE
        except BaseException as error:
            COLD.put_back(trace, batch, live)
            SLOTS.surface(error)
            raise error  # with the traceback that it has now
        finally:
            trace.flushing = False
            if not alone:
                for i in range(len(values)):
                    ask_ahead(values, i)
                    v = values[i]
                    if v.trace is trace:
                        v.trace = None
                        v.serial = 0
        COLD.count_pass(trace.root, batch.states)
        if COUNTS.states > MAX_STATES:
            SLOTS.evict(ROOT)
    finally:
        trace.give()
    if alone:
        let_go(values, trace, batch.serial)


def alone_baseline():
    """Reference count of the list of values of a batch that nobody else has, in `flush_now`."""
    batch = FlushJob.__new__(FlushJob)
    values = []
    batch.values = values
    return refcount(values)


ALONE = alone_baseline()


def let_go(values, trace, serial):
    """Empty a list of values that were pending: each is looked at once, and most end here.

    The end of a value may call code by which a value that stays enters a trace again: it is told
    by the serial then, and left alone.
    """
    while len(values) > 0:
        v = take_last(values)
        if refcount(v) > 1 and v.trace is trace and v.serial == serial:
            v.trace = None
            v.serial = 0


def passed(trace, states):
    """Count a path that was computed without having been recorded once more."""
    COUNTS.flushes += 1
    COLD.count_pass(trace.root, states)


def synchronize():
    """Compute all that is pending in this thread."""
    flush(current_trace())


def ensure(v):
    """Make a value held, and return the buffer; raises the error of an op that failed."""
    if v.buffer is None:
        compute(v)
    return v.buffer


def compute(v):
    """Have a pending value computed; raises the error of an op that failed."""
    trace = v.trace
    while trace is not None:
        flush(trace)
        if v.buffer is not None:
            return
        if v.trace is trace:
            break
        trace = v.trace  # the flush was cut short, in another thread
    SLOTS.unavailable(v)


# -- calls ----------------------------------------------------------------------------------


def is_number(a, role):
    """Whether an argument is a number of the class that its role asks for."""
    if role == R_FLOAT:
        return type(a) is float
    if role == R_INT:
        return type(a) is int and is_int64(a)
    if role == R_BOOL:
        return type(a) is bool
    return type(a) is complex


def take_ints(items, count, values):
    """Append so many ints from a tuple or list to `values`; False if there is anything else."""
    if not isinstance(items, tuple) and type(items) is not list:
        return False
    if len(items) != count:
        return False
    for x in items:
        if type(x) is not int:
            return False
        values.append(x)
    return True


class OpFunction:
    """The callable behind a public name: an op, found and recorded without a Python frame."""

    def __init__(self, name, binder, inplace):
        self.vectorcall = op_address()
        self.__name__ = self.__qualname__ = name
        self.__module__ = "wend"
        self.binder = binder
        self.inplace = inplace
        self.plans = []
        self.plan0 = self.overloads = None
        self.lengths = {}  # plans of calls with a list of tensors alone, by length
        self.one = None  # primitives of the quickest forms: a tensor,
        self.two = None  # two tensors,
        self.three = None  # three tensors,
        self.pair = None  # two tensors in a list or tuple,
        self.with_float = self.with_int = None  # a tensor and a number,
        self.from_float = self.from_int = None  # a number and a tensor
        self.general = None  # Python function for calls that do not come down to a single op

    def __call__(self, *args, **kwargs):
        return self.call(args + tuple(kwargs.values()), len(args), tuple(kwargs) or None)

    def __get__(self, obj, cls):
        if not isinstance(obj, Tensor):  # as PyTorch's built-in functions
            return self
        return bound_method(self, obj)

    @property
    def primitive(self):
        """The class of the op; the first of several."""
        return self.binder.cls

    @property
    def __signature__(self):
        """Parameters, for help() and IDEs."""
        return SLOTS.signature(self)

    def __repr__(self):
        return f"<op {self.__name__}>"

    def __reduce__(self):
        return SLOTS.op_by_name, (self.__name__, self.inplace)

    def call1(self, x):
        """Call with a single positional argument."""
        prim = self.one
        if prim is not None and type(x) is Tensor:
            twin = self if self.inplace else None
            return record(prim, 1, as_handle(x), None, None, None, None, twin)
        return call_with1(self, x)

    def quick2(self, x, y):
        """Two tensors, or a tensor and a number, in a form met before; None for all else."""
        if type(x) is Tensor:
            if type(y) is Tensor:
                prim = self.two
                if prim is None:
                    return None
                twin = self if self.inplace else None
                return record(prim, 2, as_handle(x), as_handle(y), None, None, None, twin)
            if type(y) is float:
                prim = self.with_float
            elif type(y) is int:
                prim = self.with_int
            else:
                return None
            if prim is None:
                return None
            return record(prim, 1, x, None, None, None, [y], self if self.inplace else None)
        if type(y) is Tensor:
            if type(x) is float:
                prim = self.from_float
            elif type(x) is int:
                prim = self.from_int
            else:
                return None
            if prim is not None:
                return record(prim, 1, y, None, None, None, [x], None)
        return None

    def call(self, args, nargs, kwnames):
        """Call with raw arguments: `nargs` positional ones, then those named by `kwnames`."""
        if kwnames is None:
            if nargs == 1:
                a = arg(args, 0)
                if type(a) is Tensor:
                    if self.one is not None:
                        twin = self if self.inplace else None
                        return record(self.one, 1, as_handle(a), None, None, None, None, twin)
                elif self.pair is not None and type(a) is tuple and len(a) == 2:
                    two = a
                    if type(two[0]) is Tensor and type(two[1]) is Tensor:
                        x = as_handle(two[0])
                        y = as_handle(two[1])
                        return record(self.pair, 2, x, y, None, None, None, None)
            elif nargs == 2:
                a = self.quick2(arg(args, 0), arg(args, 1))
                if a is not None:
                    return a
            elif nargs == 3 and self.three is not None:
                a = arg(args, 0)
                if type(a) is Tensor and is_plain(arg(args, 1)) and is_plain(arg(args, 2)):
                    x = as_handle(arg(args, 1))
                    y = as_handle(arg(args, 2))
                    twin = self if self.inplace else None
                    return record(self.three, 3, as_handle(a), x, y, None, None, twin)
        return self.call_planned(args, nargs, kwnames)

    def call_planned(self, args, nargs, kwnames):
        """`call`, in a form that a plan is known for."""
        plan = self.plan0
        k = 0
        if nargs == 1 and kwnames is None and len(self.lengths) > 0:
            a = arg(args, 0)
            if type(a) is list or type(a) is tuple:
                known = self.lengths.get(len(a))
                if known is not None:
                    plan = known
                    k = -1  # if this does not fit, the first of `plans` may
        while plan is not None:
            if plan.fits(args, nargs, kwnames):
                found = self.record_planned(plan, k, args, nargs, kwnames)
                if found is not NotImplemented:
                    return found
            k += 1
            plan = self.plans[k] if k < len(self.plans) else None
        return COLD.call_cold(self, args, nargs, kwnames)

    def record_planned(self, plan, k, args, nargs, kwnames):
        """Take a call apart as plan k says, and record; NotImplemented if it does not fit."""
        n = 0
        h0 = None
        h1 = None
        h2 = None
        rest = None
        values = [] if plan.has_args else None
        for j in range(plan.n_slots):
            role = plan.roles[j]
            if role == R_DEFAULT:
                values.append(plan.extras[j])
                continue
            a = arg(args, plan.raws[j])
            if role == R_TENSOR:
                if type(a) is not Tensor and type(a) is not LAST_PLAIN[0]:
                    if not isinstance(a, Tensor):
                        return NotImplemented
                    if type(a) not in PLAIN_TYPES and overrides(a):
                        return COLD.call_override(self, args, nargs, kwnames)
                if n == 0:
                    h0 = a
                elif n == 1:
                    h1 = a
                elif n == 2:
                    h2 = a
                else:
                    if rest is None:
                        rest = roomy(4)
                    push(rest, a)
                n += 1
            elif role == R_TENSORS:
                if type(a) is not list and type(a) is not tuple:
                    return NotImplemented
                if len(a) != plan.extras[j]:
                    return NotImplemented
                for x in a:
                    if type(x) is not Tensor and type(x) is not LAST_PLAIN[0]:
                        if not isinstance(x, Tensor):
                            return NotImplemented
                        if type(x) not in PLAIN_TYPES and overrides(x):
                            return COLD.call_override(self, args, nargs, kwnames)
                    if n == 0:
                        h0 = x
                    elif n == 1:
                        h1 = x
                    elif n == 2:
                        h2 = x
                    else:
                        if rest is None:
                            rest = roomy(4)
                        push(rest, x)
                    n += 1
            elif role == R_INTS:
                if not take_ints(a, plan.extras[j], values):
                    return NotImplemented
            elif is_number(a, role):
                values.append(a)
            else:
                return NotImplemented
        if k > 0:
            self.promote(k, plan)
        if plan.prim.check_strides and h0.derived is not None:
            SLOTS.check_view(plan.prim, h0, values)
        if plan.same_dtype is not None and h0.value.type.dtype is plan.same_dtype:
            return h0
        return record(plan.prim, n, h0, h1, h2, rest, values, self if self.inplace else None)

    def promote(self, k, plan):
        """Move the plan just used to the front."""
        plans = self.plans
        plans[k] = plans[0]
        plans[0] = plan
        self.plan0 = plan


def record_list(prim, tensors, values):
    """`record` for operands in a list."""
    n = len(tensors)
    h0 = tensors[0] if n > 0 else None
    h1 = tensors[1] if n > 1 else None
    h2 = tensors[2] if n > 2 else None
    rest = tensors[3:] if n > 3 else None
    return record(prim, n, h0, h1, h2, rest, values if len(prim.size_mask) > 0 else None, None)


def overrides(a):
    """Whether the class of `a` overrides `__torch_function__`; plain classes are noted."""
    cls = type(a)
    if cls in PLAIN_TYPES:
        return False
    if SLOTS.is_plain(cls):
        PLAIN_TYPES[cls] = True
        LAST_PLAIN[0] = cls
        return False
    return SLOTS.override_enabled()


def is_plain(a):
    """Whether an argument is a tensor that does not override ops, of a class met before."""
    return type(a) is Tensor or type(a) is LAST_PLAIN[0] or type(a) in PLAIN_TYPES


def has_override(a):
    """Whether an argument, or an item of a list of tensors, overrides ops."""
    cls = type(a)
    if cls is Tensor:
        return False
    if cls is list or cls is tuple:
        for item in a:
            if type(item) is not Tensor and hasattr(type(item), "__torch_function__"):
                if overrides(item):
                    return True
        return False
    return hasattr(cls, "__torch_function__") and overrides(a)


def call_op(function, args, nargs, kwnames):
    """Entry of calls from C."""
    return function.call(args, nargs, kwnames)


def call_with1(function, x):
    """Call an op with a single argument (compiled, from an array on the stack: `callables.h`)."""
    if COMPILED:
        return native_call1(function, x)
    return function.call((x,), 1, None)


def call_with2(function, x, y):
    """Call an op with two arguments."""
    if COMPILED:
        return native_call2(function, x, y)
    return function.call((x, y), 2, None)


def assign(handle, result, function):
    """Rebind a handle to the result of an in-place op; aliases and the outside world follow."""
    value = result.value
    trace = current_trace()
    if (
        handle.derived is not None
        or handle.leaf is not None
        or value.type is not handle.value.type
        or value.trace is not trace
        or (handle.value.requires_grad and not value.requires_grad)
        or handle.value.inference is not value.inference
    ):
        SLOTS.assign(handle, result, function)
        return
    old = handle.value
    trace.touched.append((handle, old if old.trace is not trace else old.index, trace.n))
    handle.value = value
    handle.version += 1


def end_value(v):
    """Let go of all that a value refers to, at its end."""
    empty_value(v)


def end_record(step):
    """As `end_value`, for a record."""
    empty_record(step)


def end_tensor(handle):
    """As `end_value`, for a tensor that nothing has been given but by ops."""
    empty_tensor(handle)


def leave_base(alias):
    """Let the base of a view know that the view has ended."""
    base = alias.base
    if base is not None:
        if base._moved:
            call_aside(SLOTS.view_ended, base, alias.version)  # the alias itself is ending
        else:
            base._views -= 1


def end_alias(alias):
    """Let go of all that an alias refers to, at its end."""
    leave_base(alias)
    empty_alias(alias)


def install():
    """Give the compiled types the call slots and the openness of Python classes."""
    probe = OpFunction.__new__(OpFunction)
    set_probe(probe)
    set_op_target()
    install_vectorcall(probe, 1)
    set_ends()
    mark_tensor(native_new(Tensor))
    keep_memory(
        Value.__new__(Value),
        native_new(Tensor),
        Alias.__new__(Alias),
        State(None, None),
        Record.__new__(Record),
    )
    for cls in (Tensor, OpFunction):
        unlock_type(cls)
    tell_operators(Tensor)


def mark_tensor(probe):
    """Let the shim find the field of the instance dict, which is made only when used."""
    probe.dict_slot = 0x57454E44
    install_lazy_dict(probe, 0)


def set_probe(probe):
    """Mark the call slot field so that the shim finds its offset."""
    probe.vectorcall = 0x57454E44


if COMPILED:
    install()
