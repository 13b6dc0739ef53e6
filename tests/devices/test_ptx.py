"""Every kernel of the op suite assembles for three generations of NVIDIA's cards.

Nothing runs on a card. `python -m pytest tests/devices/test_ptx.py -s` prints what kernels take;
`-m slow` takes composites and more dtypes.
"""

import harness
import ptx
import pytest

from wend._engine.base import dtypes
from wend._engine.compiler.kernels.on_device import moves
from wend._engine.compiler.llvm_ir import jit
from wend._engine.runtime.devices.cuda import target_of

PTXAS = ptx.assembler()
pytestmark = pytest.mark.skipif(
    PTXAS is None, reason="needs ptxas: pip install nvidia-cuda-nvcc, or wend-dl[ptxas]"
)
GENERATIONS = [(8, 0), (9, 0), (10, 0)]
#: The share of kernels that may spill registers to memory, and the most shared memory of a block.
SPILLING, SHARED = 0.05, 48 << 10
#: What plans leave to the processor in no case: ops of single elements and rows of float32.
WITH_KERNELS = {"add", "mul", "exp", "tanh", "sin", "lgamma", "softmax", "sum", "where", "gelu"}
COMPOSITES = [op for op in harness.OPS if op not in harness.PRIMITIVES]
KINDS = [dtypes.float64, dtypes.float16, dtypes.bfloat16, dtypes.int64, dtypes.int32,
         dtypes.uint8, dtypes.bool_, dtypes.complex64, dtypes.complex128]  # fmt: skip


def check(suite, capability, folder):
    """Assemble the kernels of a suite, print what they take, and hold it to the budget."""
    target = target_of(*capability)
    modules = [jit.device_code(text, target).decode() for text in suite.texts]
    reports = ptx.assembled(PTXAS, modules, target, folder)
    spilling = [r for r in reports if r.spilled]
    registers = [r.registers for r in reports]
    print(
        f"\n{target.cpu}: {len(suite.texts)} modules, {len(reports)} kernels; registers "
        f"{sum(registers) / len(reports):.1f} in the mean, {max(registers)} at most; "
        f"{len(spilling)} kernels spill, {max([r.spilled for r in reports])} bytes at most; "
        f"{max(r.shared for r in reports)} bytes of shared memory at most"
    )
    assert len(reports) >= len(set(modules))
    assert len(spilling) <= SPILLING * len(reports), [r.kernel for r in spilling]
    assert max(r.shared for r in reports) <= SHARED


@pytest.fixture(scope="module")
def primitives():
    """The kernels of all primitives, of their values and gradients."""
    return ptx.written(target_of(*GENERATIONS[0]), harness.PRIMITIVES)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("capability", GENERATIONS, ids=str)
def test_primitives(primitives, capability, tmp_path):
    assert len(primitives.texts) > 900
    assert not WITH_KERNELS & primitives.hosted.keys()
    check(primitives, capability, tmp_path)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("capability", GENERATIONS, ids=str)
def test_composites(capability, tmp_path):
    check(ptx.written(target_of(*capability), COMPOSITES), capability, tmp_path)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_more_dtypes(kind, tmp_path):
    capability = GENERATIONS[KINDS.index(kind) % len(GENERATIONS)]
    check(ptx.written(target_of(*capability), harness.PRIMITIVES, [kind]), capability, tmp_path)


@pytest.mark.parametrize("capability", GENERATIONS, ids=str)
def test_moves_of_rows(capability, tmp_path):
    """The kernel that groups copy and add rows by, which no op has."""
    target = target_of(*capability)
    modules = [jit.device_code(moves.moves_text(target, k), target).decode() for k in moves.KINDS]
    reports = ptx.assembled(PTXAS, modules, target, tmp_path)
    assert len(reports) == len(moves.KINDS) and not any(r.spilled for r in reports)


def test_a_refused_module_is_told(tmp_path):
    target = target_of(9, 0)
    with pytest.raises(AssertionError, match="nonsense"):
        ptx.assembled(PTXAS, [".version 8.0\n.target sm_90\n.address_size 64\nnonsense;\n"],
                      target, tmp_path)  # fmt: skip


def test_modules_of_equal_names_go_into_one_file(tmp_path):
    target = target_of(9, 0)
    texts = [
        f"@totals = internal addrspace(3) global [{n} x i64] poison\n"
        "define private i64 @more(i64 %i) noinline {\n"
        f"  %j = mul i64 %i, {n}\n  ret i64 %j\n}}\n"
        "define ptx_kernel void @kernel(ptr addrspace(1) %x, i64 %i) {\n"
        "  %j = call i64 @more(i64 %i)\n"
        "  %p = getelementptr i64, ptr addrspace(3) @totals, i64 %i\n"
        "  store i64 %j, ptr addrspace(3) %p\n"
        "  call void @llvm.nvvm.barrier0()\n"
        "  %q = load i64, ptr addrspace(3) @totals\n"
        "  store i64 %q, ptr addrspace(1) %x\n  ret void\n}\n"
        "declare void @llvm.nvvm.barrier0() convergent\n"
        for n in (32, 64)
    ]
    modules = [jit.device_code(text, target).decode() for text in texts]
    reports = ptx.assembled(PTXAS, modules, target, tmp_path)
    assert sorted(r.shared for r in reports) == [256, 512]
    assert all(r.registers and not r.spilled for r in reports)
