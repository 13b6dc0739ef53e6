# mypy: ignore-errors
# cython: boundscheck=False, wraparound=False, auto_pickle=False
"""Types of values, patterns of calls, and all that the parts of the hot core share.

Compiled with the types in `_types.pxd`, or run as plain Python: see `_hot.py`.  This is the lowest
part of the core.  A step of a known path only compares its types: the rest runs for new sizes.
`type_tag`, `put_type` and the like come from `type_table.h`, or, uncompiled, from `_select.py`.
"""

from wend._engine.base.arithmetic import power, quotient
from wend._engine.base.devices import CPU
from wend._engine.base.errors import DeviceError, ShapeError
from wend._engine.base.shapes import Size

MOST_SLOTS = 1 << 14  # of the table of types
WAYS = 4  # slots in which a type may stand
MAX_ROW = 8  # dims of which a type keeps the extents as C integers
MOST_DIMS = 64  # of an array of NumPy
LARGE = 1 << 31
LOW_32 = (1 << 32) - 1


# -- shared by all parts --------------------------------------------------------------------


class Counts:
    """Counters of the process: states of all tries, flushes, and how often type rules changed.

    epoch    of the default dtype, which type rules may ask for
    """

    def __init__(self):
        self.states = 0
        self.flushes = 0
        self.epoch = 0


class CoreSlots:
    """Upward calls: each field is a function that an upper layer fills in when it is imported.

    A field is None until then.  docs/architecture.md says which module fills which.
    """

    def __init__(self):
        # Defaults of a thread.
        self.default_device = None  # (): device of results without operands
        self.default_eager = None  # (): whether ops are computed at once
        self.default_mode = None  # (): the Mode of a thread that begins to record
        # Tensors as Python objects. First come protocols that are not native, or not in all cases.
        self.bool = None  # (handle): truth of a tensor of any rank
        self.complex = None  # (handle): the only element as a complex
        self.contains = None  # (handle, item): whether an element equals the item
        self.float = None  # (handle): the only element as a float
        self.getitem = None  # (handle, key): indexing by keys that are no ints and slices
        self.index = None  # (handle): the only element as an index
        self.int = None  # (handle): the only element as an int
        self.iter = None  # (handle): an iterator over the first dim
        self.len = None  # (handle): extent of the first dim, or the error of a 0-d tensor
        self.operator = None  # (name, op, x, y, swap): operators with foreign operands
        self.repr = None  # (handle): the text of a tensor
        self.setitem = None  # (handle, key, value): writes through an index
        self.size = None  # (handle, dim): an extent, for odd dims
        self.tensor_init = None  # (handle, args, kwargs): `Tensor(...)`
        # Gradients.
        self.accumulate = None  # (leaf, gradient): adds to a leaf's gradient, and calls hooks
        self.backward = None  # (handle, gradient, retain, create, inputs): an unknown pass
        self.backward_at_once = None  # (trace, seeds): of work that never repeats; else None
        self.backward_in_parts = None  # (trace, value, retain): of a new path's parts
        self.backward_on = None  # (trace, retain, leaves, older, gradients): to older segments
        self.check_saved = None  # (op, program, values): refuses to save inference tensors
        self.go_on = None  # (trace, retain, heap, segments, pending, totals): the walk in Python
        self.node_of = None  # (segment, index): name and line of a graph node, for errors
        self.nonleaf_grad = None  # (handle): `.grad` of a non-leaf, with its warning
        self.pass_segments = None  # backward through segments, natively: see `_launch.py`
        self.requires_grad_ = None  # (handle, flag): makes a leaf, or an ordinary tensor
        self.set_grad = None  # (handle, value): assigns to `.grad`
        self.whole = None  # (program, requires_grad): the gradient of a composite as a single op
        # Views and shared storage.
        self.assign = None  # (handle, result, op): rebinds a handle that others derive from
        self.attach_detached = None  # (view, source): lets both share a storage from now on
        self.attach_reshape = None  # (view, source, op, args): whether the result is a view
        self.become_view = None  # (handle, view, name): an in-place view op
        self.check_view = None  # (op, handle, args): the error of a `view` that strides forbid
        self.lay_out = None  # (op, operands, args, result): order in memory; op None: of a gradient
        self.note_holders = None  # (noted, handle): notes holders that a write to a view changes
        self.rederive = None  # (handle): renews the value after a change of base or storage
        self.relabel = None  # (handle): renews the value with the handle's own leaf
        self.view_ended = None  # (base, version): a view of a moved base has ended
        self.write_back = None  # (storage, value): memory known outside gets its old contents
        self.writes = None  # (handle): number of writes: `_version`
        # Forms of calls.
        self.call_out = None  # (function, args, kwargs): calls with `out=`
        self.even_parts = None  # (count, dim): the op that cuts a dim into equal parts
        self.is_plain = None  # (class): whether `__torch_function__` is left alone
        self.op_by_name = None  # (name, in place): the op of that name, for pickle
        self.override_enabled = None  # (): whether users' `__torch_function__` is called
        self.signature = None  # (op): the parameters, for help()
        self.strip_device = None  # (op, args, kwargs): the arguments without `device=`
        self.torch_function = None  # (op, args, kwargs): calls users' `__torch_function__`
        # Flushes and lines.
        self.check_held = None  # (op, operands, args): checks the values of held indices
        self.check_numbers = None  # (op, number of operands, args): checks numbers
        self.evict = None  # (root): drops the older half of a trie
        self.execute = None  # (job, wanted): computes one flush
        self.execute_many = None  # (jobs, wanted of each): computes several flushes together
        self.module_error = None  # (error, trace): notes the module path on an exception
        self.on_beat = None  # (trace, code, instruction): whether the program's loop begins anew
        self.park = None  # (trace): whether a fiber waited and has its values now
        self.surface = None  # (error): shortens the traceback of an error of a flush
        self.take_back = None  # (trace, start, error): undoes rebindings of a block
        self.unavailable = None  # (value): raises the error of a failed computation
        self.user_site = None  # (): code and instruction of the user's line


COUNTS = Counts()
SLOTS = CoreSlots()


# -- types ----------------------------------------------------------------------------------


class RankedType:
    """Structural part of a type: dtype, rank, device.  Interned."""

    def __init__(self, dtype, rank, device):
        self.dtype = dtype
        self.rank = rank
        self.device = device
        self.itemsize = dtype.itemsize
        self.salt = (len(KINDS) + 1) * 2654435761 & LOW_32
        self.wide = {}  # types of more than MAX_ROW dims, by shape
        self.leaves = [LeafPrimitive(self, g) for g in range(4)]
        self.plain_leaf = self.leaves[0]

    def __repr__(self):
        return f"{self.dtype}[{self.rank}d]"


class TensorType:
    """Shape, dtype and device of a value; interned, compared by identity on the fast path.

    Identity implies equality; the table is bounded, so that equality does not imply identity.
    The extents lie in `row`, as C integers; of more than MAX_ROW dims, in the tuple alone.
    """

    @property
    def dims(self):
        """Extents of the dims, as a plain tuple (made when it is first asked for)."""
        return dims_of(self)

    @property
    def shape(self):
        """Extents of the dims, as a Size (made when it is first asked for)."""
        if self.size is None:
            self.size = tuple.__new__(Size, dims_of(self))
        return self.size

    def __repr__(self):
        return f"{self.dtype}{list(self.shape)}"

    def __reduce__(self):
        return intern_type, (self.dims, self.dtype, self.device)


KINDS = {}
TYPE_MASK = 0  # of the table of types, which is the shim's: WAYS neighbours for each hash
TURN = 0  # which of the neighbours gives way next


def intern_kind(dtype, rank, device):
    """The only RankedType with this dtype, rank and device. Raises ShapeError for too many dims."""
    key = (dtype, rank, device)
    kind = KINDS.get(key)
    if kind is None:
        if rank > MOST_DIMS:
            raise ShapeError(f"a tensor has at most {MOST_DIMS} dims, as in NumPy, and not {rank}")
        kind = KINDS[key] = RankedType(dtype, rank, device)
    return kind


def dims_of(type_):
    """Extents of a type's dims, as a tuple."""
    if type_.extents is None:
        type_.extents = tuple([type_.row[k] for k in range(type_.rank)])
    return type_.extents


def type_in_kind(kind, shape):
    """The interned type of this kind with the given shape (a tuple of ints)."""
    row = [0, 0, 0, 0, 0, 0, 0, 0]
    n = len(shape)
    if n > MAX_ROW:
        found = kind.wide.get(shape)
        if found is None:
            found = new_type(kind, row, 0)
            found.extents = shape
            found.rank = n
            for extent in shape:
                found.nbytes = product(found.nbytes, extent)
            for k in range(MAX_ROW):
                found.row[k] = shape[k]
            if len(kind.wide) >= 512:
                kind.wide.clear()
            kind.wide[shape] = found
        return found
    for k in range(n):
        row[k] = shape[k]
    return type_of_row(kind, row, n)


def type_of_row(kind, row, n):
    """The interned type of this kind with the extents row[:n], n <= MAX_ROW.

    The table knows the types that somebody has; a new type takes the place of another if there is
    no empty slot.
    """
    global TURN
    h = kind.salt
    for k in range(n):
        h = ((h ^ row[k]) * 1000003) & LOW_32
    h = h ^ (h >> 15)
    i = h & TYPE_MASK
    place = -1
    for k in range(i, i + WAYS):
        tag = type_tag(k)
        if tag == h:
            found = type_at(k)
            if found is not None and found.kind is kind and same_row(found.row, row, n):
                return found
        elif tag == 0:
            place = k
    made = new_type(kind, row, n)
    if place < 0:
        TURN += 1
        place = i + (TURN & (WAYS - 1))
    put_type(place, h, made)
    return made


def bound_types(slots):
    """Find at most so many types, a power of two; those known until now are forgotten."""
    global TYPE_MASK
    if not WAYS <= slots <= MOST_SLOTS or slots & (slots - 1):
        raise ValueError(f"no table of {slots} slots")
    TYPE_MASK = slots - WAYS
    forget_types()


bound_types(2048)


def same_row(a, b, n):
    """Whether a[:n] and b[:n] are equal."""
    for k in range(n):
        if a[k] != b[k]:
            return False
    return True


def same_type(a, b):
    """Whether two types are equal: where the table has let go of a type, a twin may be made."""
    if a is b:
        return True
    if a.kind is not b.kind or a.rank != b.rank:
        return False
    if a.rank > MAX_ROW:
        return dims_of(a) == dims_of(b)
    return same_row(a.row, b.row, a.rank)


def same_tail(a, b):
    """Whether the shapes of two types are equal but for their first dim."""
    if a.rank != b.rank:
        return False
    if a.rank > MAX_ROW:
        return dims_of(a)[1:] == dims_of(b)[1:]
    for k in range(1, a.rank):
        if a.row[k] != b.row[k]:
            return False
    return True


def new_type(kind, row, n):
    """A type of this kind with the extents row[:n], not interned yet."""
    made = fresh_tensortype()
    if not COMPILED:
        made.row = [0, 0, 0, 0, 0, 0, 0, 0]
    size = kind.itemsize
    for k in range(n):
        extent = row[k]
        made.row[k] = extent
        size = size * extent if size < LARGE and extent < LARGE else product(size, extent)
    made.rank = n
    made.dtype = kind.dtype
    made.device = kind.device
    made.kind = kind
    made.nbytes = size
    return made


def product(a, b):
    """a * b. Raises OverflowError, compiled, where that needs more than 64 bits."""
    return a * b


def intern_type(shape, dtype, device):
    """The type with this shape (tuple of ints), dtype and device."""
    return type_in_kind(intern_kind(dtype, len(shape), device), shape)


def symbolic_type(shape, dtype, device):
    """A type whose extents may be symbolic; not interned, never leaves a trace of a rule."""
    found = TensorType.__new__(TensorType)
    found.extents = tuple(shape)
    found.rank = len(found.extents)
    found.size = shape
    found.dtype = dtype
    found.device = device
    return found


# -- expressions of extents (see symbolic.py for the opcodes) -------------------------------


def evaluate(expr, types, args):
    """Value of an expression over types[id].shape[axis] and args[k]."""
    if type(expr) is not tuple:
        return expr
    e = expr
    op = e[0]
    if op == DIM:
        t = types[e[1]]
        return dims_of(t)[e[2]]
    if op == ARG:
        return args[e[1]]
    a = evaluate(e[1], types, args)
    if op == NEG:
        return -a
    b = evaluate(e[2], types, args)
    return binary(op, a, b)


def binary(op, a, b):
    """Result of an arithmetic step or a comparison."""
    if op == ADD:
        return a + b
    if op == SUB:
        return a - b
    if op == MUL:
        return a * b
    if op == FLOORDIV:
        return a // b
    if op == MOD:
        return a % b
    if op == MIN:
        return b if b < a else a
    if op == MAX:
        return b if b > a else a
    if op == DIV:
        return quotient(a, b)
    if op == POW:
        return power(a, b)
    if op == EQ:
        return a == b
    if op == NE:
        return a != b
    if op == LT:
        return a < b
    if op == LE:
        return a <= b
    if op == GT:
        return a > b
    return a >= b


class Program:
    """The pattern of a call: guards with outcomes, and the extents of the results."""

    def __init__(self, prim, guards, outs):
        self.prim = prim
        self.guards = guards
        self.outs = outs
        self.kinds = None
        self.code = None
        self.numbers = ()
        self.as_operand = -1
        self.uniform = False
        translate(self)
        self.graph = None
        self.templates = {}
        self.runner = None
        self.sample_types = None
        self.sample_args = None
        self.many = False  # whether results are returned in a container,
        self.wrap = None  # which this makes
        self.real = False  # whether any result is of a dtype that gradients exist for,
        self.all_real = True  # or whether all are
        self.differentiable = prim.is_differentiable and differentiable_dtypes(outs)

    def matches(self, types, args):
        """Whether the guards have the same outcomes for these types and run-time args."""
        for guard in self.guards:
            a = evaluate(guard[1], types, args)
            b = evaluate(guard[2], types, args)
            if binary(guard[0], a, b) is not guard[3]:
                return False
        return True

    def resize(self, t0, t1, t2, more, args):
        """Types of the results for other sizes of the same kinds, natively.

        t0, t1, t2, more: types of the operands     args: run-time args
        Returns the only result's type, or a tuple; None if a guard fails, or C cannot tell.
        """
        code = self.code
        if code is None or self.kinds is None:
            return None
        if not COMPILED:
            stack = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
            row = [0, 0, 0, 0, 0, 0, 0, 0]
        made = None
        result = None
        top = -1
        i = n_made = rank = 0
        while i < len(code):
            op = code[i]
            if op == C_ARG:
                top += 1
                stack[top] = args[code[i + 1]]
                i += 2
            elif op == C_GUARD:
                top -= 2
                if holds(code[i + 1], stack[top + 1], stack[top + 2]) != (code[i + 2] == 1):
                    return None
                i += 3
            elif op == C_SMALL:
                top += 1
                stack[top] = code[i + 1]
                i += 2
            elif op == C_EQUAL or op == C_DIM or op == C_PUT_DIM:
                extent = row_of(code[i + 1], t0, t1, t2, more)[code[i + 2]]
                i += 3
                if op == C_EQUAL:
                    if extent != row_of(code[i], t0, t1, t2, more)[code[i + 1]]:
                        return None
                    i += 2
                elif op == C_DIM:
                    top += 1
                    stack[top] = extent
                else:
                    row[rank] = extent
                    rank += 1
            elif op == C_SAME:
                if alike(
                    row_of(code[i + 1], t0, t1, t2, more), row_of(code[i + 2], t0, t1, t2, more)
                ):
                    i += code[i + 3]
                i += 4
            elif op == C_NUMBER:
                top += 1
                stack[top] = self.numbers[code[i + 1]]
                i += 2
            elif op == C_PUT:
                row[rank] = stack[top]
                rank += 1
                top -= 1
                i += 1
            elif op == C_TYPE:
                if n_made == 1:
                    result = [made]
                made = type_of_row(self.kinds[n_made], row, rank)
                if result is not None:
                    result.append(made)
                n_made += 1
                rank = 0
                i += 1
            elif op == NEG:
                stack[top] = -stack[top]
                i += 1
            else:
                top -= 1
                if not is_native(op, stack[top], stack[top + 1]):
                    return None
                stack[top] = combined(op, stack[top], stack[top + 1])
                i += 1
        if self.as_operand >= 0:
            return operand_type(self.as_operand, t0, t1, t2, more)
        return made if result is None else tuple(result)

    def out_types(self, types, args):
        """Types of the results for these operand types and run-time args."""
        if self.kinds is None:
            device = self.prim.place_of(types)
            self.kinds = tuple([intern_kind(d, len(s), device) for s, d in self.outs])
            settle_operand(self, types)
        result = []
        for i in range(len(self.outs)):
            row = self.outs[i][0]
            shape = []
            for expr in row:
                shape.append(evaluate(expr, types, args))
            result.append(type_in_kind(self.kinds[i], tuple(shape)))
        return tuple(result)


def holds(op, a, b):
    """Outcome of a comparison of two C integers."""
    if op == EQ:
        return a == b
    if op == NE:
        return a != b
    if op == LT:
        return a < b
    if op == LE:
        return a <= b
    if op == GT:
        return a > b
    return a >= b


def is_native(op, a, b):
    """Whether C computes `a op b` as Python does: within 64 bits, no negative quotients."""
    if op == MUL:
        return -LARGE < a < LARGE and -LARGE < b < LARGE
    if op == FLOORDIV or op == MOD:
        return b > 0 and a >= 0
    return True


def combined(op, a, b):
    """Result of an arithmetic step on C integers: see `is_native`."""
    if op == ADD:
        return a + b
    if op == SUB:
        return a - b
    if op == MUL:
        return a * b
    if op == MIN:
        return b if b < a else a
    if op == MAX:
        return b if b > a else a
    return a // b if op == FLOORDIV else a % b


def row_of(k, t0, t1, t2, more):
    """The extents of the type of operand number k; of more than MAX_ROW dims, the first ones."""
    if k == 0:
        return t0.row
    if k == 1:
        return t1.row
    if k == 2:
        return t2.row
    t = more[k - 3]
    return t.row


def alike(a, b):
    """Whether two rows are equal (without a branch for each extent)."""
    unlike = 0
    for k in range(8):
        unlike |= a[k] ^ b[k]
    return unlike == 0


def operand_type(k, t0, t1, t2, more):
    """The type of operand number k."""
    return t0 if k == 0 else t1 if k == 1 else t2 if k == 2 else more[k - 3]


# Instructions of `Program.code`, beside the opcodes of expressions (2..9) on a stack of ints.
C_DIM = 64  # push types[k].dims[axis]
C_ARG = 65  # push args[k]
C_NUMBER = 66  # push numbers[k]
C_SMALL = 69  # push the next byte, as a number
C_EQUAL = 67  # give up unless two dims are equal
C_GUARD = 68  # pop two; give up unless the comparison has this outcome
C_PUT = 70  # pop the next extent of the result
C_PUT_DIM = 71  # the next extent is types[k].dims[axis]
C_TYPE = 72  # end a result
C_SAME = 73  # if two operands' rows are equal, skip so many bytes


def translate(program):
    """Write guards and extents of a program as code for `Program.resize`, if expressible."""
    code = []
    numbers = []
    pair = None  # operands of the equal dims being written, and the place of their count in C_SAME
    for op, a, b, outcome in program.guards:
        if op == EQ and outcome and is_dim(a) and is_dim(b):
            if a[2] != b[2]:
                pair = None
            elif pair is None or pair[0] != a[1] or pair[1] != b[1] or code[pair[2]] > 200:
                code.extend([C_SAME, a[1], b[1], 0])
                pair = (a[1], b[1], len(code) - 1)
            if pair is not None:
                code[pair[2]] += 5
            code.extend([C_EQUAL, a[1], a[2], b[1], b[2]])
            continue
        pair = None
        if not translate_expr(a, code, numbers, 0) or not translate_expr(b, code, numbers, 1):
            return
        code.extend([C_GUARD, op, 1 if outcome else 0])
    n_guards = len(code)
    for row, _ in program.outs:
        if len(row) > MAX_ROW:
            return
        for expr in row:
            if is_dim(expr):
                code.extend([C_PUT_DIM, expr[1], expr[2]])
                continue
            if not translate_expr(expr, code, numbers, 0):
                return
            code.append(C_PUT)
        code.append(C_TYPE)
    if len(numbers) > 255 or max(code, default=0) > 255:
        return
    program.numbers = tuple(numbers)
    program.code = bytes(code)
    program.n_guards = n_guards


def is_dim(expr):
    """Whether an expression is a dim of an operand, among those that types keep in a row."""
    return type(expr) is tuple and expr[0] == DIM and expr[2] < MAX_ROW


def translate_expr(expr, code, numbers, depth):
    """Append the code of an expression; returns whether the code could be written."""
    if type(expr) is not tuple:
        if type(expr) is not int or not -LARGE < expr < LARGE:
            return False
        if 0 <= expr < 256:
            code.extend([C_SMALL, expr])
        else:
            code.extend([C_NUMBER, len(numbers)])
            numbers.append(expr)
        return True
    op = expr[0]
    if op == DIM:
        code.extend([C_DIM, expr[1], expr[2]])
        return expr[2] < MAX_ROW
    if op == ARG:
        code.extend([C_ARG, expr[1]])
        return True
    if op > MAX or depth > 12 or not translate_expr(expr[1], code, numbers, depth):
        return False
    if op != NEG and not translate_expr(expr[2], code, numbers, depth + 1):
        return False
    code.append(op)
    return True


def settle_operand(program, types):
    """Where the only result has the type of an operand, its extents need not be computed."""
    if len(program.outs) != 1 or program.code is None:
        return
    row = program.outs[0][0]
    equal = set()
    for op, a, b, outcome in program.guards:
        if op == EQ and outcome:
            equal |= {(a, b), (b, a)}
    for k in range(len(types)):
        if types[k].kind is not program.kinds[0] or not row:
            continue
        own = [(DIM, k, axis) for axis in range(len(row))]
        if set(zip(row, own, strict=True)) <= equal | {(dim, dim) for dim in row}:
            program.as_operand = k
            program.code = program.code[: program.n_guards]
            program.uniform = not program.many and asks_equality(program.code)
            return


def asks_equality(code):
    """Whether guards ask for nothing but that operands be of equal shape."""
    i = 0
    while i < len(code):
        if code[i] != C_SAME:
            return False
        i += 4 + code[i + 3]
    return True


def differentiable_dtypes(outs):
    """Whether any of these results (extents, dtype) is of a dtype that gradients exist for."""
    for row in outs:
        if row[1].category >= 2:
            return True
    return False


# -- ops and modes --------------------------------------------------------------------------


class PrimitiveBase:
    """Native half of `core.primitive.Primitive`."""

    def setup(self, form, is_view, is_composite, differentiable):
        """Derive the fields that the core reads while recording from the form of the operands."""
        self.form = form
        self.is_view = is_view
        self.is_composite = is_composite
        self.is_differentiable = differentiable
        self.programs = {}
        self.memo = {}
        self.epoch = COUNTS.epoch
        self.last_n = -1
        self.quick_n = -1  # the same where only types have to be looked at: `record`;
        self.flows = False  # whether gradients flow through the op then
        self.other_t0 = None  # operands of the same kinds, of types met before the last ones,
        self.other_t1 = None
        self.other_t2 = None
        self.other_outs = None  # and of results: models have few layers of unlike widths
        size_mask = []
        categories = []
        self.plain_form = True
        for entry in form:
            if entry == "T":
                continue
            self.plain_form = False
            if entry is None:
                continue
            if entry == "I":
                size_mask.append(True)
                categories.append(1)
            elif entry[0] == "S":
                size_mask.extend([True] * entry[1])
                categories.extend([1] * entry[1])
            elif entry[0] == "N":
                size_mask.append(False)
                categories.append(entry[1])
        self.size_mask = tuple(size_mask)
        self.categories = tuple(categories)
        self.sized = True in size_mask
        self.all_sizes = False not in size_mask
        self.check_strides = False
        self.check_held = False
        self.check_numbers = False
        self.pick_rows = False
        self.joins_held = False
        self.piece = None  # of an op whose results are views: the op that gives a single view,
        self.piece_dim = 0  # by (start, length) along this dim;
        self.piece_outs = None  # for results of these types
        self.piece_args = None  # the args are these
        self.cuts_dim = -1  # of an op that takes (start, stop, step) along a dim: that dim,
        self.cut_from = None  # the type inside of which the last part lay, with a step of 1,
        self.cut = None  # the type of that part,
        self.cut_program = None  # and that type's program
        self.region_code = 0  # its code in the batching scheduler (0: not asked yet)

    def arrange(self, tensors, args):
        """Operands and run-time args, an entry per non-attribute parameter of the signature."""
        if self.plain_form:
            return list(tensors)
        out = []
        t = 0
        a = 0
        for entry in self.form:
            if entry == "T":
                out.append(tensors[t])
                t += 1
            elif entry is None:
                out.append(None)
            elif entry == "I" or entry[0] == "N":
                out.append(args[a])
                a += 1
            elif entry[0] == "L":
                out.append(list(tensors[t : t + entry[1]]))
                t += entry[1]
            else:
                out.append(tuple(args[a : a + entry[1]]))
                a += entry[1]
        return out

    def place_of(self, types):
        """Device of the results: an accelerator if an operand lies there, else the CPU."""
        for t in types:
            if t.device is not CPU:
                return t.device
        return types[0].device if types else SLOTS.default_device()

    def check_places(self, types):
        """Raise DeviceError if operands lie on several devices; 0-d tensors may lie on the CPU."""
        place = self.place_of(types)
        for t in types:
            if t.device is not place and (t.rank or t.device is not CPU):
                raise DeviceError(
                    f"{self.name}: expected all tensors to be on the same device, but found "
                    f"at least two devices, {place} and {t.device}"
                )

    def typed(self, types, args):
        """(program, result types) for operand types and run-time args; cold ones run the rule."""
        if self.epoch != COUNTS.epoch:
            self.last_n = -1
            self.quick_n = -1
            self.other_t0 = None
            self.memo.clear()
            self.programs.clear()
            self.epoch = COUNTS.epoch
        if self.sized:
            if self.all_sizes:
                key = (tuple(types), tuple(args))
            else:
                sizes = [args[k] for k in range(len(args)) if self.size_mask[k]]
                key = (tuple(types), tuple(sizes))
        else:
            key = tuple(types)
        found = self.memo.get(key)
        if found is not None:
            return found
        kinds = tuple([t.kind for t in types])
        programs = self.programs.get(kinds)
        program = None
        if programs is not None:
            for candidate in programs:
                if candidate.matches(types, args):
                    program = candidate
                    break
        if program is None:
            program = self.new_program(kinds, types, args)
        found = (program, program.out_types(types, args))
        if len(self.memo) >= 512:
            self.memo.clear()
        self.memo[key] = found
        return found

    def new_program(self, kinds, types, args):
        """Run the type rule for a pattern not met before."""
        self.check_places(types)
        program = self.trace_rule(types, args)
        program.wrap = self.result_wrap()
        program.many = program.wrap is not None
        for row in program.outs:
            if row[1].category >= 2:
                program.real = True
            else:
                program.all_real = False
        program.sample_types = list(types)
        program.sample_args = list(args)
        programs = self.programs.setdefault(kinds, [])
        if len(programs) >= 64:
            programs.pop(0)
        programs.append(program)
        return program


class LeafPrimitive:
    """A value from outside enters the trace: keyed by kind and gradient role, never by size."""

    def __init__(self, kind, grad):
        self.kind = kind
        self.grad = grad
        self.is_view = False
        self.is_composite = False
        self.name = "leaf"

    def __repr__(self):
        return f"leaf({self.kind}, {('plain', 'leaf', 'node', 'inference')[self.grad]})"


class Mode:
    """Interned mode word: all that, besides the operands, decides how an op is recorded."""

    def __init__(self, grad, inference, key):
        self.grad = grad
        self.inference = inference
        self.recompute = key[6]
        self.key = key

    def __repr__(self):
        return f"Mode{self.key}"


MODES = {}


def intern_mode(grad, inference, autocast, default_dtype, deterministic, anomaly, recompute=0):
    """The only Mode with these settings.

    recompute: number of the checkpoint block in which ops are recorded, 0 outside of all
    """
    key = (grad, inference, autocast, default_dtype, deterministic, anomaly, recompute)
    mode = MODES.get(key)
    if mode is None:
        mode = MODES[key] = Mode(grad and not inference, inference, key)
    return mode


def off_mode(mode):
    """The same mode without gradients."""
    if mode.off is None:
        key = mode.key
        mode.off = intern_mode(False, *key[1:])
    return mode.off


# -- forms of calls -------------------------------------------------------------------------


def same_constant(a, b):
    """Whether two argument values are the same structure: type and value."""
    t = type(a)
    if t is not type(b):
        return False
    if t is tuple or t is list:
        if len(a) != len(b):
            return False
        for i in range(len(a)):
            if a[i] is not b[i] and not same_constant(a[i], b[i]):
                return False
        return True
    if t is float:
        return a == b and a != 0.0
    return a == b


class CallPlan:
    """How calls of a form are taken apart: which raw arguments are tensors, numbers, sizes.

    slots: for each operand and run-time arg the place of the raw argument, the role (R_TENSOR and
        so on: the order is that of signature.py), and a length or a default
    """

    def __init__(self, prim, nargs, kwnames, slots, constants):
        self.prim = prim
        self.nargs = nargs
        self.kwnames = kwnames
        self.n_slots = len(slots)
        self.raws = bytes([255 if raw < 0 else raw for raw, role, more in slots])
        self.roles = bytes([role for raw, role, more in slots])
        self.extras = tuple([more for raw, role, more in slots])
        self.n_const = len(constants)
        self.const_at = bytes([raw for raw, value in constants])
        self.const_values = tuple([value for raw, value in constants])
        self.same_dtype = None  # a tensor of this dtype is returned unchanged
        self.has_args = len(prim.size_mask) > 0

    def is_quick(self):
        """Whether a call of this form is its arguments in order, and nothing needs a look."""
        return (
            self.kwnames is None
            and self.n_const == 0
            and self.same_dtype is None
            and not self.prim.check_strides
            and self.n_slots == self.nargs
            and self.raws == bytes(range(self.nargs))
        )

    def fits(self, args, nargs, kwnames):
        """Whether a call has this form, and the same constants."""
        if self.nargs != nargs or not (
            self.kwnames is kwnames or (kwnames is not None and self.kwnames == kwnames)
        ):
            return False
        self.kwnames = kwnames  # each line of the user's has a separate tuple
        for j in range(self.n_const):
            a = arg(args, self.const_at[j])
            b = self.const_values[j]
            if a is not b and not same_constant(a, b):
                return False
        return True


# -- set-up ---------------------------------------------------------------------------------


def count_known_types():
    """Number of interned types."""
    return count_types()


def mark_type(probe):
    """Note in a new type the number by which `type_table.h` finds the field of its slot."""
    probe.slot = 0x57454E44
    watch_types(probe)


if COMPILED:
    mark_type(TensorType.__new__(TensorType))
    keep_type_memory(TensorType.__new__(TensorType))
    unlock_type(PrimitiveBase)
