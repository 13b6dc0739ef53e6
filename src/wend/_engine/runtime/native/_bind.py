# mypy: ignore-errors
# cython: boundscheck=False, wraparound=False, initializedcheck=False, auto_pickle=False
"""Binds plans to sizes: the native part of `compiled.plan`, `argument_layout` and `arena`.

Compiled by Cython with the types in `_bind.pxd`; runs as plain Python too, on the stand-ins of
`_bind_select`. Tables are rows of 64-bit words, given by their addresses.
"""

ALIGNMENT = 64
NONE = -(1 << 63)  # see `ir.extent_program`, which writes programs as well
LARGEST = (1 << 63) - 1
LIMIT = 9e18  # of numbers that fit into 64 bits
DIM, ARG, SUM, FLOORDIV, MOD, MIN, MAX = 0, 1, 2, 5, 6, 8, 9
EQ, NE, LT, LE, GT, GE = 20, 21, 22, 23, 24, 25


def use_arrays(cls, api, empty):
    """As `_launch.use_arrays`."""
    set_arrays(cls, api, empty)


def evaluate(code, n, types, args, row, atoms):
    """Run a program of n words; row, atoms: addresses of rows for the results."""
    end = code + 8 * n
    while code < end:
        op = get(code)
        target = get(code + 8)
        code += 16
        if op == SUM:
            count = get(code)
            code += 8
            total = 0
            size = 0.0
            for _ in range(count):
                term = get(code)
                factor = float(term)
                left = get(code + 8)
                code += 16
                for _ in range(left):
                    x = get(atoms + 8 * get(code))
                    code += 8
                    if x == NONE:
                        size = LIMIT
                    term *= x
                    factor *= x
                total += term
                size += abs(factor)
            put(row + 8 * target, total if size < LIMIT else NONE)
        elif op == DIM:
            shape = tuple(types[target].shape)
            left = get(code)
            code += 8
            for _ in range(left):
                k = get(code + 8)
                put(atoms + 8 * get(code), shape[k] if k < len(shape) else NONE)
                code += 16
        elif op == ARG:
            try:
                put(atoms + 8 * target, int(args[get(code)]))
            except (TypeError, ValueError, OverflowError):  # no extent: infinity, say
                put(atoms + 8 * target, NONE)
            code += 8
        elif FLOORDIV <= op <= GE and op != 7:
            a = get(row + 8 * get(code))
            b = get(row + 8 * get(code + 8))
            put(atoms + 8 * target, apply(op, a, b))
            code += 16
        else:
            put(atoms + 8 * target, NONE)


def apply(op, a, b):
    """An op on numbers that is no sum of products; as in Python, quotients are rounded down."""
    if a == NONE or b == NONE:
        return NONE
    if op <= MOD:
        if b == 0:
            return NONE
        return a // b if op == FLOORDIV else a % b
    if op == MIN:
        return b if b < a else a
    if op == MAX:
        return b if b > a else a
    if op == EQ:
        return a == b
    if op == NE:
        return a != b
    if op == LT:
        return a < b
    if op == LE:
        return a <= b
    return a > b if op == GT else a >= b


def cut_kernels(cutters, words, row, most_rows, value, forms, edges, packable):
    """Find how kernels are cut where polynomials have the numbers of a row.

    row        address of the row
    words      address of a record for each cutter, end to end: number of the kernel; its step;
               the product of leading numbers from which the kernel is cut; whether its right
               operand may be packed for good; count of leading numbers; count of numbers; their
               places in the row
    most_rows  of a product whose right operand is packed for good
    value      a function from polynomials to numbers
    forms      takes the forms of kernels that do not stay whole
    edges      takes the edges of the parts of these kernels
    packable   takes the steps whose right operand is packed for good
    """
    for c in range(len(cutters)):
        n = get(words)
        least = get(words + 16)
        packs = get(words + 24) != 0
        leading = get(words + 32)
        count = get(words + 40)
        step = get(words + 8)
        places = words + 48
        words = places + 8 * count
        work = 1.0
        numbers = None  # no object is made, or looked at, of a kernel that stays whole
        for k in range(count):
            number = get(row + 8 * get(places + 8 * k))
            if number == NONE:  # no value, or a very large number
                work = LIMIT
                numbers = [value(p) for p in cutters[c].polys]
                break
            if k < leading:
                work *= number
        if work >= least:
            if numbers is None:
                numbers = [get(row + 8 * get(places + 8 * k)) for k in range(count)]
            cutter = cutters[c]
            key = tuple(numbers)
            found = cutter.known.get(key)
            if found is None:
                found = cutter.cut(key)
            form, more = found
            if more:
                forms[n] = form
                edges += more
        if packs:
            if numbers is None:
                left = product_of(row, places, 0, 3, 4)
                right = product_of(row, places, 1, 2, 2)  # above 0 if both are
            else:
                left = numbers[0] * numbers[3] * numbers[4]
                right = numbers[1] * numbers[2]
            if 0 < left <= most_rows and right > 0:
                packable.append(step)


def product_of(row, places, i, j, k):
    """The product of three of the numbers of a row that have these places."""
    x = get(row + 8 * get(places + 8 * i))
    y = get(row + 8 * get(places + 8 * j))
    return x * y * get(row + 8 * get(places + 8 * k))


def least_of(row, places, n):
    """The least of n numbers of a row, none of which is below 0; NONE if any has no value.

    places: address of the places of these numbers
    """
    least = LARGEST
    for k in range(n):
        number = get(row + 8 * get(places + 8 * k))
        if number < least:
            least = number
    return least


def gather(row, places, counts):
    """Numbers of a row, in tuples of so many; None if any has no value.

    places: address of the places of these numbers, end to end
    """
    tuples = []
    for count in counts:
        if count == 0:
            tuples.append(())
            continue
        numbers = []
        for k in range(count):
            number = get(row + 8 * get(places + 8 * k))
            if number == NONE:
                return None
            numbers.append(number)
        places += 8 * count
        tuples.append(tuple(numbers))
    return tuples


def lay_in_order(order, n, places, sizes, ends):
    """Write places of n blocks, each above the ends of the blocks below; return the bytes in all.

    order: of each block its number, the count of blocks right below, and the numbers of those
    """
    total = 0
    for _ in range(n):
        k = get(order)
        count = get(order + 8)
        order += 16
        place = 0
        for _ in range(count):
            end = get(ends + 8 * get(order))
            if end > place:
                place = end
            order += 8
        put(places + 8 * k, place)
        end = place + get(sizes + 8 * k)
        put(ends + 8 * k, end)
        if end > total:
            total = end
    return total


def lay(orders, n, places, sizes, ends):
    """Write places of n blocks in the first order that is good enough; bytes in all.

    orders: (row of words as `lay_in_order` reads it, its address, largest share of the sum of all
    sizes for a good order). Returns -1 if no order is good enough.
    """
    most = 0
    for k in range(n):
        most += get(sizes + 8 * k)
    for _, order, share in orders:
        total = lay_in_order(order, n, places, sizes, ends)
        if total <= share * most:
            return total
    if most > 0:
        return -1
    for k in range(n):
        put(places + 8 * k, 0)
    return 0


def fill_gaps(n, blocks, taken):
    """Give each of n blocks the lowest gap that fits while the block lives; return bytes in all.

    blocks: address of rows of 4 words: place (written here), bytes, first step, last step
    taken: address of room for as many rows of 4 words: from, to, first step, last step, by place

    Takes time with the square of the number of blocks.
    """
    total = 0
    for k in range(n):
        block = blocks + 32 * k
        size, first, last = get(block + 8), get(block + 16), get(block + 24)
        place = 0
        above = taken
        end_of_taken = taken + 32 * k
        while above < end_of_taken:
            if get(above + 16) <= last and get(above + 24) >= first:
                if get(above) - place >= size:
                    break
                if get(above + 8) > place:
                    place = get(above + 8)
            above += 32
        put(block, place)
        if place + size > total:
            total = place + size
        above = end_of_taken
        while above > taken and get(above - 32) > place:
            for word in range(0, 32, 8):
                put(above + word, get(above - 32 + word))
            above -= 32
        put(above, place)
        put(above + 8, place + size)
        put(above + 16, first)
        put(above + 24, last)
    return total


def outs_of(layouts, results):
    """Return the `outs` of a `_launch.ArgumentBlock`: the arrays that a run makes.

    layouts: shapes, strides and offsets of all results
    results: (rows, maker of small arrays, maker of large arrays, bytes from which an array is
        large); a row is (place of the shape in `layouts`, dtype, bytes of an element, whether the
        array is made at once)
    """
    outs = []
    most = results[3]
    for row in results[0]:
        shape = layouts[row[0]]
        size = row[2]
        for n in shape:
            size *= n
        outs.append((results[2 if size >= most else 1], shape, row[1], row[3]))
    return tuple(outs)


class Tables:
    """The tables of words from which a skeleton fills frames; see `argument_layout`.

    A bound plan has a row of words: terms, places, work space of `lay`, and a frame's memory:
    n_all terms, n_names places, size words.

    polys     places of polynomials in a row
    spans, moves   of edges, as `derive` reads both
    wanted    terms: bytes of the blocks in the arena, except the last block, the scratch memory
    scratch   (term, whether a step begins) of each block in the scratch memory
    memory    of a frame
    relative  words of a frame's memory that are addresses in that memory
    terms     (word, term)
    placed    (word, place)
    writes    terms: elements that kernels write
    decides   terms that say how operands are packed for good
    private   places that say so
    model     of frames, as `_launch.frame_like` takes it, if nothing is to be added to these
    """

    def __init__(self, tables, n_all, n_names, size):
        self.kept = tables
        for name, table in tables.items():
            setattr(self, name, array_data(table))
            setattr(self, "n_" + name, len(table))
        self.n_all = n_all
        self.n_names = n_names
        self.size = size
        self.model = None

    def evaluate(self, row, n, edges, terms):
        """Write all terms; False if the row of n numbers lacks a polynomial."""
        for k in range(self.n_polys):
            at = get(self.polys + 8 * k)
            if at >= n:
                return False
            number = get(row + 8 * at)
            if number == NONE:
                return False
            put(terms + 8 * k, number)
        self.derive(edges, terms)
        return True

    def total(self, terms):
        """How many elements kernels write."""
        total = 0
        for k in range(self.n_writes):
            total += get(terms + 8 * get(self.writes + 8 * k))
        return total

    def derive(self, edges, terms):
        """Write the terms that follow from polynomials and edges: spans, and moves along edges."""
        first = terms + 8 * self.n_polys
        at = first
        for edge in edges:
            put(at, edge)
            at += 8
        for k in range(self.n_spans):
            edge = first + 8 * get(self.spans + 8 * k)
            put(at, get(edge + 8) - get(edge))
            at += 8
        for k in range(0, self.n_moves, 3):
            move = self.moves + 8 * k
            edge = get(first + 8 * get(move))
            factor = get(terms + 8 * get(move + 8))
            put(at, edge * factor + get(terms + 8 * get(move + 16)))
            at += 8

    def measure(self, terms, places, sizes):
        """Write the sizes of all blocks, and places within the scratch memory; returns its bytes.

        All sizes are rounded up, except that of the last block.
        """
        for k in range(self.n_wanted):
            size = get(terms + 8 * get(self.wanted + 8 * k))
            put(sizes + 8 * k, (size + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT)
        room = 0
        at = 0
        inside = places + 8 * (self.n_wanted + 1)
        for k in range(0, self.n_scratch, 2):
            if get(self.scratch + 8 * k + 8) != 0:
                at = 0
            put(inside + 4 * k, at)
            size = get(terms + 8 * get(self.scratch + 8 * k))
            at += (size + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT
            if at > room:
                room = at
        put(sizes + 8 * self.n_wanted, room)
        return room

    def place(self, terms, orders):
        """Write all places behind terms; (scratch memory's, its bytes, bytes in all).

        orders: see `lay`
        """
        n = self.n_wanted + 1
        places = terms + 8 * self.n_all
        sizes = places + 8 * self.n_names
        room = self.measure(terms, places, sizes)
        total = lay(orders, n, places, sizes, sizes + 8 * n)
        if 0 <= total < ALIGNMENT and n > 1:
            total = ALIGNMENT  # empty blocks need an address: a masked load reads the base there
        return get(places + 8 * self.n_wanted), room, total

    def decided(self, numbers, terms, places):
        """Whether the terms and places that say how operands are packed have these numbers."""
        for k in range(self.n_decides):
            if get(numbers + 8 * k) != get(terms + 8 * get(self.decides + 8 * k)):
                return False
        numbers += 8 * self.n_decides
        for k in range(self.n_private):
            if get(numbers + 8 * k) != get(places + 8 * get(self.private + 8 * k)):
                return False
        return True

    def fill(self, memory, terms, places):
        """Write a frame's memory."""
        for k in range(self.n_memory):
            put(memory + 8 * k, get(self.memory + 8 * k))
        for k in range(self.n_relative):
            at = memory + 8 * get(self.relative + 8 * k)
            put(at, get(at) + memory)
        for k in range(0, self.n_terms, 2):
            row = self.terms + 8 * k
            put(memory + 8 * get(row), get(terms + 8 * get(row + 8)))
        for k in range(0, self.n_placed, 2):
            row = self.placed + 8 * k
            at = memory + 8 * get(row)
            put(at, get(at) + get(places + 8 * get(row + 8)))


class NativeBinder:
    """Finds which known skeleton fits some sizes, and the numbers that the skeleton needs.

    program    (words, the polynomials computed), as `extent_program.Row.program` has it
    n_atoms    number of atoms that the program has room for
    nonempty   places of extents of which none may be 0
    small      places of extents that may be up to `most`
    asked      places of all numbers that cutters ask for (the three are rows of words)
    ways       (cutters, words) of `cut_kernels`
    most_rows  see `cut_kernels`
    known      of each skeleton: (skeleton, two results of `cut_kernels`: forms, packable steps;
               elements that kernels write from which on other threads may run; `Tables`)
    empty      makes arrays, of `word`
    gathered   places of all numbers of `counts` extents and so on: see `gather`
    results    the rows that `outs_of` reads
    frame_like that of `_launch`
    """

    def __init__(self, **given):
        for name, content in given.items():
            setattr(self, name, content)
        code, self.n = self.program
        self.code, self.n_code = array_data(code), len(code)
        self.at_nonempty, self.n_nonempty = array_data(self.nonempty), len(self.nonempty)
        self.at_small, self.n_small = array_data(self.small), len(self.small)
        self.at_asked, self.n_asked = array_data(self.asked), len(self.asked)
        self.at_gathered = array_data(self.gathered)

    def find(self, types, args, whole):
        """(skeleton, row of polynomials and atoms, terms, whether other threads may run).

        None if no known skeleton is certain to fit these sizes.
        whole: whether to leave room behind the terms for the rest of a bound plan
        """
        n = self.n
        row = make_array(self.empty, (n + self.n_atoms,), self.word)
        numbers = array_data(row)
        evaluate(self.code, self.n_code, types, args, numbers, numbers + 8 * n)
        if least_of(numbers, self.at_nonempty, self.n_nonempty) <= 0:
            return None
        for k in range(self.n_small):
            number = get(numbers + 8 * get(self.at_small + 8 * k))
            if number > self.most or number == NONE:
                return None
        if least_of(numbers, self.at_asked, self.n_asked) == NONE:
            return None
        forms = {}
        edges = []
        packable = []
        for cutters, way in self.ways:
            if not cutters:
                continue
            words = array_data(way)
            cut_kernels(cutters, words, numbers, self.most_rows, None, forms, edges, packable)
        for skeleton, its_forms, its_packable, many, tables in self.known:
            if packable == its_packable and forms == its_forms:
                size = tables.size if whole else tables.n_all
                terms = make_array(self.empty, (size,), self.word)
                at = array_data(terms)
                if not tables.evaluate(numbers, n, edges, at):
                    return None
                return skeleton, row, terms, tables.total(at) >= many
        return None

    def bind(self, plan, types, args, key, sizes):
        """Return the parts of a plan bound to these sizes.

        The parts are (skeleton, words, address of the words, `Visit.asked`, `layouts`, `rest` of
        `_launch.frame_like`, frame).  The frame is None if `Tables.model` alone does not suffice.
        The result is None where `find` gives None, or where places have to be searched for.
        """
        found = self.find(types, args, True)
        if found is None:
            return None
        skeleton = found[0]
        row = found[1]
        words = found[2]
        layouts = gather(array_data(row), self.at_gathered, self.counts)
        at = array_data(words)
        tables = skeleton.tables
        places = tables.place(at, skeleton.orders)
        if layouts is None or places[2] < 0:
            return None
        rest = outs_of(layouts, self.results), found[3], places
        asked = types, args, row, self.n
        frame = None
        if tables.model is not None:
            memory = at + 8 * (tables.size - tables.n_memory)
            tables.fill(memory, at, at + 8 * tables.n_all)
            owner = plan, skeleton, words, asked
            frame = self.frame_like(tables.model, words, memory, key, sizes, owner, rest)
        return skeleton, words, at, asked, layouts, rest, frame


class Fit:
    """Finds the words of a frame that serves many sizes, where kernels are cut as before.

    sizer      `NativeBinder`
    skeleton   of the frame
    places     of the frame, and `at_places`, their address
    limits     (term, number) where the number may not be exceeded
    weights    of `ArgumentBlock.weights` where some terms have these numbers, `fixed`; else
               `weigh` finds the weights for a row of terms, its address, and that of the places
    """

    def __init__(self, sizer, skeleton, places, at_places, limits, weights, fixed, weigh):
        self.sizer = sizer
        self.skeleton = skeleton
        self.fill = skeleton.tables.fill
        self.places = places
        self.at_places = at_places
        self.limits = limits
        self.weights = weights
        self.fixed = fixed
        self.weigh = weigh

    def find(self, types, args):
        """See `_launch.fit`; None if the frame is not certain to serve these sizes."""
        sizer = self.sizer
        found = sizer.find(types, args, False)
        if found is None or found[0] is not self.skeleton:
            return None
        _, _, terms, release = found
        at = array_data(terms)
        for k, most in self.limits:
            if get(at + 8 * k) > most:
                return None
        weights = self.weights
        for k, number in self.fixed:
            if get(at + 8 * k) != number:
                weights = self.weigh(terms, at, self.at_places)
                break
        places = self.places
        return self.fill, at, self.at_places, release, weights, (terms, places)
