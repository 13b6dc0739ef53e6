"""wend.session: fed by name, for all sizes and many threads; saved with kernels and reopened."""

import hashlib
import json
import os
import subprocess
import sys
import threading
import zlib

import numpy as np
import pytest

import wend
from wend import nn
from wend._engine.base.errors import FormatError, IndexOutOfRange
from wend.serialization import safetensors


class Tagger(nn.Module):
    """A cell over rows, which stops where it is sure."""

    def __init__(self):
        super().__init__()
        self.cell = nn.LSTMCell(4, 8)
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        h = c = x.new_zeros(1, 8)
        for row in x:
            h, c = self.cell(row[None], (h, c))
            if self.head(h).softmax(-1).max() > 0.45:
                break
        return self.head(h)


class Counting(nn.Module):
    """Adds its input to a buffer."""

    def __init__(self):
        super().__init__()
        self.register_buffer("total", wend.zeros(2))

    def forward(self, x):
        self.total += x
        return self.total * 2


def net():
    wend.manual_seed(3)
    return nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3)).eval()


def same(a, b):
    np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-5, atol=1e-6)


def test_a_session_is_fed_by_name_by_position_and_with_arrays():
    model = net()
    session = wend.session(model, wend.randn(4, 6))
    x = wend.randn(5, 6)
    assert session.input_names == ["input"] and session.output_names == ["output"]
    for found in (session.run({"input": x}), session(x), session(input=x), session(x.numpy())):
        same(found, model(x))
    (named,) = session.run({"input": x}, outputs=["output"])
    same(named, model(x))
    assert not named.requires_grad


def test_sizes_differ_from_call_to_call_and_control_flow_follows():
    wend.manual_seed(0)
    model = Tagger()
    session = wend.session(model, wend.randn(5, 4), input_names=["words"], output_names=["scores"])
    for rows in (1, 2, 7, 12, 2, 7, 7, 7):
        x = wend.randn(rows, 4)
        same(session.run({"words": x}), model(x))
    assert "if %" in str(session.graph)
    assert "Tagger" in session.report


def test_arguments_are_trees_and_results_are_too():
    def mix(pair, table, scale=2.0, *, shift):
        a, b = pair
        return {"sum": a + b * scale, "rest": (table["w"] - shift, 5)}

    a, b, w, shift = [wend.randn(3) for _ in range(4)]
    session = wend.session(mix, (a, b), {"w": w}, example_kwargs={"shift": shift})
    assert session.input_names == ["pair.0", "pair.1", "table.w", "shift"]
    assert session.output_names == ["output_0", "output_1", "output_2"]
    found = session((a, b), {"w": w}, shift=shift)
    same(found["sum"], a + b * 2)
    same(found["rest"][0], w - shift)
    assert found["rest"][1] == 5
    feeds = {"pair.0": a, "pair.1": b, "table.w": w, "shift": shift}
    same(session.run(feeds, ["output_1"])[0], w - shift)
    with pytest.raises(ValueError, match="is of the structure"):
        session([a, b], {"w": w}, shift=shift)
    with pytest.raises(ValueError, match="is given twice"):
        session((a, b), {"w": w}, pair=(a, b), shift=shift)


def test_constants_among_the_arguments_are_compared():
    session = wend.session(lambda x, n: x * n, wend.ones(3), 2)
    same(session(wend.ones(4), 2), wend.full((4,), 2.0))
    with pytest.raises(ValueError, match="was 2 in the example, and is 3 now"):
        session(wend.ones(4), 3)


def test_the_state_is_the_sessions_own():
    model = Counting()
    session = wend.session(model, wend.ones(2))
    model.total.fill_(100.0)
    for k in (1, 2, 3):
        same(session(wend.ones(2)), wend.full((2,), 2.0 * k))
    state = session.state_dict()
    same(state["total"], wend.full((2,), 3.0))
    session(wend.ones(2))
    same(state["total"], wend.full((2,), 3.0))
    session.load_state_dict(state)
    same(session(wend.ones(2)), wend.full((2,), 8.0))
    same(model.total, wend.full((2,), 100.0))
    with pytest.raises(ValueError, match="'more' is missing or unknown"):
        session.load_state_dict({**state, "more": wend.ones(1)})
    with pytest.raises(
        ValueError, match=r"total is torch.float32\[2\], and got torch.float32\[3\]"
    ):
        session.load_state_dict({"total": wend.ones(3)})


class Reordered(nn.Module):
    """Weights in another order, scaled, and a part of these as a view."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(wend.arange(12.0).reshape(4, 3))
        self.register_buffer("seen", wend.zeros(3))

    def forward(self, x):
        parts = wend.cat([self.weight[2:], self.weight[:2]]) * 2.0
        self.seen += x.sum(0)
        wide = self.weight.sum().expand(50, 3)
        return x @ parts.t(), parts, wide[0], self.seen * 1.0


def test_what_follows_from_the_state_alone_is_computed_once_for_a_state():
    model = Reordered()
    session = wend.session(model, wend.ones(5, 3))
    folding = session._runner.folding
    names = {item.prim.name for item in folding.items}
    assert {"cat", "mul", "sum"} <= names
    assert len(folding.results) == 2
    assert session._exported.program.n_ops() == folding.graph.n_ops() + len(folding.items)
    for n in (5, 4):
        x = wend.randn(n, 3)
        for a, b in zip(session(x), model(x), strict=True):
            same(a, b)
    y = session(wend.ones(2, 3))[1]
    y.zero_()  # results are the caller's own
    with wend.no_grad():
        model.weight.copy_(wend.randn(4, 3))
    session.load_state_dict(model.state_dict())
    x = wend.randn(6, 3)
    for a, b in zip(session(x), model(x), strict=True):
        same(a, b)


def test_folded_values_of_a_saved_session(tmp_path):
    model = Reordered()
    session = wend.session(model, wend.ones(5, 3))
    session.save(tmp_path / "s.wend")
    with wend.load_session(tmp_path / "s.wend") as again:
        for a, b in zip(again(wend.ones(4, 3)), model(wend.ones(4, 3)), strict=True):
            same(a, b)


def test_buffers_that_hold_equal_numbers_are_not_mistaken_for_each_other():
    model = nn.Sequential(nn.BatchNorm1d(3), nn.Tanh(), nn.BatchNorm1d(3))
    session = wend.session(model, wend.randn(4, 3))
    for n in (4, 6, 5):
        x = wend.randn(n, 3)
        same(session(x), model(x))
    state = session.state_dict()
    assert state.keys() == model.state_dict().keys()
    for name, wanted in model.state_dict().items():
        same(state[name], wanted)


def test_results_share_memory_with_nothing():
    weight = wend.arange(6.0).reshape(2, 3)

    def views(x):
        return x.t(), x, weight, weight[0], (x + 1).t(), x.reshape(-1)

    session = wend.session(views, wend.ones(2, 3))
    for _ in range(5):
        x = wend.ones(4, 3)
        found = session(x)
        for y in found:
            y.add_(7)
        same(x, wend.ones(4, 3))
        for y, z in zip(session(x), views(x), strict=True):
            same(y, z)


def test_writes_reach_tensors_and_arrays_among_the_inputs():
    def write(x):
        x.mul_(2)
        return x.sum()

    session = wend.session(write, wend.ones(3))
    x, array = wend.ones(4), np.ones(4, np.float32)
    assert session(x).item() == session(array).item() == 8
    same(x, wend.full((4,), 2.0))
    assert (array == 2).all()


def test_random_numbers_are_those_of_the_function():
    model = nn.Dropout(0.5)
    session = wend.session(model, wend.ones(50))
    for _ in range(5):
        wend.manual_seed(1)
        wanted = [model(wend.ones(40)), model(wend.ones(40))]
        wend.manual_seed(1)
        for y in wanted:
            same(session(wend.ones(40)), y)
    assert not wend.equal(*wanted)


def test_numbers_that_are_read_are_computed_with():
    def scaled(x):
        peak = x.max().item()
        y = x / peak
        return y * int(y.sum().item() > 2), peak * 2

    session = wend.session(scaled, wend.tensor([1.0, 2.0]))
    for x in (wend.tensor([1.0, 4.0]), wend.tensor([3.0, 3.0, 3.0])):
        y, peak = session(x)
        wanted, double = scaled(x)
        same(y, wanted)
        assert peak == double


def test_threads_get_what_a_single_thread_gets():
    wend.manual_seed(0)
    model = Tagger()
    session = wend.session(model, wend.randn(5, 4))
    inputs = [wend.randn(n, 4) for n in (1, 3, 6, 6, 9)]
    wanted = [model(x).detach().numpy() for x in inputs]
    wrong = []

    def work(first):
        for k in range(40):
            k = (first + k) % len(inputs)
            found = session(inputs[k]).numpy()
            if not np.allclose(found, wanted[k], rtol=1e-5, atol=1e-6):
                wrong.append((k, found))

    run_in_threads(work, 4)
    assert not wrong


def test_calls_that_write_run_one_after_the_other():
    session = wend.session(Counting(), wend.ones(2))
    run_in_threads(lambda _: [session(wend.ones(2)) for _ in range(25)], 4)
    same(session.state_dict()["total"], wend.full((2,), 100.0))


def run_in_threads(work, n):
    """Runs work(k) in n threads; raises what one of them raises."""
    failures = []

    def guarded(k):
        try:
            work(k)
        except BaseException as fault:
            failures.append(fault)

    threads = [threading.Thread(target=guarded, args=(k,)) for k in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


# -- errors ---------------------------------------------------------------------------------


def test_feeds_that_do_not_fit_are_told_by_name():
    session = wend.session(lambda a, b: a @ b, wend.ones(3, 4), wend.ones(4, 5))
    a, b = wend.ones(3, 4), wend.ones(4, 5)
    cases = [
        ({"a": a, "c": b}, ValueError, "no input is called 'c'; the inputs are 'a', 'b'"),
        ({"a": a}, ValueError, "input 'b' is missing"),
        (
            {"a": a, "b": b.double()},
            ValueError,
            r"float64 of 2 dims: convert it with .to\(torch.float32\)",
        ),
        ({"a": a, "b": b[0]}, ValueError, "got torch.float32 of 1 dims"),
        ({"a": a, "b": [1.0]}, TypeError, "input 'b' is a list; give a tensor or a NumPy array"),
        ({"a": a, "b": np.array(["x"])}, TypeError, "input 'b'"),
    ]
    for feeds, kind, text in cases:
        with pytest.raises(kind, match=text):
            session.run(feeds)
    with pytest.raises(RuntimeError, match="mat1 and mat2 shapes cannot be multiplied"):
        session(a, wend.ones(5, 5))
    with pytest.raises(ValueError, match="takes 2 arguments"):
        session(a, b, b)
    with pytest.raises(ValueError, match="no result is called 'y'; the results are 'output'"):
        session.run({"a": a, "b": b}, ["y"])
    same(session(a, b), a @ b)


def test_dims_that_have_names_are_checked():
    rows = wend.export.Dim("rows", max=8)
    session = wend.session(
        lambda x: x * 2, wend.ones(3, 4), input_names=["x"], dynamic_shapes=({0: rows},)
    )
    same(session(wend.ones(5, 4)), wend.full((5, 4), 2.0))
    with pytest.raises(ValueError, match="dim 1 of input 'x' has the constant size 4, and got 5"):
        session(wend.ones(3, 5))
    with pytest.raises(ValueError, match="9 is out of the bounds"):
        session(wend.ones(9, 4))


def test_names_are_one_per_tensor():
    with pytest.raises(ValueError, match="input_names: 1 different names are needed"):
        wend.session(lambda x: x + 1, wend.ones(3), input_names=["a", "b"])
    with pytest.raises(ValueError, match="output_names: 2 different names are needed"):
        wend.session(lambda x: (x, x + 1), wend.ones(3), output_names=["a", "a"])


def test_errors_of_the_function_are_raised():
    def pick(x, i):
        if x.sum() > 100:
            raise ValueError("too much")
        return x[i]

    session = wend.session(pick, wend.ones(3), wend.tensor([0, 1]))
    for _ in range(5):
        same(session(wend.ones(4), wend.tensor([3])), wend.ones(1))
        with pytest.raises(IndexOutOfRange):
            session(wend.ones(4), wend.tensor([4]))
        with pytest.raises(ValueError, match="too much"):
            session(wend.full((4,), 50.0), wend.tensor([1]))


def test_a_closed_session_says_so():
    with wend.session(lambda x: x + 1, wend.ones(3)) as session:
        session(wend.ones(2))
    for call in (lambda: session(wend.ones(2)), session.state_dict, lambda: session.save("x")):
        with pytest.raises(RuntimeError, match="the session is closed; open its file again"):
            call()


# -- files ----------------------------------------------------------------------------------

REOPENED = """
import json, sys
import numpy as np
import wend

session = wend.load_session(sys.argv[1])
x = np.load(sys.argv[2])
first = session.run({"words": x}, ["scores"])[0].numpy()
early = "llvmlite" in sys.modules
session.prepare()
later = [session.run({"words": x}).numpy() for _ in range(3)]
assert all(np.allclose(first, y, rtol=1e-5, atol=1e-6) for y in later)
from wend._engine.compiler.llvm_ir import jit
print(json.dumps([early, jit.counters.compiled, jit.counters.offered, first.tolist()]))
print(session.report)
"""


@pytest.fixture
def saved(tmp_path):
    wend.manual_seed(0)
    model = Tagger()
    session = wend.session(model, wend.randn(5, 4), input_names=["words"], output_names=["scores"])
    session.save(tmp_path / "tagger.wend")
    return model, tmp_path / "tagger.wend"


def kernels_are_made():
    return os.environ.get("WEND_COMPILE", "1") != "0"


def test_a_saved_session_is_reopened_without_tracing_or_compiling(saved, tmp_path):
    model, path = saved
    x = wend.full((2, 4), 0.1)  # a single question, so that the reference is not slow to NumPy
    np.save(tmp_path / "x.npy", x.numpy())
    environment = {**os.environ, "WEND_CACHE_DIR": str(tmp_path / "empty")}
    if environment.get("WEND_COMPILE") == "force":
        del environment["WEND_COMPILE"]
    command = [sys.executable, "-c", REOPENED, str(path), str(tmp_path / "x.npy")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told, *report = done.stdout.splitlines()
    early, compiled, offered, scores = json.loads(told)
    np.testing.assert_allclose(scores, model(x).detach().numpy(), rtol=1e-5, atol=1e-6)
    assert not early
    if kernels_are_made():
        # What is compiled is the function that tries whether machine code runs here.
        assert compiled <= 1 and offered > 1
        assert "came with the file for this processor" in report[-1]


def test_a_reopened_session_goes_on_with_its_state(tmp_path):
    session = wend.session(Counting(), wend.ones(2), output_names=["sums"])
    session(wend.ones(2))
    session.save(tmp_path / "counting.wend")
    session(wend.ones(2))
    again = wend.load_session(tmp_path / "counting.wend")
    same(again(wend.ones(2)), wend.full((2,), 4.0))
    assert (again.input_names, again.output_names) == (session.input_names, session.output_names)
    again.save(tmp_path / "again.wend")
    same(wend.load_session(tmp_path / "again.wend")(x=wend.ones(2)), wend.full((2,), 6.0))


def test_kernels_of_loops_over_a_size_are_made_ahead(tmp_path):
    wend.manual_seed(0)
    model = nn.LSTM(4, 6, bidirectional=True).eval()
    session = wend.session(model, wend.randn(5, 3, 4))
    session.save(tmp_path / "lstm.wend")
    again = wend.load_session(tmp_path / "lstm.wend")
    for n in (5, 2, 8):
        x = wend.randn(n, 3, 4)
        wanted, (h, c) = model(x)
        for found in (session(x), again(x)):
            for a, b in zip((found[0], *found[1]), (wanted, h, c), strict=True):
                same(a, b)


def test_kernels_can_be_left_aside(saved):
    model, path = saved
    session = wend.load_session(path, kernels=False)
    assert "left aside" in session.report
    x = wend.randn(6, 4)
    same(session(x), model(x))
    same(wend.export.load(path).module()(x), model(x))


def test_a_program_without_kernels_is_opened_too(tmp_path):
    model = net()
    wend.export.save(wend.export.export(model, (wend.ones(3, 6),)), tmp_path / "net.wend")
    session = wend.load_session(tmp_path / "net.wend")
    assert session.input_names == ["input_0"]
    assert "no kernels in the file" in session.report
    x = wend.randn(4, 6)
    same(session(x), model(x))
    again = wend.session(wend.export.load(tmp_path / "net.wend"), input_names=["pixels"])
    same(again.run({"pixels": x}), model(x))


def rewritten(path, change):
    """Writes the file again, after change(document, tensors)."""
    metadata = safetensors.read_metadata(path)
    tensors = safetensors.load_file(path)
    document = json.loads(metadata["wend.session"])
    change(document, tensors)
    metadata["wend.session"] = json.dumps(document)
    safetensors.save_file(tensors, path, metadata)


needs_kernels = pytest.mark.skipif(not kernels_are_made(), reason="no kernels are made")


@needs_kernels
def test_damaged_kernels_are_refused_and_those_of_others_are_told(saved):
    model, path = saved

    def of_another_processor(document, tensors):
        document["kernels"]["made_for"]["features"] += ",+strange"

    rewritten(path, of_another_processor)
    session = wend.load_session(path)
    assert "for another set of instructions (+strange): kernels are made here" in session.report
    x = wend.randn(6, 4)
    for _ in range(4):
        same(session(x), model(x))

    rewritten(path, lambda document, tensors: tensors["wend.kernels"].add_(1))
    with pytest.raises(FormatError, match="machine code in the file is damaged; kernels=False"):
        wend.load_session(path)
    same(wend.load_session(path, kernels=False)(x), model(x))


def another_object(document, tensors):
    """Machine code that nobody has signed, with digests that are right."""
    packed = zlib.compress(b"no object of LLVM's")
    row = [document["kernels"]["objects"][0][0], len(packed), hashlib.sha256(packed).hexdigest()]
    document["kernels"]["objects"] = [row]
    document["kernels"]["signatures"] = document["kernels"]["signatures"][:1]
    tensors["wend.kernels"] = wend.tensor(list(packed), dtype=wend.uint8)


def swapped_names(document, tensors):
    """The code of a kernel under the name of another one."""
    rows = document["kernels"]["objects"]
    names = [row[0] for row in rows]
    for row, name in zip(rows, [*names[1:], names[0]], strict=True):
        row[0] = name


@needs_kernels
@pytest.mark.parametrize(
    "change",
    [
        another_object,
        swapped_names,
        lambda document, tensors: document["kernels"].pop("signatures"),
        lambda document, tensors: document["kernels"]["signatures"].pop(),
        lambda document, tensors: document["kernels"]["signatures"].reverse(),
    ],
    ids=["another object", "swapped names", "unsigned", "one unsigned", "reversed"],
)
def test_kernels_that_the_users_key_has_not_signed_are_made_anew(saved, change):
    model, path = saved
    rewritten(path, change)
    session = wend.load_session(path)
    assert "not signed by this user's key: kernels are made here" in session.report
    session.prepare()
    x = wend.randn(6, 4)
    same(session(x), model(x))


@needs_kernels
def test_kernels_of_another_users_key_are_made_anew(saved, tmp_path, monkeypatch):
    _, path = saved
    monkeypatch.setenv("WEND_KEY_FILE", str(tmp_path / "another.key"))
    session = wend.load_session(path)
    assert "not signed by this user's key" in session.report
    session.save(path)
    assert "came with the file" in wend.load_session(path).report
    monkeypatch.delenv("WEND_KEY_FILE")
    assert "not signed by this user's key" in wend.load_session(path).report


ANOTHER_MODEL = """
import sys
import wend
from wend._engine.compiler.llvm_ir import jit

session = wend.load_session(sys.argv[1])
session.prepare()
offered, compiled = jit.counters.offered, jit.counters.compiled
assert offered > 1 and session._kernels.offer.taken
assert not set(jit._libraries) & set(session._kernels.offer.objects)
another = wend.session(wend.export.load(sys.argv[1]))
another.prepare()
assert jit.counters.offered == offered and jit.counters.compiled > compiled
"""


@needs_kernels
def test_the_kernels_of_a_file_serve_its_session_alone(saved):
    """A session of equal kernels gets none from the file, while the first session lives."""
    environment = {**os.environ, "WEND_CACHE_DIR": ""}
    command = [sys.executable, "-c", ANOTHER_MODEL, str(saved[1])]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_later_versions_and_damage_are_refused(saved):
    _, path = saved
    for inputs in (3, ["a", "b"]):
        rewritten(path, lambda document, tensors, given=inputs: document.update(inputs=given))
        with pytest.raises(FormatError, match="the file is damaged"):
            wend.load_session(path)
    rewritten(path, lambda document, tensors: document.update(version=9))
    with pytest.raises(FormatError, match="version 9 of the format, and this is a Wend that reads"):
        wend.load_session(path)


class Rounded(wend.autograd.Function):
    """Rounds; the gradient passes straight through."""

    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, g):
        return g


def test_functions_with_gradients_of_their_own_become_their_forward():
    layer = nn.Linear(4, 4)

    def quantized(x):
        y = Rounded.apply(layer(x) * 3)
        return y if y.sum() > 0 else Rounded.apply(y - 0.4)

    session = wend.session(quantized, wend.randn(3, 4))
    for rows in (1, 3, 6):
        x = wend.randn(rows, 4)
        assert wend.equal(session(x), quantized(x))
    with pytest.warns(UserWarning, match=r"not Rounded\.backward"):
        module = wend.export.export(quantized, (wend.randn(3, 4),)).module()
    assert wend.equal(module(x), quantized(x))
