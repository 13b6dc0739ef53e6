"""Tracebacks show the program's lines: in a script, in pytest, in pdb and in IPython."""

import io
import os
import pdb  # noqa: T100 (what is tested)
import re
import subprocess
import sys
import traceback
from pathlib import Path

import pytest

import wend as torch
from wend import nn
from wend._engine.base.config import override
from wend._engine.base.tracebacks import entry_of
from wend._engine.core import _hot
from wend._engine.core._select import is_compiled
from wend.errors import WendError
from wend.nn import functional as F

pytestmark = pytest.mark.skipif(
    not is_compiled(_hot),
    reason="compiled modules leave the frames out; the uncompiled core has more",
)
PACKAGE = str(Path(torch.__file__).parent) + os.sep


class Wrong(nn.Module):
    """A module of a user's, with an error in the middle."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(2, 2)

    def forward(self, x):
        return self.inner(x) @ torch.zeros(5, 5)


class Halved(torch.autograd.Function):
    """A function of a user's, whose gradient has a wrong shape."""

    @staticmethod
    def forward(ctx, x):
        return x / 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient.view(7)


def hooked():
    layer = nn.Linear(2, 2)
    layer.register_forward_hook(lambda module, x, y: y @ torch.zeros(3, 3))
    return layer(torch.zeros(1, 2))


def twice():
    y = torch.randn(3, requires_grad=True).exp().sum()
    y.backward()
    y.backward()


def later():
    x = torch.randn(3, 4, requires_grad=True)
    loss = F.cross_entropy(x * 2, torch.tensor([0, 1, 4]))  # the line of the mistake
    return loss.item()


# fmt: off
KINDS = {
    "matmul": lambda: torch.randn(3, 4) @ torch.randn(5, 6),
    "linear": lambda: nn.Sequential(nn.Linear(4, 5), nn.Linear(6, 2))(torch.randn(3, 4)),
    "conv": lambda: nn.Conv2d(3, 8, 3)(torch.zeros(2, 4, 8, 8)),
    "lstm": lambda: nn.LSTM(3, 4)(torch.zeros(5, 2, 7)),
    "attention": lambda: nn.TransformerEncoderLayer(8, 2)(torch.zeros(4, 2, 9)),
    "broadcast": lambda: torch.zeros(3, 4) + torch.zeros(3, 5),
    "view": lambda: torch.zeros(3, 4).view(5, -1),
    "cat": lambda: torch.cat([torch.zeros(2, 3), torch.zeros(2, 4)]),
    "index": lambda: torch.zeros(3, 4)[5],
    "mask": lambda: torch.zeros(3, 4)[torch.ones(4, 4, dtype=torch.bool)],
    "embedding": lambda: nn.Embedding(10, 4)(torch.tensor([1, 30])).sum().item(),
    "dim": lambda: torch.zeros(3).sum(dim=4),
    "dtype": lambda: torch.zeros(3, 4) @ torch.zeros(4, 5, dtype=torch.int64),
    "keyword": lambda: torch.softmax(torch.zeros(3), dimm=0),
    "number": lambda: torch.zeros(3).item(),
    "condition": lambda: bool(torch.zeros(3)),
    "in place": lambda: torch.randn(3, requires_grad=True).add_(1),
    "no scalar": lambda: (torch.randn(3, requires_grad=True) * 2).backward(),
    "freed": twice,
    "module": lambda: Wrong()(torch.zeros(1, 2)),
    "hook": hooked,
    "function": lambda: Halved.apply(torch.zeros(3, requires_grad=True)).sum().backward(),
    "vmap": lambda: torch.vmap(lambda a: a @ torch.zeros(3, 3))(torch.zeros(4, 2)),
    "grad": lambda: torch.func.grad(lambda a: (a @ torch.zeros(3, 3)).sum())(torch.zeros(2, 2)),
    "inverse": lambda: torch.linalg.inv(torch.zeros(3, 3)).sum().item(),
    "loss": lambda: F.nll_loss(torch.randn(3, 4), torch.zeros(5, dtype=torch.long)),
    "later": later,
}
# fmt: on


def frames(error):
    return [entry.tb_frame.f_code for entry, _ in walk(error)]


def walk(error):
    at = error.__traceback__
    while at is not None:
        yield at, at.tb_lineno
        at = at.tb_next


@pytest.mark.parametrize("kind", KINDS)
def test_at_most_one_frame_is_wends(kind):
    with pytest.raises(WendError) as caught:
        KINDS[kind]()
    files = [code.co_filename for code in frames(caught.value)]
    own = [f for f in files if f.startswith((PACKAGE, "src/wend"))]
    assert len(own) <= 1 and files.count(__file__) >= 2
    text = "".join(traceback.format_exception(caught.value))
    assert text.count("Traceback (most recent call last)") == 1


#: Functions that take less than a microsecond, for which `short_errors` would be a tenth.
QUICK = {
    "adjoint", "as_tensor", "conj", "dropout", "fill", "full", "imag", "promote_types", "real",
    "result_type", "stride",
}  # fmt: skip
#: Functions that wait, read files, or change the state of the process.
APART = re.compile(r"^(set_|use_|load|save|seed|manual_seed|import_|compile|inference_mode|exit)")


def public_functions():
    """(label, function) of all public functions and methods of tensors."""
    spaces = {
        "": torch,
        "F.": F,
        "linalg.": torch.linalg,
        "fft.": torch.fft,
        "Tensor.": torch.Tensor,
    }
    for prefix, space in spaces.items():
        # Names that are imported at their first use count as well.
        for name in sorted({*dir(space), *getattr(space, "_ELSEWHERE", ())}):
            function = getattr(space, name, None)
            if name.startswith("_") or APART.match(name) or name.strip("_") in QUICK:
                continue
            if callable(function) and not isinstance(function, type):
                yield prefix + name, function


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("first", "abcdefghijklmnopqrstuvwxyz")
def test_bad_calls_of_all_functions_show_at_most_one_frame_of_wends(first):
    x, y, big = torch.randn(3, 4), torch.randn(5, 6), torch.full((2,), 99)
    calls = [(), (x,), (x, y), (x, x, 9), ("s",), (x, "s"), (x, 2, big), (x, -9), ([x, y],), (big,)]
    bad = []
    for label, function in public_functions():
        if label.rpartition(".")[2][0] != first:
            continue
        for args in calls:
            if label.startswith("Tensor.") and not (args and isinstance(args[0], torch.Tensor)):
                continue
            try:
                function(*(a.clone() if isinstance(a, torch.Tensor) else a for a in args))
            except WendError as error:
                own = [c for c in frames(error) if c.co_filename.startswith((PACKAGE, "src/wend"))]
                if len(own) > 1:
                    bad.append(f"{label}: {error}: {[code.co_name for code in own]}")
            except Exception:  # of Python, about the number of arguments
                pass
    assert not bad, "\n".join(bad)


def test_all_frames_on_request():
    with override(full_tracebacks=True), pytest.raises(WendError) as caught:
        KINDS["linear"]()
    assert len(frames(caught.value)) > 15
    with pytest.raises(WendError) as caught:
        KINDS["linear"]()
    assert len(frames(caught.value)) <= 3


def test_a_later_error_shows_the_line_of_the_call_as_a_frame():
    with pytest.raises(WendError) as caught:
        later()
    code, line = frames(caught.value)[-1], list(walk(caught.value))[-1][1]
    assert code.co_filename == __file__ and code.co_name == "later"
    assert line == later.__code__.co_firstlineno + 2
    text = "".join(traceback.format_exception(caught.value))
    assert "return loss.item()" in text and "# the line of the mistake" in text
    assert "Target 4 is out of bounds" in text


@pytest.mark.parametrize("compiled", ["0", "force"])
def test_the_context_of_a_later_error_is_the_programs(tmp_path, compiled):
    """An error that the program handles is shown before; the failure of a faster run is not."""
    path = tmp_path / "handles.py"
    path.write_text(
        SCRIPT.replace(
            "    print(total.item())",
            """    try:
        raise KeyError("mine")
    except KeyError:
        print(total.item())""",
        )
    )
    done = subprocess.run(
        [sys.executable, str(path)], capture_output=True, text=True, check=False, timeout=120,
        env=os.environ | {"WEND_COMPILE": compiled},
    )  # fmt: skip
    assert done.stderr.count("Traceback (most recent call last)") == 2
    assert "KeyError: 'mine'" in done.stderr and "Target 4 is out of bounds" in done.stderr


def test_an_error_raised_again_does_not_grow():
    loss = F.cross_entropy(torch.randn(3, 4), torch.tensor([0, 1, 4]))
    texts = set()
    for _ in range(3):
        with pytest.raises(WendError) as caught:
            loss.item()
        texts.add(len(frames(caught.value)))
    assert len(texts) == 1


def test_an_entry_has_place_and_name():
    code = later.__code__
    lasti = max(k * 2 for k, p in enumerate(code.co_positions()) if p[0] == code.co_firstlineno + 2)
    entry = entry_of(code, lasti)
    assert entry.tb_lineno == code.co_firstlineno + 2
    assert entry.tb_frame.f_code.co_qualname == "later"


SCRIPT = """
import wend as torch
from wend.nn import functional as F

def step(x):
    loss = F.cross_entropy(x, torch.tensor([0, 1, 4]))
    return loss

def main():
    total = step(torch.randn(3, 4, requires_grad=True))
    print(total.item())

main()
"""


def shown(tmp_path, *command, **environment):
    path = tmp_path / "program.py"
    path.write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, *command, str(path)], capture_output=True, text=True, check=False,
        env=os.environ | environment, timeout=120, input="where\nq\n",
    )  # fmt: skip
    return done.stdout + done.stderr


def test_a_script_shows_the_lines_of_the_program(tmp_path):
    text = shown(tmp_path)
    assert len(re.findall(r'^  File "', text, re.MULTILINE)) <= 5
    assert "src/wend" not in text and "loss = F.cross_entropy(x, torch.tensor" in text
    assert len(re.findall(r'^  File "', shown(tmp_path, WEND_TRACEBACK="full"), re.MULTILINE)) > 15


def test_pytest_shows_the_lines_of_the_program(tmp_path):
    path = tmp_path / "test_program.py"
    path.write_text(SCRIPT.replace("\nmain()\n", "\ntest_x = main\n"))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(path)],
        capture_output=True, text=True, check=False, timeout=120, cwd=tmp_path,
    )  # fmt: skip
    places = re.findall(r"^(\S+\.py):\d+:", done.stdout, re.MULTILINE)
    assert places and {Path(p).name for p in places} <= {"test_program.py", "tensor.py"}
    assert "Target 4 is out of bounds" in done.stdout


def test_pdb_stands_at_a_line_of_the_program():
    with pytest.raises(WendError) as caught:
        Wrong()(torch.zeros(1, 2))
    out = io.StringIO()
    session = pdb.Pdb(stdin=io.StringIO("where\np x.shape\nq\n"), stdout=out, nosigint=True)
    session.reset()
    session.interaction(None, caught.value.__traceback__)
    assert "return self.inner(x) @ torch.zeros(5, 5)" in out.getvalue()
    assert "torch.Size([1, 2])" in out.getvalue() and "src/wend" not in out.getvalue()


def test_ipython_finds_the_source_of_all_frames():
    interactive = pytest.importorskip("IPython.core.interactiveshell", reason="is the shell")
    from IPython.utils.capture import capture_output

    shell = interactive.InteractiveShell.instance()
    with capture_output() as captured:
        shell.run_cell(SCRIPT)
    text = re.sub(r"\x1b\[[0-9;]*m", "", captured.stdout + captured.stderr)
    assert "Could not get source" not in text and "_hot.py" not in text
    assert "Target 4 is out of bounds" in text and "loss = F.cross_entropy(x" in text


@pytest.mark.parametrize("kind", ["matmul", "cat", "linear"])
def test_an_interrupt_while_a_traceback_is_shortened_is_not_lost(kind, monkeypatch):
    def interrupted(error):
        raise KeyboardInterrupt

    monkeypatch.setattr(WendError, "shorten", interrupted)
    with pytest.raises(KeyboardInterrupt):
        KINDS[kind]()
