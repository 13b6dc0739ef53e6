"""The driver of NVIDIA's cards, without a card: against a stand-in of the package cuda-bindings."""

import re
import subprocess
import sys

import cuda_stand_in
import numpy as np
import pytest
from cuda_stand_in import Card, CUresult, StandIn

import wend as torch
from tries import own_trie
from wend._engine.base.devices import device
from wend._engine.base.errors import CompileError, DeviceError, OutOfMemoryError
from wend._engine.compiler.llvm_ir import jit
from wend._engine.runtime.devices import cuda, queue
from wend._engine.runtime.devices.queue import RING, Accelerator


def listed(*launches):
    """Launches as the ring lists these: (handle, place of the block, groups, items) each."""
    return np.array([[*launch, 0] for launch in launches], np.int64).reshape(-1, 5)


def launch(driver, *launches):
    """Launch what is listed."""
    rows = listed(*launches)
    driver.launch(rows.ctypes.data, len(rows))


def timed(driver, *launches):
    """The times of what is listed."""
    rows = listed(*launches)
    return driver.timed(rows.ctypes.data, len(rows))


PTX = b".version 8.0 .target sm_90"


@pytest.fixture(autouse=True)
def forget():
    """What was asked of the stand-in is not known to later tests."""
    yield
    cuda.calls.cache_clear()
    cuda.devices.cache_clear()


@pytest.fixture
def library(monkeypatch):
    """A library with one card."""
    stand_in = StandIn(Card())
    cuda_stand_in.installed(monkeypatch, stand_in)
    return stand_in


@pytest.fixture
def driver(library):
    """The driver of the card."""
    return cuda.CUDADriver(device("cuda", 0))


# -- counting ---------------------------------------------------------------------------------


def test_without_a_card_there_are_none(monkeypatch):
    cuda_stand_in.installed(monkeypatch, StandIn())
    assert cuda.count() == 0


def test_without_the_library_the_package_is_not_imported(monkeypatch):
    stand_in = StandIn(Card())
    cuda_stand_in.installed(monkeypatch, stand_in)
    monkeypatch.setattr(cuda, "has_library", lambda: False)
    assert cuda.count() == 0
    assert not stand_in.counts


def test_a_library_that_cannot_be_used_counts_none(monkeypatch):
    class Broken(StandIn):
        def __getattr__(self, name):
            raise RuntimeError("libcuda does not suit the system")

    cuda_stand_in.installed(monkeypatch, Broken(Card()))
    assert cuda.count() == 0


def test_without_the_package_there_are_none(monkeypatch):
    monkeypatch.setattr(cuda.importlib.util, "find_spec", lambda name: None)
    cuda.calls.cache_clear()
    assert cuda.count() == 0


def test_counting_is_silent_and_imports_nothing_large():
    """In a process of its own, as a program's first line asks; the package may be there or not."""
    code = (
        "import sys, wend as torch\n"
        "from wend._engine.runtime.devices import cuda\n"
        "cuda.has_library = lambda: False\n"
        "from wend._engine.base.devices import count_of\n"
        "assert count_of('cuda') == 0\n"
        "assert 'cuda.bindings.driver' not in sys.modules\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")


def test_only_cards_that_can_be_used_count(monkeypatch):
    cards = Card((6, 1)), Card((8, 0)), Card((9, 0), shares=False), Card((10, 3))
    cuda_stand_in.installed(monkeypatch, StandIn(*cards))
    assert cuda.count() == 2
    driver = cuda.CUDADriver(device("cuda", 1))
    assert (driver.properties.name, driver.properties.capability) == ("Card 3", (10, 3))
    assert driver.target.cpu == "sm_100"


def test_a_tensor_on_an_absent_card_is_refused(monkeypatch):
    cuda_stand_in.installed(monkeypatch, StandIn())
    with pytest.raises(DeviceError, match="no such device is at hand"):
        torch.zeros(2, device="cuda")


# -- targets ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("capability", "words"),
    [((7, 0), "sm_70 +ptx60"), ((8, 0), "sm_80 +ptx70"), ((8, 7), "sm_86 +ptx71"),
     ((9, 0), "sm_90 +ptx80"), ((10, 0), "sm_100 +ptx86"), ((10, 3), "sm_100 +ptx86"),
     ((12, 1), "sm_120 +ptx87")],
)  # fmt: skip
def test_each_card_has_the_newest_target_that_it_takes(capability, words):
    target = cuda.target_of(*capability)
    assert f"{target.cpu} {target.features}" == words
    assert target.is_nvidia and target.is_device


def test_old_cards_are_refused():
    with pytest.raises(DeviceError, match=r"6\.1 are too old"):
        cuda.target_of(6, 1)


@pytest.mark.parametrize("capability", [(c // 10, c % 10) for c in cuda.GENERATIONS])
def test_llvm_knows_each_target(capability):
    target = cuda.target_of(*capability)
    text = (
        "define ptx_kernel void @kernel(ptr addrspace(1) %x, i64 %i) {\n"
        "  store i64 %i, ptr addrspace(1) %x\n  ret void\n}\n"
    )
    code = jit.device_code(text, target).decode()
    version = target.features.removeprefix("+ptx")
    assert f".version {version[0]}.{version[1]}" in code
    assert f".target {target.cpu}" in code


# -- the seven verbs --------------------------------------------------------------------------


def test_properties(driver, library):
    assert driver.properties == ("Card 0", "NVIDIA", "12.8", library.memory, 132, "gpu", (9, 0))
    assert driver.target.cpu == "sm_90"


def test_memory_is_had_and_given_back(driver, library):
    first, second = driver.allocate(100), driver.allocate(200)
    assert {len(block) for block in library.blocks.values()} == {100, 200}
    driver.free(first)
    assert list(library.blocks) == [second]
    driver.free(second)
    assert not library.blocks
    assert library.counts["cuMemAllocManaged"] == library.counts["cuMemFree"] == 2


def test_memory_that_both_sides_write_is_the_processors(driver, library):
    """Pages of managed memory would move to and fro."""
    address = driver.allocate(128, is_shared=True)
    assert library.counts["cuMemHostAlloc"] == 1 and not library.counts["cuMemAllocManaged"]
    assert address in library.blocks
    accelerator = Accelerator(driver)
    assert library.counts["cuMemHostAlloc"] == 3  # the ring, and the word of failures
    assert accelerator.fault in library.blocks


def test_copies_are_done_when_they_return(driver, library):
    address = driver.allocate(32)
    source, back = np.arange(4.0), np.zeros(4)
    driver.copy_in(address, source.ctypes.data, 32)
    driver.copy_out(back.ctypes.data, address, 32)
    assert back.tolist() == source.tolist()
    assert library.counts["cuStreamSynchronize"] == 2


def test_launches_get_the_ring_and_the_place_of_the_block(driver, library):
    ring = driver.allocate(1 << 12)
    kernel, clear = driver.load(PTX, ["kernel", "clear"], ring)
    launch(driver, (clear, 64, 3, 128), (kernel, 192, 1 << 14, 64))
    assert library.launches == [("clear", ring, 64, 3, 128), ("kernel", ring, 192, 1 << 14, 64)]
    assert not library.counts["cuStreamSynchronize"]
    driver.wait()
    assert library.counts["cuStreamSynchronize"] == 1


def test_timed_launches_lie_between_events(driver, library):
    ring = driver.allocate(1 << 12)
    kernel, clear = driver.load(PTX, ["kernel", "clear"], ring)
    launch(driver, (kernel, 0, 1, 64))
    calls = (clear, 64, 3, 128), (kernel, 192, 1, 64)
    assert timed(driver, *calls) == [(0, 250_000), (250_000, 500_000)]
    assert [launch.function for launch in library.launches] == ["kernel", "clear", "kernel"]
    assert timed(driver) == []
    library.fails["cuLaunchKernel"] = CUresult.CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES
    with pytest.raises(DeviceError, match="LAUNCH_OUT_OF_RESOURCES"):
        timed(driver, *calls)
    assert not library.events  # all are given back


def test_each_thread_works_in_the_context_of_the_device(monkeypatch):
    library = StandIn(Card(), Card())
    cuda_stand_in.installed(monkeypatch, library)
    first, second = (cuda.CUDADriver(device("cuda", n)) for n in (0, 1))
    first.allocate(8)
    assert library.current.number == 0
    second.allocate(8)
    assert library.current.number == 1
    library.current = None  # another thread
    first.wait()
    assert library.current.number == 0


# -- errors -----------------------------------------------------------------------------------


def test_no_memory_left_is_told_by_the_pool(driver, library):
    accelerator = Accelerator(driver)
    kept = accelerator.empty((1 << 20,), np.uint8)
    accelerator.empty((1 << 22,), np.uint8)  # goes back to the pool
    frees = library.counts["cuMemFree"]
    library.memory = RING + (3 << 20)
    accelerator.empty((1 << 20) + 5, np.uint8)  # the block of the pool made room
    assert library.counts["cuMemFree"] == frees + 1
    with pytest.raises(OutOfMemoryError, match=r"CUDA_ERROR_OUT_OF_MEMORY: what .* means"):
        accelerator.empty((1 << 23,), np.uint8)
    assert accelerator.pool.allocated == kept.nbytes


def test_a_refused_module_is_told_with_the_log_of_the_driver(driver, library):
    with pytest.raises(CompileError, match=r"for sm_90: CUDA_ERROR_INVALID_PTX.*\nnot a PTX$"):
        driver.load(b"define", ["kernel"], 0)
    with pytest.raises(CompileError, match="CUDA_ERROR_NOT_FOUND"):
        driver.load(PTX, ["absent"], 0)
    library.fails["cuModuleLoadDataEx"] = CUresult.CUDA_ERROR_INVALID_PTX
    with pytest.raises(CompileError, match="line 7: bad"):
        driver.load(PTX, ["kernel"], 0)
    driver.wait()  # the device goes on


def test_a_launch_that_cannot_be_made_leaves_the_device_in_use(driver, library):
    (kernel,) = driver.load(PTX, ["kernel"], driver.allocate(64))
    library.fails["cuLaunchKernel"] = CUresult.CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES
    with pytest.raises(DeviceError, match="LAUNCH_OUT_OF_RESOURCES"):
        launch(driver, (kernel, 0, 1, 64))
    del library.fails["cuLaunchKernel"]
    launch(driver, (kernel, 0, 1, 64))
    assert len(library.launches) == 1


def test_a_kernel_that_fails_ends_the_use_of_the_device(driver, library):
    address = driver.allocate(64)
    (kernel,) = driver.load(PTX, ["kernel"], address)
    library.fails["cuStreamSynchronize"] = CUresult.CUDA_ERROR_ILLEGAL_ADDRESS
    launch(driver, (kernel, 0, 1, 64))
    with pytest.raises(DeviceError, match=r"cuda:0: .*ILLEGAL_ADDRESS.*checkpoint"):
        driver.wait()
    calls = library.counts.total()
    for use in (
        driver.wait,
        lambda: driver.allocate(8),
        lambda: launch(driver, (kernel, 0, 1, 64)),
        lambda: driver.load(PTX, ["kernel"], address),
        lambda: driver.copy_in(address, address, 8),
    ):
        with pytest.raises(DeviceError, match="cannot use it again"):
            use()
    driver.free(address)  # when its arrays go
    assert library.counts.total() == calls


# -- the package itself -----------------------------------------------------------------------


def test_the_package_takes_the_arguments(monkeypatch):
    """The package checks the types of arguments before it looks for the library."""
    package = pytest.importorskip("cuda.bindings.driver")
    names = {name for kind in cuda.FINAL for name in (kind,)} | {"CUDA_ERROR_OUT_OF_MEMORY"}
    assert all(hasattr(package.CUresult, name) for name in names)
    for kind in ("CUdevice_attribute", "CUjit_option", "CUstream_flags", "CUmemAttach_flags",
                 "CUevent_flags"):  # fmt: skip
        for constant in getattr(cuda_stand_in, kind):
            assert getattr(getattr(package, kind), constant.name).value == constant.value
    assert callable(package.cuLaunchKernel)
    for name in cuda_stand_in.FUNCTIONS:
        assert callable(getattr(package, name))
    options = package.CUjit_option
    keys = [options.CU_JIT_ERROR_LOG_BUFFER, options.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES]
    stream, flags = package.CUstream(3), package.CUstream_flags.CU_STREAM_NON_BLOCKING
    assert (int(stream), int(package.CUfunction(5))) == (3, 5)
    shared = package.CU_MEMHOSTALLOC_PORTABLE | package.CU_MEMHOSTALLOC_DEVICEMAP
    assert shared == cuda.SHARED
    if cuda.has_library():
        pytest.skip("the library is there, and would take these arguments at their word")
    for name, *args in (
        ("cuModuleLoadDataEx", PTX + b"\0", 2, keys, [bytearray(8), 8]),
        ("cuModuleGetFunction", package.CUmodule(3), b"kernel"),
        ("cuMemAllocManaged", 8, package.CUmemAttach_flags.CU_MEM_ATTACH_GLOBAL.value),
        ("cuMemHostAlloc", 8, cuda.SHARED),
        ("cuMemFree", 8), ("cuMemcpyAsync", 8, 16, 8, stream), ("cuStreamCreate", flags),
        ("cuStreamSynchronize", stream), ("cuCtxSetCurrent", package.CUcontext(4)),
        ("cuDeviceGetName", 256, package.CUdevice(0)),
        ("cuDeviceTotalMem", package.CUdevice(0)),
        ("cuEventCreate", package.CUevent_flags.CU_EVENT_DEFAULT),
        ("cuEventRecord", package.CUevent(3), stream),
        ("cuEventElapsedTime", package.CUevent(3), package.CUevent(4)),
        ("cuEventDestroy", package.CUevent(3)),
    ):  # fmt: skip
        with pytest.raises(RuntimeError, match=re.compile("librar", re.IGNORECASE)):
            getattr(package, name)(*args)


# -- a program --------------------------------------------------------------------------------


def test_a_program_reaches_the_card(library, monkeypatch):
    """Memory, code and launches as a card would get these; nothing runs, so nothing is read."""
    monkeypatch.setattr(queue, "_OPEN", {})
    with own_trie():
        x = torch.arange(6.0).reshape(2, 3).to("cuda")
        w = torch.ones(3, device="cuda", requires_grad=True)
        loss = torch.softmax(torch.tanh(x * w), 1).square().sum()
        loss.backward()
        torch.synchronize()
        assert str(w.grad.device) == str(loss.device) == "cuda:0"
        (accelerator,) = queue.opened().values()
        assert accelerator.launches == len(library.launches) > 1
        rings = {launch.ring for launch in library.launches}
        places = [launch.block for launch in library.launches]
        assert len(rings) == 1
        assert len(set(places)) == len(places)
        assert max(places) < RING
        assert {launch.items for launch in library.launches} <= {1, 64, 128}
        names = {launch.function for launch in library.launches}
        assert "kernel" in names
        del x, w, loss
    assert accelerator.pool.allocated == 0
