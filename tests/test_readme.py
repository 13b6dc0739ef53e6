"""README keeps its word: its commands and programs run, its links lead somewhere, and what it says
to work does, and what it says not to work does not."""

import importlib
import io
import platform
import re
import subprocess
import sys
from pathlib import Path

import pytest

import wend
from wend._tools.demo import comparison, runs

ROOT = Path(__file__).resolve().parent.parent
PAGES = [
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "docs/compatibility.md",
    "docs/batching.md",
]


def blocks(page, language):
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


@pytest.mark.smoke
def test_the_two_commands_are_there():
    commands = re.findall(r"^bash (\S+)", "".join(blocks("README.md", "sh")), re.MULTILINE)
    assert commands == ["scripts/demo", "scripts/test"]
    for command in commands:
        done = subprocess.run(["bash", "-n", ROOT / command], capture_output=True, check=False)
        assert done.returncode == 0, done.stderr
    assert "-m wend demo" in (ROOT / "scripts/demo").read_text()


def test_the_table_is_the_demo_s():
    """Its rows are those that the command prints; ratios and losses are as the command has them."""
    section = (ROOT / "README.md").read_text(encoding="utf-8").split("## Two commands")[1]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    tables = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    start = tables.index(list(comparison.COLUMNS))
    rows = [dict(zip(comparison.COLUMNS, row, strict=True)) for row in tables[start + 2 :]]
    version = re.search(r"by (PyTorch [\d.]+),", section)[1]
    ways = ("Wend, first run", version, "Wend, again")
    assert [(row["program"], row["run by"]) for row in rows] == [
        (program, way) for program in runs.PROGRAMS for way in ways
    ]
    for k, row in enumerate(rows):
        torch = rows[k // 3 * 3 + 1]
        assert float(row["last loss"]) == pytest.approx(float(torch["last loss"]), rel=1e-3)
        if row is torch:
            assert row["PyTorch / Wend"] == ""
        else:
            ratio = seconds(torch["a step"]) / seconds(row["a step"])
            assert float(row["PyTorch / Wend"]) == pytest.approx(ratio, abs=0.1)
    # When, on which machine, by which command.
    assert re.search(r"^20\d\d-\d\d-\d\d, .+ cores$", section, re.MULTILINE)
    assert "steps by Wend, by PyTorch" in section and "bash scripts/demo" in section


def seconds(text):
    number, unit = text.split()
    return float(number) * {"s": 1.0, "ms": 0.001}[unit]


def test_the_taste_runs(tmp_path):
    (program,) = blocks("README.md", "python")
    assert len(program.splitlines()) <= 30
    script = tmp_path / "taste.py"
    script.write_text(program.replace("range(100)", "range(3)"))
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        if "://" not in target:
            assert (ROOT / page).parent.joinpath(target).exists(), target


# -- what works, and what does not work yet ---------------------------------------------


def points(heading):
    """The points of a list of README, each on one line."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    section = text.split(f"## {heading}\n")[1].split("\n## ")[0]
    return [
        " ".join(point.split())
        for point in re.findall(r"^- (.*?)(?=^- |\n\n|\Z)", section, re.M | re.S)
    ]


def types_of_tensors():
    names = (
        "float16 float32 float64 bfloat16 complex64 complex128 int8 int16 int32 int64 uint8 bool"
    )
    for name in names.split():
        x = wend.ones(2, 3, dtype=getattr(wend, name))
        x[0].zero_()
        assert x[:, 1].tolist() == [0, 1]
    assert (wend.ones(1, dtype=wend.int8) + 0.5).dtype is wend.float32


def gradients():
    x = wend.tensor(3.0, requires_grad=True)
    seen = []
    x.register_hook(lambda g: seen.append(g.item()))
    (first,) = wend.autograd.grad(x**3, x, create_graph=True)
    assert wend.autograd.grad(first, x)[0].item() == 18.0 and seen
    with wend.no_grad():
        assert not (x * 2).requires_grad

    class Double(wend.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return 2 * x

        @staticmethod
        def backward(ctx, g):
            return 5 * g

    y = wend.utils.checkpoint.checkpoint(Double.apply, x, use_reentrant=False)
    assert wend.autograd.grad(y, x)[0].item() == 5.0


def functions():
    f = wend.func
    assert f.vmap(f.grad(lambda x: x**2))(wend.ones(3)).tolist() == [2, 2, 2]
    x = wend.ones(2)
    assert f.hessian(lambda x: (x**3).sum())(x).diagonal().tolist() == [6, 6]
    assert f.jvp(wend.sin, (x,), (x,))[1].shape == f.vjp(wend.sin, x)[1](x)[0].shape
    layer = wend.nn.Linear(2, 1)
    f.functional_call(layer, dict(layer.named_parameters()), x)


def layers_and_files():
    layer = wend.nn.Sequential(wend.nn.Linear(2, 2), wend.nn.ReLU())
    wend.nn.init.ones_(layer[0].weight)
    loader = wend.utils.data.DataLoader(wend.utils.data.TensorDataset(wend.ones(4, 2)), 2)
    optimizer = wend.optim.SGD(layer.parameters(), 0.1)
    for (x,) in loader:
        wend.nn.functional.mse_loss(layer(x), x).backward()
        optimizer.step()
    file = io.BytesIO()
    wend.save(layer.state_dict(), file)
    file.seek(0)
    layer.load_state_dict(wend.load(file))


def fields_of_mathematics():
    z = wend.tensor([1 + 2j], requires_grad=True)
    z.abs().square().sum().backward()
    assert z.grad.tolist() == [2 + 4j]
    assert wend.fft.fft(wend.ones(4)).real.tolist() == [4, 0, 0, 0]
    for dims in (1, 2, 3):
        conv = getattr(wend.nn, f"Conv{dims}d")(1, 1, 2)
        conv(wend.ones(1, 1, *[3] * dims)).sum().backward()
        assert conv.weight.grad.flatten().tolist() == [2**dims] * 2**dims
    sparse = wend.eye(3).to_sparse()
    assert (sparse @ wend.ones(3, 1)).flatten().tolist() == [1, 1, 1]


def many_processes():
    """Of a single process here; `tests/distributed` begins several."""
    program = """if True:
        import wend, wend.distributed as dist
        from wend.distributed.fsdp import fully_shard
        dist.init_process_group()
        x = wend.ones(2)
        dist.all_reduce(x)
        assert x.tolist() == [dist.get_world_size()] * 2
        whole = wend.nn.parallel.DistributedDataParallel(wend.nn.Linear(2, 1))
        for model in (whole, fully_shard(wend.nn.Linear(2, 1))):
            optimizer = wend.optim.SGD(model.parameters(), 0.1)
            model(x).sum().backward()
            optimizer.step()
        dist.destroy_process_group()
    """
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def examples_and_libraries():
    assert len(list((ROOT / "examples").glob("*.py"))) > 5
    assert (ROOT / ".ci/libraries").exists()


def static_graphs():
    layer = wend.nn.Linear(2, 2)
    x = wend.ones(1, 2)
    assert wend.equal(wend.export.export(layer, (x,)).module()(x), layer(x))
    assert wend.equal(wend.jit.trace(layer, x)(x), layer(x))
    assert wend.equal(wend.session(layer, x)(x), layer(x))
    assert callable(wend.onnx.export) and wend.aot


def batches():
    def f(x):
        return x * 2 if x.sum() > 0 else x - 1

    made = wend.batched(f)([wend.ones(2), -wend.ones(2)])
    assert [y.tolist() for y in made] == [[2, 2], [-2, -2]]
    assert wend.nested.nested_tensor([wend.ones(2), wend.ones(3)]).size(0) == 2


def machine_code():
    from wend._engine.base import config

    assert config.settings.compile is not None and config.settings.strict


def archives_and_bytes():
    """The archives themselves: `tests/frontend/torchscript`; here a script by the same reader."""
    layer, file = wend.nn.Linear(2, 2), io.BytesIO()
    wend.jit.save(wend.jit.script(layer), file)
    file.seek(0)
    again = wend.jit.load(file)
    again(wend.ones(3, 2)).sum().backward()
    assert all(p.grad is not None for p in again.parameters())
    model = wend.nn.Sequential(wend.nn.Linear(8, 8))
    small = wend.ao.quantization.quantize_dynamic(model, {wend.nn.Linear})
    x = wend.ones(1, 8)
    assert (small(x) - model(x)).abs().max() < 0.05
    by_tracing, mapping = wend.ao.quantization.quantize_fx, wend.ao.quantization.QConfigMapping()
    mapping.set_global(wend.ao.quantization.default_qconfig)
    prepared = by_tracing.prepare_fx(model.eval(), mapping, (x,))
    prepared(x)
    assert (by_tracing.convert_fx(prepared)(x) - model(x)).abs().max() < 0.05


WORKS = {
    "Tensors of": types_of_tensors,
    "Gradients of any order": gradients,
    "`torch.func`": functions,
    "`nn`,": layers_and_files,
    "Complex numbers": fields_of_mathematics,
    "Training on many": many_processes,
    "The programs in `examples/`": examples_and_libraries,
    "Static graphs": static_graphs,
    "Archives of TorchScript": archives_and_bytes,
    "`wend.batched`": batches,
    "Generated machine code": machine_code,
}


def named_in_vain():
    assert wend.device("cuda").type == "cuda"
    with pytest.raises(RuntimeError, match=r"'cpu'"):
        wend.ones(2, device="cuda")
    assert not wend.cuda.is_available()


def small_types():
    """Bytes of two elements each are not there."""
    with pytest.raises((AttributeError, RuntimeError, NotImplementedError)):
        wend.quantize_per_tensor(wend.ones(2), 0.1, 0, wend.quint4x2)


def parts_in_processes():
    from wend.distributed.tensor import Replicate, distribute_tensor

    with pytest.raises(NotImplementedError, match="distribute_tensor"):
        distribute_tensor(wend.ones(2), None, [Replicate()])
    with pytest.raises(ImportError):
        importlib.import_module("wend.distributed.pipelining")
    from wend.distributed import rpc

    with pytest.raises((AttributeError, RuntimeError)):
        rpc.rpc_sync("other", max, (1, 2))


def other_systems():
    assert platform.system() == "Linux", "tried by now: README says that it was not"


NOT_YET = {
    "GPUs": named_in_vain,
    "Quantised types of less": small_types,
    "Tensors whose parts": parts_in_processes,
    "Windows and macOS": other_systems,
}


@pytest.mark.parametrize(
    ("heading", "programs"), [("What works", WORKS), ("What does not work yet", NOT_YET)]
)
def test_each_point_has_a_program_and_each_program_a_point(heading, programs):
    found = points(heading)
    assert [p for p in found if not any(p.startswith(word) for word in programs)] == []
    assert [word for word in programs if not any(p.startswith(word) for p in found)] == []


@pytest.mark.parametrize("point", WORKS)
def test_what_works_does(point):
    WORKS[point]()


@pytest.mark.parametrize("point", NOT_YET)
def test_what_does_not_work_yet_does_not(point):
    NOT_YET[point]()
