"""wend.aot.compile: what functions it takes, and what it tells of the others."""

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from callers import NativeModel
from nets import net

import wend as torch
from wend import aot, nn
from wend._engine.base import tree
from wend._engine.base.errors import ArgumentError, ArgumentTypeError, CompileError
from wend._engine.compiler.aot import pattern_code
from wend.serialization import safetensors

EXAMPLES = Path(__file__).resolve().parent.parent.parent / "examples"
needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler named cc")
WEIGHT = torch.arange(12.0).reshape(4, 3)


def library(function, *example, folder, **options):
    return NativeModel(aot.compile(function, example, directory=folder, **options))


def written_in_place(x):
    y = x + 1
    y[:, 0] = 5
    y *= 2
    return y.relu_()


def write_view(x):
    y = x + 1
    y.view(-1).mul_(2)
    return y


# (function, example, other inputs)
FUNCTIONS = {
    "an input": (lambda x: x, [(2, 3)], [[(5, 3)]]),
    "a weight": (lambda x: (WEIGHT, x.sum()), [(2, 3)], []),
    "a view": (lambda x: (x.T, x[1:, ::2]), [(4, 3)], [[(6, 5)]]),
    "twice": (lambda x: (y := x * 2, y, y.T), [(2, 3)], [[(1, 3)]]),
    "nested": (lambda x: {"a": [x.mean(), x.argmax(dim=1)]}, [(2, 3)], [[(7, 1)]]),
    "from sizes": (lambda x: torch.arange(x.shape[0]) / x.shape[1] ** 0.5, [(4, 3)], [[(6, 5)]]),
    "zeros": (lambda x: torch.zeros(x.shape[0], 2), [(4, 3)], [[(6, 5)]]),
    "reshaped": (lambda x: x.view(x.size(0) // 2, -1), [(4, 3)], [[(6, 5)]]),
    "two inputs": (lambda x, y: torch.cat([x, y]) @ x.T, [(2, 3), (4, 3)], [[(5, 6), (1, 6)]]),
    "doubles": (lambda x: x.double().softmax(dim=-1), [(4, 3)], [[(6, 5)]]),
    "halves": (lambda x: x.half() * 2, [(4, 3)], [[(6, 5)]]),
    "bools": (lambda x: (x > 0) & (x < 1), [(4, 3)], [[(6, 5)]]),
    "no elements": (lambda x: x @ WEIGHT.T, [(4, 3)], [[(0, 3)]]),
    "in place": (written_in_place, [(4, 3)], [[(6, 3)]]),
    "a written view": (write_view, [(4, 3)], [[(6, 3)]]),
    "numbers": (lambda x: (x.shape[0], x.shape[1] / 2, True, 0.1), [(4, 3)], [[(6, 3)]]),
}


@needs_cc
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name, tmp_path):
    function, example, others = FUNCTIONS[name]
    inputs = [[torch.randn(shape) for shape in shapes] for shapes in (example, *others)]
    outputs = len(tree.leaves(function(*inputs[0])))
    model = library(function, *inputs[0], folder=tmp_path)
    for given in inputs:
        wanted = tree.leaves(function(*given))
        found = model(*[x.numpy() for x in given], outputs=outputs)
        for mine, theirs in zip([found] if outputs == 1 else found, wanted, strict=True):
            want = theirs.numpy() if isinstance(theirs, torch.Tensor) else np.asarray(theirs)
            assert mine.shape == want.shape and mine.dtype == want.dtype
            np.testing.assert_allclose(mine, want, rtol=1e-5, atol=1e-6)


@needs_cc
def test_comparisons_of_sizes_are_part_of_the_library(tmp_path):
    def function(x):
        return x * 2 if x.shape[1] > 3 else x * 3

    few, many = torch.ones(2, 3), torch.ones(2, 4)
    only = library(function, many, folder=tmp_path / "only")
    # A question about a size is a branch: one example leads to both ways.
    assert [only(np.ones((2, n), np.float32)).max() for n in (1, 2, 3, 4, 9)] == [3, 3, 3, 2, 2]
    both = NativeModel(aot.compile(function, [(few,), (many,)], directory=tmp_path / "both"))
    assert [both(np.ones((2, n), np.float32)).max() for n in (2, 7)] == [3, 2]


@needs_cc
def test_errors_of_a_run(tmp_path):
    model = library(lambda i: WEIGHT[i], torch.tensor([0, 2]), folder=tmp_path)
    assert model(np.array([3, 1, 1])).tolist() == WEIGHT[[3, 1, 1]].tolist()
    for bad, text in (
        (np.array([4]), "model_run: .*out of range"),
        (np.array([1.0]), r"no recorded pattern is for inputs of float64 \(1\)"),
        (np.array([[1]]), r"for inputs of int64 \(1, 1\)"),
    ):
        with pytest.raises(RuntimeError, match=text):
            model(bad)
    with pytest.raises(RuntimeError, match="takes 1 inputs and gives 1 outputs"):
        model(np.array([1]), np.array([1]))
    assert model(np.array([1])).shape == (1, 3)  # a failure leaves nothing behind


@needs_cc
def test_weights_can_be_exchanged(tmp_path):
    module = nn.Linear(3, 2)
    made = aot.compile(module, torch.ones(2, 3), directory=tmp_path)
    other = nn.Linear(3, 2)
    path = tmp_path / "other.safetensors"
    safetensors.save_file(other.state_dict(), path)
    x = torch.randn(4, 3)
    found = NativeModel(made, path)(x.numpy())
    np.testing.assert_allclose(found, other(x).detach().numpy(), rtol=1e-5, atol=1e-6)


class TwoWeights(nn.Module):
    """The second weight has a name that a program could not write down, but a file can."""

    def __init__(self, name):
        super().__init__()
        self.plain = nn.Parameter(torch.arange(3.0))
        self.register_parameter(name, nn.Parameter(torch.arange(3.0, 6.0)))
        self.name = name

    def forward(self, x):
        return x * self.plain + getattr(self, self.name)


HOSTILE_NAME = """x", "F32", 12, 4, "[3]"}, };
int puts(const char *); void __attribute__((constructor)) hostile(void) { puts("run"); }
static const Weight rest[] = { {"x"""


@needs_cc
@pytest.mark.parametrize(
    "name", [HOSTILE_NAME, "\\", '"', "??/", "ä\n", "shape", "dtype", "constant"]
)
def test_names_of_weights_are_no_code(name, tmp_path):
    """A file can name a weight by any text: a library is made of the text's characters only."""
    made = aot.compile(TwoWeights(name), torch.ones(2, 3), directory=tmp_path)
    assert "hostile" not in made.source.read_text()
    np.testing.assert_array_equal(NativeModel(made)(np.ones((1, 3), np.float32)), [[3, 5, 7]])


def test_texts_of_errors_are_no_code():
    quoted = pattern_code.quoted
    assert quoted('a", evil(), "') == r'"a\042, evil(), \042"'
    assert quoted("\\??/\nä\0" + "1") == r'"\134\077\077/\012\303\244\0001"'


@needs_cc
def test_wrong_files_of_weights_are_refused(tmp_path):
    made = aot.compile(nn.Linear(3, 2), torch.ones(2, 3), directory=tmp_path)
    path = tmp_path / "wrong"
    good = made.weights.read_bytes()
    cases = {
        b"": "no safetensors file",
        b"x" * 40: "no safetensors file",
        good.replace(b"bias", b"bia_"): "the file has no tensor bias",
        good.replace(b"F32", b"I32"): "to be of type F32",
        good.replace(b"[2,3]", b"[3,2]").replace(b"[2, 3]", b"[3, 2]"): r"shape \[2,3\]",
        good[:-8]: "does not lie well in the file",
    }
    for content, text in cases.items():
        path.write_bytes(content)
        with pytest.raises(RuntimeError, match=text):
            NativeModel(made, path)
    with pytest.raises(RuntimeError, match="cannot read"):
        NativeModel(made, tmp_path / "missing")


def write_outside(x):
    WEIGHT.add_(1)
    return x + WEIGHT


def selects(x):
    mask = torch.zeros_like(x)
    mask[:, 1] = 1
    return x[mask.bool()].view(x.size(0))


def raises(x):
    if x.sum() > 0:
        raise ValueError("positive")
    raise ValueError("negative")


REFUSED = {
    "NumPy": (lambda x: x * np.asarray(x).sum(), "values of a tensor were read by NumPy"),
    "tolist": (lambda x: x * x[0].tolist()[0], "values of a tensor were read by NumPy"),
    "unknown size": (lambda x: x[x > 0], "nonzero_static: .*NumPy is not there at run time"),
    "random": (lambda x: x + torch.randn(3), "draws random numbers"),
    "no kernel": (lambda x: torch.sort(x)[0], "sort: .*NumPy is not there at run time"),
    "a known size": (selects, "nonzero_static|sizes follow from values"),
    "an argument": (lambda x: x.add_(1), r"writes into an argument.*x\.clone\(\)"),
    "unlike results": (lambda x: (x, x) if x.sum() > 0 else x, "unlike numbers of tensors"),
    "only raises": (raises, "only raises"),
    "outside": (write_outside, "writes into a tensor from outside"),
    "a buffer": (nn.BatchNorm1d(3), "writes into num_batches_tracked"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_functions_that_are_refused(name, tmp_path):
    function, text = REFUSED[name]
    before = WEIGHT.clone()
    with pytest.raises(CompileError, match=text) as fault:
        aot.compile(function, torch.randn(4, 3), directory=tmp_path, compiler="cc")
    assert torch.equal(WEIGHT, before)
    if name in ("no kernel", "NumPy", "random", "unknown size"):
        assert "test_compile.py" in str(fault.value)  # the user's line
    if isinstance(function, nn.Module):
        assert function.num_batches_tracked.item() == 0 and function.running_mean.sum() == 0


def test_wrong_calls(tmp_path):
    x = torch.ones(2, 3)
    with pytest.raises(ArgumentError, match="cannot begin names in C"):
        aot.compile(nn.Linear(3, 2), x, name="a-b")
    with pytest.raises(ArgumentError, match="target 'z80' is none of x86-64, "):
        aot.compile(nn.Linear(3, 2), x, "z80")
    with pytest.raises(ArgumentTypeError, match="example_inputs is to be a tensor"):
        aot.compile(nn.Linear(3, 2), (1, 2), compiler="cc")
    with pytest.raises(ArgumentError, match="same dtypes and numbers of dims"):
        aot.compile(nn.Linear(3, 2), [(x,), (x[0],)], compiler="cc")
    with pytest.raises(ArgumentTypeError, match="the function returns a str"):
        aot.compile(lambda x: "a", x, compiler="cc")
    with pytest.raises(CompileError, match=r"aot\.compile: false fails"):
        aot.compile(nn.Linear(3, 2), x, directory=tmp_path, compiler="false")


@needs_cc
def test_a_library_has_one_set_of_names(tmp_path):
    module, example = net("mlp")
    made = aot.compile(module, example(2), directory=tmp_path, name="small")
    if shutil.which("nm") is None:
        pytest.skip("needs nm")
    listed = subprocess.run(
        ["nm", "-D", "--defined-only", made.library], capture_output=True, text=True, check=True
    ).stdout
    names = {line.split()[-1] for line in listed.splitlines()}
    assert "small_run" in names and all(name.startswith("small_") for name in names)


def printed(folder, name, *options):
    """What an example prints."""
    words = ["wend", "run", EXAMPLES / name, folder, *options]
    done = subprocess.run(
        [sys.executable, "-m", *map(str, words)], capture_output=True, text=True, check=True
    )
    return done.stdout


@needs_cc
def test_the_example_reads_digits(tmp_path):
    pytest.importorskip("sklearn")
    assert "held-out images right" in printed(tmp_path, "aot_digits.py", "--epochs", "1")


@needs_cc
def test_the_example_tags_words(tmp_path):
    few = ["--epochs", "1", "--limit", "60", "--test-limit", "30", "--modules", "20"]
    assert "held-out words right" in printed(tmp_path, "aot_tagger.py", *few)
