"""torch.xpu, torch.accelerator and torch.get_device_module, with a device at hand."""

import inspect
import warnings

import numpy as np
import pytest

import wend
from wend.errors import DeviceError, NotImplementedInWend, OutOfMemoryError, ValueRefused

pytestmark = pytest.mark.usefixtures("accelerator")
xpu = wend.xpu

#: Names of PyTorch's that have no meaning here: other allocators, sensors, and tools of theirs.
NOT_HERE = {
    "xpu": "XPUPluggableAllocator MemPool change_current_allocator use_mem_pool memory_snapshot "
    "get_gencode_flags get_stream_from_external clock_rate power_draw temperature utilization "
    "memory_usage",
    "accelerator": "Graph empty_host_cache",
}
#: Functions of torch.xpu that name a parameter as torch.cuda does.
NAMED_AS_CUDA = {"can_device_access_peer", "Stream"}


@pytest.mark.parametrize("module", NOT_HERE)
def test_names_and_parameters_are_pytorchs(module):
    torch = pytest.importorskip("torch")
    ours, theirs = getattr(wend, module), getattr(torch, module)
    missing = {name for name in theirs.__all__ if not hasattr(ours, name)}
    assert missing <= set(NOT_HERE[module].split())
    if module == "accelerator":
        return  # the functions are those of a kind, whose parameter is called `device`
    for name in set(theirs.__all__) - missing - NAMED_AS_CUDA:
        function = getattr(theirs, name)
        if inspect.isfunction(function):
            parameters = list(inspect.signature(function).parameters)
            assert list(inspect.signature(getattr(ours, name)).parameters) == parameters, name


def test_devices_are_counted_and_named():
    assert xpu.is_available() and wend.accelerator.is_available()
    assert xpu.device_count() == wend.accelerator.device_count() >= 1
    assert xpu.current_device() == wend.accelerator.current_device_index() == 0
    assert wend.accelerator.current_accelerator() == wend.device("xpu")
    assert wend.get_device_module() is wend.get_device_module("xpu:0") is xpu
    assert wend.device(0) == wend.device("xpu", 0)
    facts = xpu.get_device_properties("xpu:0")
    assert facts.name == xpu.get_device_name() and facts.total_memory > 1 << 20
    assert facts.multi_processor_count >= 1 and facts.name in repr(facts)
    assert xpu.get_device_capability(0)["max_compute_units"] == facts.max_compute_units
    assert xpu.get_arch_list() == ["spirv64"]
    assert xpu.is_bf16_supported() and not xpu.can_device_access_peer(0, 0)


def test_the_current_device_is_chosen():
    xpu.set_device("xpu:0")
    xpu.set_device(-1)
    x = wend.ones(2, device="xpu")
    for block in (xpu.device(0), xpu.device("xpu"), xpu.device_of(x), xpu.device_of(wend.ones(1))):
        with block:
            assert xpu.current_device() == 0
    with wend.accelerator.device_index(0):
        assert wend.accelerator.current_device_index() == 0
    with pytest.raises(DeviceError, match=r"'xpu:99' is not available"):
        xpu.set_device(99)
    with pytest.raises(ValueRefused, match="expected a xpu device, but got: cpu"):
        xpu.get_device_name("cpu")


def test_streams_and_events():
    stream = xpu.Stream()
    assert xpu.current_stream() == xpu.default_stream() != stream
    with xpu.stream(stream):
        assert xpu.current_stream() == stream
        x = wend.ones(64, 64, device="xpu")
    with stream:
        assert xpu.current_stream() == stream
    assert xpu.current_stream() == xpu.default_stream()
    begin, end = xpu.Event(enable_timing=True), xpu.Event(enable_timing=True)
    begin.record()
    y = x @ x
    end.record(stream)
    assert end.query() and begin.elapsed_time(end) > 0
    stream.wait_event(end)
    stream.wait_stream(xpu.default_stream())
    stream.synchronize()
    assert y.sum().item() == 64**3 and stream.query()
    assert isinstance(stream.record_event(), xpu.Event) and isinstance(stream, wend.Stream)
    with pytest.raises(RuntimeError, match="enable_timing=True"):
        xpu.Event().elapsed_time(end)
    with pytest.raises(RuntimeError, match="must be recorded"):
        xpu.Event(enable_timing=True).elapsed_time(end)
    assert wend.Stream("xpu").device == wend.device("xpu", 0)


def test_memory_is_counted():
    xpu.empty_cache()
    xpu.reset_peak_memory_stats()
    before = xpu.memory_allocated()
    x = wend.ones(1 << 16, device="xpu") + 1
    wend.xpu.synchronize()
    assert xpu.memory_allocated() - before == 1 << 18
    most = xpu.max_memory_allocated()
    del x
    assert xpu.memory_allocated() == before and xpu.max_memory_allocated() == most
    stats = xpu.memory_stats()
    assert stats["allocated_bytes.all.current"] == before
    assert stats["allocated_bytes.all.peak"] == most
    nested = xpu.memory_stats_as_nested_dict()
    assert nested["allocated_bytes"]["all"]["current"] == before
    assert xpu.memory_reserved() >= before and xpu.max_memory_reserved() >= most
    xpu.empty_cache()
    assert xpu.memory_reserved() < most + (1 << 18)
    free, total = xpu.mem_get_info()
    assert 0 < free <= total == xpu.get_device_properties().total_memory
    assert "memory of xpu:0" in xpu.memory_summary()
    assert wend.accelerator.memory_allocated() == xpu.memory_allocated()
    xpu.reset_peak_memory_stats()
    assert xpu.max_memory_allocated() == xpu.memory_allocated()


def test_memory_is_bounded():
    kept = wend.arange(4.0, device="xpu") + 0
    xpu.synchronize()
    total = xpu.get_device_properties().total_memory
    xpu.empty_cache()
    xpu.set_per_process_memory_fraction((xpu.memory_reserved() + (1 << 22)) / total)
    try:
        with pytest.raises(OutOfMemoryError, match=r"xpu:0: out of memory. Tried to allocate"):
            (wend.ones(1 << 22, device="xpu") + 1).tolist()
        assert kept.tolist() == [0, 1, 2, 3]
    finally:
        xpu.set_per_process_memory_fraction(1.0)
    assert xpu.get_per_process_memory_fraction() == 1.0
    assert issubclass(OutOfMemoryError, RuntimeError) and wend.OutOfMemoryError is OutOfMemoryError
    for wrong, error in ((1, TypeError), (1.5, ValueError)):
        with pytest.raises(error, match="fraction"):
            xpu.set_per_process_memory_fraction(wrong)


def test_numbers_are_those_of_the_cpu():
    draws = {}
    for place in ("cpu", "xpu"):
        wend.manual_seed(5)
        x = wend.empty(4, device=place)
        draws[place] = [
            wend.rand(3, device=place), wend.randn(3, device=place),
            wend.randint(9, (3,), device=place), wend.randperm(5, device=place),
            x.normal_().clone(), x.uniform_().clone(), x.exponential_().clone(),
            x.bernoulli_(0.5).clone(), wend.rand_like(x), wend.bernoulli(wend.rand_like(x)),
            wend.nn.functional.dropout(wend.ones_like(x), 0.5),
            wend.nn.functional.dropout2d(wend.ones(2, 3, 2, 2, device=place), 0.5),
        ]  # fmt: skip
    for ours, theirs in zip(draws["xpu"], draws["cpu"], strict=True):
        assert ours.device.type == "xpu"
        np.testing.assert_allclose(ours.cpu().numpy(), theirs.numpy(), rtol=1e-6)


def test_states_of_numbers():
    xpu.manual_seed_all(3)
    state = xpu.get_rng_state()
    first = wend.rand(3, device="xpu").tolist()
    xpu.set_rng_state(state)
    assert wend.rand(3).tolist() == first and xpu.initial_seed() == 3
    xpu.set_rng_state_all([state])
    generator = wend.Generator(device="xpu").manual_seed(3)
    assert generator.device == wend.device("xpu", 0)
    assert wend.rand(3, device="xpu", generator=generator).tolist() == first
    assert len(xpu.get_rng_state_all()) == len(xpu.default_generators) == xpu.device_count()
    xpu.seed_all()
    assert xpu.initial_seed() != 3


def test_graphs_are_not_needed():
    net = wend.nn.Linear(2, 2).to("xpu")
    assert xpu.make_graphed_callables(net, (wend.ones(1, 2, device="xpu"),)) is net
    graph = xpu.XPUGraph()
    with xpu.graph(graph):
        y = net(wend.ones(1, 2, device="xpu"))
    assert y.shape == (1, 2)
    with pytest.raises(NotImplementedInWend, match="call the function again"):
        graph.replay()


def test_init():
    xpu.init()
    assert xpu.is_initialized() and not xpu.is_current_stream_capturing()


def test_the_other_kind_is_still_absent():
    assert not wend.cuda.is_available() and wend.cuda.memory_allocated() == 0
    with pytest.raises(DeviceError, match="no CUDA device is available"):
        wend.cuda.current_device()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with wend.autocast("xpu", dtype=wend.bfloat16):
            assert (wend.ones(2, 2, device="xpu") @ wend.ones(2, 2, device="xpu")).dtype is (
                wend.bfloat16
            )
            assert (wend.ones(2, 2) @ wend.ones(2, 2)).dtype is wend.float32
