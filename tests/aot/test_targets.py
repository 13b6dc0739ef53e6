"""Libraries for each kind of processor give what the module gives, for several sizes."""

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from callers import NativeModel, ProgramModel, WasmModel
from nets import NETS, net
from test_control_flow import PROGRAMS, early_exit, halve, layer, stops

import wend as torch
from wend import aot
from wend._engine.compiler.aot.targets import goal_of

HERE = Path(__file__).resolve().parent
needs_compiler = pytest.mark.skipif(
    shutil.which("cc") is None and importlib.util.find_spec("ziglang") is None,
    reason="needs a C compiler: cc, or `pip install ziglang`",
)
needs_zig = pytest.mark.skipif(
    importlib.util.find_spec("ziglang") is None, reason="needs `pip install ziglang`"
)
on_x86 = pytest.mark.skipif(
    not goal_of(None).target.has("avx2"), reason="needs an x86-64 processor with AVX2"
)


def compare(module, model, inputs):
    for x in inputs:
        with torch.no_grad():
            want = module(x).numpy()
        found = model(x.numpy())
        assert found.shape == want.shape and found.dtype == want.dtype
        np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-6)


@needs_compiler
@pytest.mark.parametrize("name", NETS)
def test_this_processor(name, tmp_path):
    module, example = net(name)
    made = aot.compile(module, example(5), directory=tmp_path)
    compare(module, NativeModel(made), map(example, (1, 3, 8)))


@needs_compiler
@on_x86
@pytest.mark.parametrize("target", ["x86-64", "x86-64-v3"])
def test_levels_of_x86_64(target, tmp_path):
    module, example = net("digits")
    made = aot.compile(module, example(5), target, directory=tmp_path)
    compare(module, NativeModel(made), map(example, (1, 3, 8)))


@needs_zig
@pytest.mark.slow
@pytest.mark.parametrize("name", NETS)
def test_webassembly(name, tmp_path):
    pytest.importorskip("wasmtime", reason="needs `pip install wasmtime`")
    module, example = net(name)
    made = aot.compile(module, example(5), "wasm32", directory=tmp_path)
    assert made.library.suffix == ".wasm"
    compare(module, WasmModel(made), map(example, (1, 3, 8)))


@needs_zig
@pytest.mark.slow
@pytest.mark.parametrize("function", [halve, stops, early_exit, layer], ids=lambda f: f.__name__)
def test_control_flow_in_webassembly(function, tmp_path):
    pytest.importorskip("wasmtime", reason="needs `pip install wasmtime`")
    example, *others = PROGRAMS[function]
    made = aot.compile(function, example, "wasm32", directory=tmp_path)
    compare(function, WasmModel(made), [example, *others])


@needs_zig
@pytest.mark.slow
@pytest.mark.skipif(shutil.which("qemu-aarch64") is None, reason="needs qemu-aarch64 (qemu-user)")
@pytest.mark.parametrize("name", ["digits", "words", "early exit", "recurrent layer"])
def test_arm(name, tmp_path):
    if name in ("digits", "words"):
        module, make = net(name)
        inputs = [make(n) for n in (5, 1, 3, 8)]
    else:
        module = early_exit if name == "early exit" else layer
        inputs = PROGRAMS[module]
    made = aot.compile(module, inputs[0], "aarch64", directory=tmp_path)
    program = tmp_path / "run_model"
    words = [sys.executable, "-m", "ziglang", "cc", "-target", "aarch64-linux-musl", "-static"]
    words += ["-O2", "-I", tmp_path, HERE / "run_model.c", made.source, made.kernels, "-o", program]
    subprocess.run([str(word) for word in words], check=True)
    compare(module, ProgramModel(made, ["qemu-aarch64", program], tmp_path), inputs)
