"""Graphs written by hand for the pictures: as a step of a known kind would give them."""

import linecache
import math
import random
from contextlib import contextmanager

from wend._frontend.seeing.op_graph import OpGraph, OpNode

FILE = "models/model.py"


class Writer:
    """Writes a graph op by op, and its backward pass and update from the forward ops."""

    def __init__(self, title):
        self.graph = OpGraph(title)
        self.module, self.class_name, self.phase = "", "", "forward"
        self.parameters = []

    @contextmanager
    def inside(self, name, class_name):
        before = self.module, self.class_name
        self.module = f"{self.module}.{name}" if self.module else name
        self.class_name = class_name
        self.graph.modules[self.module] = class_name
        yield
        self.module, self.class_name = before

    def add(self, op, inputs=(), shape=(), **more):
        size = math.prod(shape)
        node = OpNode(
            id=len(self.graph.nodes),
            op=op,
            inputs=tuple(inputs),
            phase=self.phase,
            module=self.module if op != "input" else "",
            module_class=self.class_name if op != "input" else "",
            file=FILE,
            line=10 + len(op),
            function=f"{self.class_name or 'main'}.forward",
            shape=shape,
            nbytes=4 * size,
            flops=0 if op == "input" else 2 * size,
            ns=None if op == "input" else 500 + size // 4,
            kernel=None if op == "input" else len(self.graph.nodes) // 3,
            group=None if op == "input" else len(op) % 5,
        )
        for key, value in more.items():
            setattr(node, key, value)
        self.graph.nodes.append(node)
        return node.id

    def parameter(self, name, shape):
        found = self.add("input", (), shape, name=f"{self.module}.{name}" if self.module else name)
        if self.module:
            self.parameters.append(found)
        return found

    def linear(self, name, x, n, m, rows):
        with self.inside(name, "Linear"):
            weight, bias = self.parameter("weight", (m, n)), self.parameter("bias", (m,))
            return self.add("linear", (x, weight, bias), (rows, m), flops=2 * rows * n * m)

    def backward(self, loss):
        """A gradient op for each operand of each forward op, and sums where there are several."""
        self.phase = "backward"
        nodes, grads = self.graph.nodes, {loss: self.add("ones_like", (loss,), ())}
        for node in reversed(nodes[: loss + 1]):
            if node.is_leaf or node.id not in grads:
                continue
            for operand in dict.fromkeys(node.inputs):
                self.module, self.class_name = node.module, node.module_class
                made = self.add(
                    f"{node.op}_backward",
                    (grads[node.id], operand),
                    nodes[operand].shape,
                    partner=node.id,
                )
                if operand in grads:
                    made = self.add("add", (grads[operand], made), nodes[operand].shape)
                grads[operand] = made
        self.module = self.class_name = ""
        return grads

    def update(self, grads):
        self.phase = "update"
        for parameter in filter(grads.__contains__, self.parameters):
            shape = self.graph[parameter].shape
            step = self.add("mul", (grads[parameter],), shape, numbers="0.01")
            self.add("sub_", (parameter, step), shape)
        self.phase = "forward"


def digits():
    """The training step of a small network for digits, with values kept."""
    w = Writer("training step of a digits CNN")
    x, target = w.parameter("images", (64, 1, 8, 8)), w.parameter("labels", (64,))
    w.graph[target].dtype = "int64"
    for name, wide, before, side in (("conv1", 16, 1, 8), ("conv2", 32, 16, 4)):
        with w.inside(name, "Conv2d"):
            weight, bias = w.parameter("weight", (wide, before, 3, 3)), w.parameter("bias", (wide,))
            x = w.add("conv2d", (x, weight, bias), (64, wide, side, side))
        x = w.add("relu", (x,), (64, wide, side, side))
        x = w.add("max_pool2d", (x,), (64, wide, side // 2, side // 2))
    x = w.add("flatten", (x,), (64, 128))
    x = w.linear("fc", x, 128, 10, 64)
    loss = w.add("cross_entropy", (x, target), ())
    w.graph.outputs = [loss]
    w.graph[x].values = {
        "min": -3.25,
        "max": float("nan"),
        "mean": 0.125,
        "nan": 2,
        "inf": 0,
        "histogram": {"counts": [1, 4, 9, 20, 41, 33, 12, 3], "edges": [-3.25, 3.5]},
    }
    w.update(w.backward(loss))
    return w.graph


def transformer(layers=12, wide=256, rows=512):
    w = Writer(f"training step of a transformer with {layers} layers")
    tokens = w.parameter("tokens", (rows,))
    with w.inside("embed", "Embedding"):
        x = w.add("embedding", (w.parameter("weight", (1000, wide)), tokens), (rows, wide))
    for layer in range(layers):
        with w.inside(f"encoder.layers.{layer}", "EncoderLayer"):
            with w.inside("attn", "MultiheadAttention"):
                q, k, v = (w.linear(f"{n}_proj", x, wide, wide, rows) for n in "qkv")
                k = w.add("transpose", (k,), (wide, rows), numbers="0, 1")
                s = w.add("matmul", (q, k), (rows, rows))
                s = w.add("softmax", (s,), (rows, rows))
                y = w.linear("out_proj", w.add("matmul", (s, v), (rows, wide)), wide, wide, rows)
            x = w.add("add", (x, y), (rows, wide))
            x = norm(w, "norm1", x, wide, rows)
            with w.inside("mlp", "Sequential"):
                y = w.linear("0", x, wide, 4 * wide, rows)
                with w.inside("1", "GELU"):
                    y = w.add("gelu", (y,), (rows, 4 * wide))
                y = w.linear("2", y, 4 * wide, wide, rows)
            x = norm(w, "norm2", w.add("add", (x, y), (rows, wide)), wide, rows)
    x = w.linear("head", x, wide, 1000, rows)
    loss = w.add("cross_entropy", (x, w.parameter("targets", (rows,))), ())
    w.graph.outputs = [loss]
    w.update(w.backward(loss))
    return w.graph


def norm(w, name, x, wide, rows):
    with w.inside(name, "LayerNorm"):
        weight, bias = w.parameter("weight", (wide,)), w.parameter("bias", (wide,))
        return w.add("layer_norm", (x, weight, bias), (rows, wide))


def tree(rng, leaves=40, wide=32, backward=True):
    """A recursive network over a random binary tree: modules called again and again."""
    w = Writer(f"a TreeLSTM over a tree with {leaves} leaves")
    with w.inside("cell", "TreeCell"):
        weights = [w.parameter(f"weight_{g}", (wide, 2 * wide)) for g in "iofu"]

    def cell(children):
        with w.inside("cell", "TreeCell"):
            h = w.add("cat", [h for h, _ in children], (2 * wide,))
            i, o, f, u = (w.add("mv", (weight, h), (wide,)) for weight in weights)
            i, o, f = (w.add("sigmoid", (g,), (wide,)) for g in (i, o, f))
            c = w.add("mul", (i, w.add("tanh", (u,), (wide,))), (wide,))
            for _, before in children:
                c = w.add("add", (c, w.add("mul", (f, before), (wide,))), (wide,))
            return w.add("mul", (o, w.add("tanh", (c,), (wide,))), (wide,)), c

    def build(n):
        if n == 1:
            h = w.add("select", (w.parameter("words", (100, wide)),), (wide,))
            return cell([(h, h)])
        cut = rng.randrange(1, n)
        return cell([build(cut), build(n - cut)])

    loss = w.add("sum", (build(leaves)[0],), ())
    w.graph.outputs = [loss]
    if backward:
        w.update(w.backward(loss))
    return w.graph


def chain(rng, count):
    """A graph of many ops without modules, each with operands near by."""
    w = Writer(f"{count} ops without modules")
    last = [w.parameter("x", (8, 8))]
    while len(w.graph) < count:
        op = rng.choice(["add", "mul", "tanh", "exp", "sub", "matmul"])
        inputs = rng.sample(last, min(len(last), 1 if op in ("tanh", "exp") else 2))
        last = [*last[-5:], w.add(op, inputs, (8, rng.choice((4, 8))))]
    w.graph.outputs = [len(w.graph) - 1]
    return w.graph


def loop():
    """A static graph: an `if` inside of a `while`."""
    w = Writer("a loop, explored")
    graph = w.graph
    source = ["while h.sum() > 1:", "    if h.mean() > 0:", "        h = h / 2"]
    linecache.cache["loop.py"] = (0, None, [f"{line}\n" for line in source], "loop.py")
    h = w.parameter("x", (3, 4))
    large = w.add("gt", (w.add("sum", (h,)),), dtype="bool")
    merge = w.add("merge", (h,), (3, 4), name="h")
    condition = w.add("merge", (large,), name="condition")
    w.add("while", (condition,), (), file="loop.py", line=1, dtype="bool")
    turn = f"%{len(graph) - 1} true"
    mean = w.add("mean", (merge,), branch=turn)
    w.add("if", (mean,), (), branch=turn, file="loop.py", line=2, dtype="bool")
    asked = len(graph) - 1
    half = w.add("div", (merge,), (3, 4), branch=f"%{asked} true")
    again = w.add("gt", (half,), branch=f"%{asked} true")
    other = w.add("mul", (merge,), (3, 4), branch=f"%{asked} false")
    other = w.add("add", (other,), (3, 4), branch=f"%{asked} false")
    graph[merge].inputs = (h, half, other)
    graph[condition].inputs = (large, again)
    graph.outputs = [w.add("exp", (merge,), (3, 4), branch=turn.replace("true", "false"))]
    return graph


HOSTILE = [
    "</script><script>window.hacked = 1</script>",
    "<img src=x onerror='window.hacked = 1'>",
    '"quoted" \\ back\\',
    "{data}{script}{title}",
    "<!-- comment",
    "&amp; \u2028 \u2029 \ud800 \0 é 漢字 🧠",
    "]]>",
    "__proto__",
    "constructor",
]


def hostile():
    """Every text that comes from a user tries to break out."""
    w = Writer(HOSTILE[0])
    x = w.parameter("x", (2,))
    for text in HOSTILE:
        with w.inside(text, text):
            file = text.replace("\0", "").replace("\ud800", "")
            more = {"name": text, "numbers": text, "file": file, "function": text, "dtype": text}
            weight = w.add("input", (), (2,), **more)
            x = w.add(text, (x, weight), (2,), **more, values={text: text, "nan": 1})
    w.graph.outputs = [x]
    return w.graph


#: By name, graphs of each kind.
GRAPHS = {
    "digits": digits,
    "transformer": transformer,
    "tree": lambda: tree(random.Random(1)),
    "chain": lambda: chain(random.Random(1), 5000),
    "loop": loop,
    "hostile": hostile,
    "empty": lambda: OpGraph("nothing"),
}
