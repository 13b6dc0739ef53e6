"""Random programs that ask for sizes: exported in each way, and run at sizes that no example had.

    python tests/fuzz/sizes.py --seed 3 --first 0 --programs 200

A program computes from x, of some rows and columns, by drawn statements: `if`, `while` and `for`
over sizes and values, lists that grow, parts, slices and counters. It is exported once in each of
the `WAYS`. The export is run at `SIZES`, and compared with the program itself.

An export may refuse the program, or a size, with an error. It must not give another result than
the program, or a result where the program raises an error.
"""

from __future__ import annotations

import argparse
import io
import random
import warnings

import numpy as np

import wend as torch

SIZES = ((1, 3), (2, 3), (3, 4), (5, 2), (6, 5), (7, 3), (9, 1), (12, 6))
EXAMPLE = (4, 3)
WAYS = ("onnx", "export", "jit", "session")
#: Values this near to a limit hang on rounding.
MARGIN = 1e-4


class Undecided(Exception):
    """A branch hangs on a rounding error."""


class Draw:
    """Writes the source of a program."""

    def __init__(self, seed, number):
        self.place = random.Random(f"{seed}, {number}")
        self.lines = []
        self.names = 0

    def name(self):
        self.names += 1
        return f"v{self.names}"

    def add(self, depth, line):
        self.lines.append("    " * (depth + 1) + line)

    def number(self, ints=()):
        """An int made of sizes."""
        p = self.place
        base = ["x.shape[0]", "x.size(1)", "len(x)", "h.shape[0]", *ints]
        a, b, c = p.choice(base), p.choice(base), p.randint(1, 6)
        return p.choice(
            [a, a, f"{a} // {p.randint(2, 3)}", f"{a} % {p.randint(2, 3)}", f"{a} - {c}",
             f"max({a}, {c})", f"min({a}, {c})", f"max(0, {c} - {a})", f"{a} + {b}",
             f"abs({a} - {b})", f"int({a} * 0.5)"]
        )  # fmt: skip

    def question(self, ints=()):
        p = self.place
        if p.random() < 0.25:
            return f"above(h, {round(p.uniform(-1, 1), 2)})"
        sign = p.choice([">", "<", ">=", "<=", "==", "!="])
        return f"{self.number(ints)} {sign} {p.choice([str(p.randint(0, 8)), self.number(ints)])}"

    def statement(self, depth, ints):
        """A statement; h stays a tensor of any number of rows, and as many columns as x has."""
        p = self.place
        simple = [self.slices, self.parts, self.padded, self.scaled, self.doubled, self.plain]
        blocks = [self.branch, self.rows, self.listed, self.shrinking, self.counted, self.filled]
        if depth < 3 and p.random() < 0.45:
            p.choice(blocks)(depth, ints)
        else:
            p.choice(simple)(depth, ints)

    def body(self, depth, ints, most=2):
        for _ in range(self.place.randint(1, most)):
            self.statement(depth, ints)

    # -- statements -------------------------------------------------------------------------

    def plain(self, depth, ints):
        p = self.place
        self.add(depth, p.choice(
            ["h = torch.tanh(h)", "h = h * 0.5 + 0.1", "h = h - h.mean(0)", "h = h.flip(0)",
             "h = h + x.mean(0)", "h = h.softmax(-1)", "h = h.cumsum(0) * 0.3",
             "h = torch.where(h > 0, h, h * 0.1)", "h = h.sort(0)[0]"]
        ))  # fmt: skip

    def slices(self, depth, ints):
        p = self.place
        n, k = p.randint(1, 5), self.number(ints)
        self.add(depth, p.choice(
            [f"h = h[:{n}] + h[:{n}].shape[0]", f"h = h[-{n}:] * 0.7", "h = h[::2]",
             f"h = torch.cat([h[{n}:], h[:{n}]])", f"h = h[: {k}] if {k} > 0 else h",
             f"h = torch.cat([h, x[{n}:]])", "h = h[1:] - h[:-1] if h.shape[0] > 1 else h"]
        ))  # fmt: skip

    def parts(self, depth, ints):
        p = self.place
        n = p.randint(2, 3)
        self.add(depth, p.choice(
            [f"h = torch.stack([q.mean(0) for q in h.chunk({n})])",
             f"h = torch.stack([q.sum(0) for q in h.split({n})])",
             "h = torch.stack([q * 0.5 for q in h.unbind(0)])",
             f"h = torch.stack([h[i : i + {n}].mean(0) for i in range(0, h.shape[0], {n})])",
             f"h = h.chunk({n})[0] * 1.5",
             "h = torch.stack([h[-i - 1] for i in range(len(h))])"]
        ))  # fmt: skip

    def padded(self, depth, ints):
        n = self.place.randint(2, 6)
        self.add(depth, f"h = F.pad(h, (0, 0, 0, max(0, {n} - h.shape[0])))")

    def scaled(self, depth, ints):
        p = self.place
        self.add(depth, p.choice(
            [f"h = h / ({self.number(ints)} + 10.5)", f"h = h + {self.number(ints)} * 0.1",
             "h = h * h.shape[0] ** 0.5", "h = h + torch.arange(h.size(0))[:, None] * 0.1",
             "h = torch.ones(h.shape[0], h.shape[0]).tril() @ h / len(h)",
             "h = h + torch.zeros(h.shape[0], 1)"]
        ))  # fmt: skip

    def doubled(self, depth, ints):
        self.add(depth, self.place.choice(
            ["h = torch.cat([h, h[-1:]])", "h = h.reshape(-1, x.size(1))",
             "h = h.view(h.shape[0] * h.shape[1]).reshape(h.shape[0], -1)",
             "h = torch.cat([h, x], 0)[: h.shape[0] + 1]"]
        ))  # fmt: skip

    def branch(self, depth, ints):
        self.add(depth, f"if {self.question(ints)}:")
        self.body(depth + 1, ints)
        if self.place.random() < 0.6:
            self.add(depth, "else:")
            self.body(depth + 1, ints)

    def rows(self, depth, ints):
        p, s = self.place, self.name()
        self.add(depth, f"{s} = h.sum(0)")
        kind = p.choice(["row", "index", "counted"])
        if kind == "row":
            self.add(depth, "for r in h:")
        elif kind == "index":
            self.add(depth, "for i in range(h.shape[0]):")
            self.add(depth + 1, "r = h[i]")
        else:
            self.add(depth, "for i, r in enumerate(h):")
            self.add(depth + 1, "r = r + i * 0.1")
        self.add(depth + 1, f"{s} = torch.tanh({s} * 0.5 + r)")
        if p.random() < 0.3:
            self.add(depth + 1, f"if above({s}, {round(p.uniform(-1, 1), 2)}):")
            self.add(depth + 2, p.choice(["break", f"{s} = {s} * 0.5", f"{s} = {s} - r"]))
        self.add(depth, f"h = h + {s}")

    def listed(self, depth, ints):
        p, s = self.place, self.name()
        start = p.choice(["[]", "[x.mean(0)]"])
        self.add(depth, f"{s} = {start}")
        self.add(depth, "for r in h:")
        last = f"r + {s}[-1]" if start != "[]" else "r * 0.7"
        self.add(depth + 1, f"{s}.append(torch.tanh({last}))")
        self.add(depth, p.choice(
            [f"h = torch.stack({s})", f"h = h + {s}[-1]", f"h = torch.stack({s}[::-1])",
             f"h = torch.stack({s}) / len({s})"]
        ))  # fmt: skip

    def shrinking(self, depth, ints):
        p = self.place
        self.add(depth, f"while h.shape[0] > {p.randint(1, 3)}:")
        kind = p.randrange(3)
        if kind == 0:
            self.add(depth + 1, "if h.shape[0] % 2: h = torch.cat([h, h[-1:]])")
            self.add(depth + 1, "h = (h[0::2] + h[1::2]) / 2")
        elif kind == 1:
            self.add(depth + 1, "h = h[1:] * 0.9")
        else:
            self.add(depth + 1, "h = h[: h.shape[0] // 2] + 0.1")

    def counted(self, depth, ints):
        p, s, best = self.place, self.name(), self.name()
        self.add(depth, f"{s} = 0")
        self.add(depth, f"{best} = {p.choice(['0', '-1'])}")
        self.add(depth, "for i in range(h.shape[0]):")
        self.add(depth + 1, f"if above(h[i], {round(p.uniform(-1, 1), 2)}):")
        self.add(depth + 2, f"{s} += {p.randint(1, 2)}")
        self.add(depth + 2, f"{best} = i")
        self.add(
            depth, p.choice([f"h = h + {s}", f"h = h * ({best} + 1)", f"h = h + {s} - {best}"])
        )
        if p.random() < 0.4:
            self.add(depth, f"if {s} > {p.randint(0, 3)}:")
            self.body(depth + 1, ints, 1)

    def filled(self, depth, ints):
        s = self.name()
        self.add(depth, f"{s} = torch.zeros(h.size(0), h.size(1))")
        self.add(depth, "for i in range(h.size(0)):")
        self.add(depth + 1, f"{s}[i] = h[i] * {self.place.choice(['2', 'i', 'h[i].max()'])}")
        self.add(depth, f"h = {s}")

    def source(self):
        """The whole program."""
        p, ints = self.place, []
        if p.random() < 0.15:
            self.add(0, f"assert x.shape[0] < {p.randint(5, 10)}, 'too long'")
        self.add(0, "h = x * 1.0")
        if p.random() < 0.4:
            self.add(0, f"n = {self.number()}")
            ints.append("n")
        for _ in range(p.randint(1, 4)):
            self.statement(0, ints)
        self.add(
            0,
            p.choice(
                ["return h", "return h.sum(0)", "return h.sum() * 0.1", "return h, h.shape[0]"]
            ),
        )
        return "\n".join(["def program(x):", *self.lines]) + "\n"


class Program:
    """A drawn program, as source and as a function."""

    def __init__(self, seed, number):
        self.source = Draw(seed, number).source()
        names = {"torch": torch, "F": torch.nn.functional, "above": self.above}
        exec(compile(self.source, f"<program {number}>", "exec"), names)
        self.function = names["program"]
        self.decides = False  # whether values near a limit are told
        rng = np.random.default_rng(number)
        self.inputs = [torch.tensor(rng.standard_normal(s).astype("f4")) for s in (EXAMPLE, *SIZES)]

    def above(self, h, limit):
        """Whether the mean of h is above the limit; an expression of the program."""
        mean = h.mean()
        if self.decides and abs(float(mean.numpy()) - limit) < MARGIN:
            raise Undecided
        return mean > limit


def arrays(result):
    """The results as arrays."""
    rows = result if isinstance(result, (tuple, list)) else [result]
    return [np.asarray(x.detach().numpy() if isinstance(x, torch.Tensor) else x) for x in rows]


def exported(way, program, example):
    """A function from an input to arrays."""
    f = program.function
    if way == "onnx":
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = 1
        buffer = io.BytesIO()
        torch.onnx.export(f, (example,), buffer, verify=False)
        session = onnxruntime.InferenceSession(buffer.getvalue(), options)
        name = [i.name for i in session.get_inputs()]
        return lambda x: session.run(None, {name[0]: x.numpy()} if name else {})
    if way == "export":
        module = torch.export.export(f, (example,)).module()
        return lambda x: arrays(module(x))
    if way == "jit":
        buffer = io.BytesIO()
        torch.jit.save(torch.jit.trace(f, example), buffer)
        buffer.seek(0)
        loaded = torch.jit.load(buffer)
        return lambda x: arrays(loaded(x))
    opened = torch.session(f, example)
    return lambda x: arrays(opened(x))


def same(found, wanted):
    return len(found) == len(wanted) and all(
        a.shape == b.shape and np.allclose(a, b, rtol=1e-3, atol=1e-4, equal_nan=True)
        for a, b in zip(found, wanted, strict=True)
    )


def run_way(way, program):
    """{"agrees", "refused size", "refused program", "wrong: ..."}: how often."""
    counts = {}

    def count(what):
        counts[what] = counts.get(what, 0) + 1

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            call = exported(way, program, program.inputs[0])
    except Exception as error:
        kind = type(error).__name__
        count(
            f"refused: {kind}"
            if isinstance(error, RuntimeError | ValueError | TypeError | IndexError)
            else f"wrong: {kind}: {error}"
        )
        return counts
    for x in program.inputs[1:]:
        program.decides = True
        try:
            wanted = arrays(program.function(x.clone()))
        except Undecided:
            continue
        except Exception:
            wanted = None
        finally:
            program.decides = False
        try:
            found = call(x.clone())
        except Exception:
            count("refuses a size" if wanted is not None else "agrees")
            continue
        if wanted is None:
            count(f"wrong: no error at {tuple(x.shape)}")
        else:
            count("agrees" if same(found, wanted) else f"wrong: {tuple(x.shape)}")
    return counts


def run_ways(program, ways=WAYS):
    """Per way the counts."""
    return {way: run_way(way, program) for way in ways}


def verdict(counts):
    """agrees, refuses sizes, is refused, or wrong."""
    kinds = [k.partition(":")[0] for k in counts]
    order = ("wrong", "refused", "refuses a size")
    return next((k for k in order if k in kinds), "agrees")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--programs", type=int, default=100)
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--verbose", action="store_true")
    given = parser.parse_args()
    totals = {}
    for number in range(given.first, given.first + given.programs):
        program = Program(given.seed, number)
        for way, counts in run_ways(program, given.ways.split(",")).items():
            found = verdict(counts)
            row = totals.setdefault(way, {})
            row[found] = row.get(found, 0) + 1
            if found == "wrong" or (given.verbose and found != "agrees"):
                print(f"{number} {way}: {counts}\n{program.source}", flush=True)
        if number % 5 == 4:
            print(number + 1 - given.first, totals, flush=True)
    print(totals)


if __name__ == "__main__":
    main()
