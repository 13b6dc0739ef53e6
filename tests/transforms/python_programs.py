"""Functions of ordinary Python whose branches hang on values or sizes; each takes `x`, a matrix.

Each but those of `SIZES` reads the signs of the first three numbers of two rows.
"""

# ruff: noqa: C417 -- calls of Python by functions in C are what is tried here

import functools
import itertools


def _row(values):
    """A number that tells values, and their order."""
    return float(functools.reduce(lambda total, v: 10 * total + v, values, 0))


def sum_of_map(x):
    return x * float(sum(map(lambda i: 1 if x[0, i] > 0 else 7, range(3))))


def length_of_filter(x):
    return x * float(len(list(filter(lambda v: v > 0, x[0, :3]))))


def sum_of_filter(x):
    return x * float(sum(filter(lambda i: x[0, i] > 0, (0, 1, 2))))


def sorted_by_key(x):
    return x * _row(sorted((1, 2, 3), key=lambda i: 0 if x[0, i - 1] > 0 else 1))


def sorted_in_reverse(x):
    return x * _row(sorted((1, 2, 3), key=lambda i: bool(x[0, i - 1] > 0), reverse=True))


def sorted_choices(x):
    codes = sorted([1 if v > 0 else 2 for v in x[0, :2]], key=lambda i: bool(x[1, i] > 0))
    return x * _row(codes)


def choice_in_an_argument(x):
    return x * float(max((3 if x[0, 0] > 0 else 4), 5, key=lambda i: i if x[0, 1] > 0 else -i))


def sorted_in_place(x):
    row = [1, 2, 3]
    row.sort(key=lambda i: 0 if x[0, i - 1] > 0 else 1)
    return x * _row(row)


def max_by_key(x):
    return x * float(max((0, 1, 2), key=lambda i: 3 if x[0, i] > 0 else i))


def min_by_key(x):
    return x * float(min((0, 1, 2), key=lambda i: 3 if x[0, i] > 0 else -i))


def max_in_a_loop(x):
    total = 0
    for r in range(2):
        total = total * 10 + max((0, 1, 2), key=lambda i: 3 if x[r, i] > 0 else i)
    return x * float(total)


def max_of_map(x):
    return x * float(max(map(lambda i: i if x[0, i] > 0 else -i, range(3))))


def max_of_partial(x):
    largest = functools.partial(max, key=lambda i: 3 if x[0, i] > 0 else i)
    return x * float(largest((0, 1, 2)))


def min_with_default(x):
    return x * float(min((i for i in range(3) if x[0, i] > 0), default=9))


def sum_with_start(x):
    return x * float(sum((2 for i in range(3) if x[0, i] > 0), 5))


def reduced(x):
    return x * float(functools.reduce(lambda a, i: a * 2 + (1 if x[0, i] > 0 else 0), range(3), 0))


def any_and_all(x):
    both = any(v > 0 for v in x[0, :3]) and all(v > 0 for v in x[1, :3])
    return x * (2.0 if both else 3.0)


def any_plus_all(x):
    return x * float(any(v > 0 for v in x[0, :3]) + 2 * all(v > 0 for v in x[1, :3]))


def any_of_all(x):
    return x * (2.0 if any(all(v > 0 for v in row[:2]) for row in (x[0], x[1])) else 3.0)


def loops_until_any(x):
    while any(v > 1.2 for v in x[0, :3]):
        x = x * 0.5
    while not all(v.abs() < 0.9 for v in (x[0, 0], x[1, 1])):
        x = x * 0.5
    return x


def equal_lists(x):
    return x * (2.0 if [x[0, 0], x[0, 1]] == [x[1, 0], x[1, 1]] else 3.0)


def truths_by_map(x):
    return x * float(sum(map(bool, [x[0, 0] > 0, x[0, 1] > 0, x[0, 2] > 0])))


def index_in_a_list(x):
    try:
        return x * float([bool(v > 0) for v in x[0, :3]].index(False))
    except ValueError:
        return x * 8


def largest_tensor(x):
    return x * max(x[0, 0], x[0, 1], x[0, 2])


def sorted_tensors(x):
    a, b, c = sorted([x[0, 0], x[1, 1], x[0, 2] * 2])
    return x * a + b * 10 + c * 100


def sorted_numbers(x):
    a, b, c = sorted([x[0, 0].item(), x[1, 1].item(), x[0, 2].item() * 2])
    return x * a + b * 10 + c * 100


def joined(x):
    return x * float(len("".join(map(lambda i: "a" if x[0, i] > 0 else "bb", range(3)))))


def chained(x):
    for w in itertools.chain((1, 1), (1, 1)):
        x = x + w if x[0, 0] > 0 else x * 2
    return x


def all_pairs(x):
    for a, b in itertools.product((1, 1), (1, 1)):
        x = x + a * b if x[0, 0] > 0 else x * 2
    return x


def accumulated(x):
    y = x
    for a in itertools.accumulate(map(lambda i: 1 if x[0, i] > 0 else 2, range(3))):
        y = y + a if y[0, 0] > 0 else y * 2 + a
    return y


def taken_while(x):
    return x * float(sum(1 for _ in itertools.takewhile(lambda v: v > 0, x[0, :3])))


def grouped(x):
    total = 0
    for key, group in itertools.groupby(x[0, :3], key=lambda v: bool(v > 0)):
        total = total * 10 + len(list(group)) + 4 * key
    return x * float(total)


def generator_that_counts(x):
    def ones():
        n = 0
        while n < 3:
            n += 1
            yield 1

    for w in ones():
        x = x + w if x[0, 0] > 0 else x * 2
    return x


def two_generators(x):
    def codes(r):
        for c in range(2):
            yield 1 if x[r, c] > 0 else 2

    return x * _row([a * 3 + b for a, b in zip(codes(0), codes(1), strict=True)])


def yields_from(x):
    def codes(r):
        for c in range(2):
            yield 1 if x[r, c] > 0 else 2

    def both():
        yield from codes(0)
        yield from codes(1)

    return x * float(functools.reduce(lambda p, q: 10 * p + q, both()))


def next_of_a_generator(x):
    places = (i for i in range(3) if x[0, i] > 0)
    return x * float(next(places, 7) + 10 * next(places, 8))


def generator_of_tensors(x):
    def halves(x):
        while x.abs().sum() > 4:
            x = x * 0.5
            yield x

    return sum(v * 2 for v in halves(x)) + x


def own_iterator(x):
    class Codes:
        def __init__(self):
            self.k = 0

        def __iter__(self):
            return self

        def __next__(self):
            if self.k == 3:
                raise StopIteration
            self.k += 1
            return 1 if x[0, self.k - 1] > 0 else 2

    return x * _row(Codes())


def enumerated_map(x):
    total = 0
    for k, v in enumerate(map(lambda v: 1 if v > 0 else 2, x[0, :3])):
        total = total * 10 + v * k
    return x * float(total)


def nested_comprehensions(x):
    rows = [[1 if x[r, c] > 0 else 2 for c in range(2)] for r in range(2)]
    return x * _row(rows[0] + rows[1])


def dict_comprehension(x):
    places = {("a" if x[0, i] > 0 else "b"): i for i in range(3)}
    return x * float(places.get("a", 7) + 10 * places.get("b", 7))


def set_comprehension(x):
    return x * float(sum({1 if v > 0 else 2 for v in x[0, :3]}))


def starred(x):
    row = [1 if v > 0 else 2 for v in x[0, :2]]
    return x * float(max(*row, *(3 if v > 0 else 0 for v in x[1, :2])))


def walrus(x):
    if (y := x[0, 0] * 2) > 0 and (n := (1 if x[0, 1] > 0 else 2)) > 1:
        return y * n + x
    return x - y


def chained_comparisons(x):
    return x * 2 if 0 < x[0, 0] < 1.2 else x * 3 if -2 < x[0, 1] <= x[0, 2] else x


def text(x):
    table = {"p-n": 2.0, "p-p": 3.0, "n-p": 4.0, "n-n": 5.0}
    return x * table[f"{'p' if x[0, 0] > 0 else 'n'}-{'p' if x[0, 1] > 0 else 'n'}"]


def finally_runs(x):
    n = 0
    try:
        if x[0, 0] > 0:
            raise ValueError
        n += 1
        if x[0, 1] > 0:
            return x * 7
    except ValueError:
        n += 10 if x[0, 2] > 0 else 20
    finally:
        n += 100
        x = x * n
    return x + n


def closure(x):
    n = 0

    def add(k):
        nonlocal n
        n += k if x[0, k] > 0 else 2 * k + 1
        return n

    return x * float(add(0) + 100 * add(1) + 10000 * add(2))


def while_else(x):
    k = 0
    while k < 3:
        if x[0, k] < 0:
            break
        k += 1
    else:
        return x * 5
    return x * float(k + 2)


def matched(x):
    match (bool(x[0, 0] > 0), bool(x[0, 1] > 0), [bool(x[0, 2] > 0)]):
        case (True, True, _):
            return x * 2
        case (True, False, [True]):
            return x * 3
        case (False, b, [c]):
            return x * (4 if b else 5) + (1 if c else 2)
    return x


def recursive(x):
    def code(i):
        return 0 if i == 3 else (1 if x[0, i] > 0 else 2) + 10 * code(i + 1)

    return x * float(code(0))


def best_of_rows(x):
    count, best = 0, -1
    for i in range(x.shape[0]):
        if x[i].sum() > 0:
            count += 1
            best = i
    return x * count + best


def loops_by_bool(x):
    while bool(x.abs().sum() < 20):
        x = x * 2
    return x


def loops_by_an_object(x):
    step = functools.partial(lambda x: (x * 2, bool((x * 2).abs().sum() > 20)))
    while True:
        x, done = step(x)
        if done:
            return x


VALUES = [
    sum_of_map, length_of_filter, sum_of_filter, sorted_by_key, sorted_in_reverse, sorted_in_place,
    sorted_choices, choice_in_an_argument,
    max_by_key, min_by_key, max_in_a_loop, max_of_map, max_of_partial, min_with_default,
    sum_with_start, reduced, any_and_all, any_plus_all, any_of_all, loops_until_any, equal_lists,
    truths_by_map, index_in_a_list, largest_tensor, sorted_tensors, sorted_numbers, joined, chained,
    all_pairs, accumulated, taken_while, grouped, generator_that_counts, two_generators,
    yields_from, next_of_a_generator, generator_of_tensors, own_iterator, enumerated_map,
    nested_comprehensions, dict_comprehension, set_comprehension, starred, walrus,
    chained_comparisons, text, finally_runs, closure, while_else, matched, recursive, best_of_rows,
    loops_by_bool, loops_by_an_object,
]  # fmt: skip


# -- sizes --------------------------------------------------------------------------------------

TABLE = {3: 2.0, 2: 8.0}


def length_of_a_set(x):
    return x * float(len({x.shape[0], 3}))


def in_a_set(x):
    return x * (2.0 if x.shape[0] in {2, 3} else 5.0)


def in_a_set_with_a_name(x):
    names = {3, 5}
    return x * (2.0 if x.size(0) not in names else 5.0)


def pair_in_a_set(x):
    return x * (2.0 if (x.shape[0], x.shape[1]) in {(3, 4), (5, 2)} else 5.0)


def by_key(x):
    return x * {2: 4.0, 3: 5.0, 5: 6.0}[x.shape[0]]


def by_key_of_a_global(x):
    return x * TABLE[x.shape[0]]


def by_key_or_default(x):
    return x * TABLE.get(x.shape[1], 7.0)


def all_sizes_are_equal(x):
    return x * (2.0 if len(set(x.shape)) == 1 else 3.0)


def number_in_a_set_of_sizes(x):
    return x * (2.0 if 4 in {x.shape[0], x.shape[1]} else 3.0)


def equal_sets(x):
    return x * (2.0 if set(x.shape) == {3, 4} else 3.0)


def index_of_a_size(x):
    return x * float(x.shape.index(4))


def index_of_a_size_or_not(x):
    try:
        return x * float(x.shape.index(3) + 2)
    except ValueError:
        return x - 1


SIZES = [
    length_of_a_set, in_a_set, in_a_set_with_a_name, pair_in_a_set, by_key, by_key_of_a_global,
    by_key_or_default, all_sizes_are_equal, number_in_a_set_of_sizes, equal_sets, index_of_a_size,
    index_of_a_size_or_not,
]  # fmt: skip


# -- refused ------------------------------------------------------------------------------------


def pairs_of_a_generator(x):
    """C holds the first item of a pair while the same generator makes the second."""

    def codes():
        for r in range(2):
            for c in range(2):
                yield 1 if x[r, c] > 0 else 2

    row, total = codes(), 0
    for a, b in zip(row, row, strict=True):
        total = total * 100 + a * 10 + b
    return x * float(total)


def sizes_as_keys(x):
    table = {}
    table[x.shape[0]] = 2.0
    table[x.shape[1]] = 3.0
    return x * sum(table.values())
