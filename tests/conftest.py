"""Settings of the whole suite."""

import gc
import os
import sys
import threading
import zlib
from pathlib import Path

import numpy as np
import pytest

# A failure inside raises, also in the processes that tests begin: before Wend is imported.
os.environ.setdefault("WEND_STRICT", "1")

sys.path.insert(0, str(Path(__file__).parent))  # what tests of several folders share


def pytest_configure(config):
    """Hypothesis sets no deadline: on a busy machine the first example may take long.

    A profile must be there before `given` is applied. The smoke tests need none, and no import.
    """
    if config.option.markexpr != "smoke":
        import hypothesis

        hypothesis.settings.register_profile("wend", deadline=None, print_blob=True)
        hypothesis.settings.load_profile("wend")


def pytest_ignore_collect(collection_path, config):
    """`-m smoke` does not import test files that have no smoke test (some load PyTorch)."""
    if config.option.markexpr == "smoke" and collection_path.suffix == ".py":
        return "mark.smoke" not in collection_path.read_text(encoding="utf-8") or None
    return None


def pytest_pycollect_makeitem(collector, name, obj):
    """`-m smoke` does not make up the thousands of cases of the tests that it leaves out."""
    if collector.config.option.markexpr == "smoke" and name.startswith("test"):
        marks = [*getattr(obj, "pytestmark", []), *collector.iter_markers()]
        if not any(mark.name == "smoke" for mark in marks):
            return []
    return None


def pytest_terminal_summary(terminalreporter):
    """Say how many tests have met a failure inside Wend."""
    reports = [r for kind in ("failed", "error") for r in terminalreporter.stats.get(kind, [])]
    met = sum("failures inside Wend" in str(getattr(r, "longrepr", "")) for r in reports)
    terminalreporter.write_line(f"tests that met a failure inside Wend: {met}")


@pytest.fixture(autouse=True)
def no_gradients_retained():
    """Tensors of earlier tests that retain their gradients may be waiting for the collector.

    As long as there are any, some flushes are not run by groups.  None may outlive a test.
    """
    yield
    hooks = sys.modules.get("wend._engine.transforms.hooks")
    if hooks is not None and hooks.retaining():
        gc.collect()
        if hooks.retaining():
            pytest.fail("a tensor that retains its gradient is kept alive", pytrace=False)


@pytest.fixture(autouse=True)
def no_other_threads():
    """What threads of earlier tests have recorded may be waiting for the collector.

    As long as there is any, steps look out for other threads.
    """
    core = sys.modules.get("wend._engine.core._hot")
    if core is None or not core.several() or threading.active_count() == _ALIVE[0]:
        return
    gc.collect()
    # What is left belongs to threads that live: collecting takes seconds, and would not help.
    _ALIVE[0] = threading.active_count() if core.several() else 0


#: How many threads there were when a collection left what other threads have recorded.
_ALIVE = [0]


@pytest.fixture(autouse=True)
def one_thread_of_torch():
    """PyTorch's threads wait for each other busily: beside other processes that takes minutes."""
    torch = sys.modules.get("torch")
    if getattr(torch, "__name__", "") == "torch" and torch.get_num_threads() > 1:
        torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def no_trace_function_left():
    """A trace function left behind keeps the variables of frames alive, and makes all slow."""
    functions = (sys.gettrace, sys.getprofile, threading.gettrace, threading.getprofile)
    before = [function() for function in functions]
    yield
    assert before == [function() for function in functions]


def engine_state():
    """Settings, this thread's mode, and who watches flushes; None before Wend is imported."""
    names = ("wend._engine.core._hot", "wend._engine.base.config")
    core, config = map(sys.modules.get, names)
    if core is None or config is None:
        return None
    settings = {k: getattr(config.settings, k) for k in config.Settings.__slots__ if k[0] != "_"}
    flushes = sys.modules.get("wend._engine.runtime.verify.flushes")
    trace = core.current_trace()
    return settings, trace.mode, trace.root, dict(flushes._watching) if flushes else {}


@pytest.fixture(autouse=True)
def engine_as_before():
    """A setting, a mode or a watcher left behind makes later tests fail, far from its cause.

    A trie that the test has begun by `new_trie` ends with the test.
    """
    before = engine_state()
    yield
    if before is not None:
        from tries import end_trie

        end_trie(before[2])
        assert before == engine_state()


@pytest.fixture(autouse=True)
def no_failure_inside():
    """No test passes if something failed inside Wend, even if the test expects an error."""
    yield
    defects = sys.modules.get("wend._engine.base.defects")
    if defects is not None and defects.count():
        found = defects.summary()
        defects.reset()
        pytest.fail(f"failures inside Wend: {found}", pytrace=False)


@pytest.fixture
def planted_failure(no_failure_inside, monkeypatch):
    """For tests that plant a failure inside: as in production it warns, and it is forgotten."""
    from wend._engine.base import config, defects

    with config.override(strict=False):
        yield defects
    defects.reset()


@pytest.fixture(autouse=True)
def own_numbers(request):
    """What a test draws from its module's generator does not depend on the tests before it."""
    for name in ("RNG", "rng"):
        if isinstance(getattr(request.module, name, None), np.random.Generator):
            seed = zlib.crc32(request.node.name.encode())
            setattr(request.module, name, np.random.default_rng(seed))


@pytest.fixture
def own_trie():
    """Record below a root of one's own: what other tests recorded has not sealed it."""
    import tries  # loads Wend

    with tries.own_trie():
        yield


@pytest.fixture
def groups_alone(monkeypatch):
    """Let no flush run in parts, as where groups save many calls."""
    from wend._engine.runtime.parts import parts

    monkeypatch.setattr(parts, "SIDE_BY_SIDE", -1)
