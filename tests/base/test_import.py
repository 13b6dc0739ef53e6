"""What `import wend` loads: what a first op needs, and no more."""

import gc
import subprocess
import sys

import pytest

#: Modules that `import wend` and a first result do without. Each was loaded once, for milliseconds.
LATE = """
    wend._engine.compiler
    wend._engine.runtime.batching.executor
    wend._engine.runtime.batching.report
    wend._engine.runtime.batching.templates
    wend._engine.runtime.compiled.announce
    wend._engine.runtime.compiled.plan
    wend._engine.runtime.fibers
    wend._engine.runtime.measure
    wend._engine.runtime.parts.links
    wend._engine.transforms.exploring
    wend._frontend.quantized wend._frontend.seeing wend._frontend.static
    wend._tools wend.distributed wend.nn wend.onnx wend.optim wend.serialization wend.utils
    bz2 dataclasses hashlib importlib.abc importlib.metadata importlib.resources json logging lzma
    pathlib shutil socket string subprocess tempfile unittest urllib
"""
#: Prints the modules of a program beyond those that NumPy and ml_dtypes load.
MODULES = """
import sys
import numpy, ml_dtypes
before = set(sys.modules)
{}
print(*set(sys.modules) - before)
"""
#: Modules of Wend's own that `import wend` loads, at most: each takes a quarter of a millisecond.
MOST = 285


def output(program):
    """What a program prints."""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.parametrize(
    "program",
    ["import wend", "import wend as torch; torch.zeros(3).sum().item()"],
    ids=["import", "a first result"],
)
def test_modules_that_a_first_result_does_without_are_not_loaded(program):
    loaded = output(MODULES.format(program))
    late = tuple(LATE.split())
    assert [
        name for name in loaded if name in late or name.startswith(tuple(f"{n}." for n in late))
    ] == []
    own = [name for name in loaded if name.startswith("wend")]
    assert 150 < len(own) <= MOST


def test_classes_of_composites_are_made_when_asked_for():
    program = """
import wend
from wend._engine.core.primitive import REGISTRY, AwaitedClass
ops = REGISTRY.data
waiting = [name for name, op in ops.items() if type(op) is AwaitedClass and op._cls is None]
print(len(waiting), wend.addmv.primitive.name, REGISTRY["addmv"] is wend.addmv.primitive)
print(type(ops["addmv"]) is AwaitedClass, REGISTRY["addmv"].function is wend.addmv)
"""
    n, *facts = output(program)
    assert int(n) > 200 and facts == ["addmv", "True", "True", "True"]


def test_the_collector_goes_on_as_the_program_has_set_it():
    """Its pause while modules load is over; objects that were there are looked at as before."""
    program = """
import gc
{}
class Cycle:
    pass
cycle = Cycle(); cycle.itself = cycle
import weakref
gone = weakref.ref(cycle)
del cycle
import wend
print(gc.isenabled(), gc.get_freeze_count() > 0)
gc.collect()
print(gone() is None)
"""
    assert output(program.format("")) == ["True", "False", "True"]
    assert output(program.format("gc.disable()")) == ["False", "False", "True"]
    assert output(program.format("gc.freeze()"))[:2] == ["True", "True"]


def test_old_objects_wait_for_a_full_collection():
    from wend._engine.base.collecting import count_as_old

    young = [[] for _ in range(100)]
    before = gc.get_freeze_count()
    gc.disable()
    try:
        count_as_old()
        counts = gc.get_count()
    finally:
        gc.enable()
    assert len(young) == 100 and counts[0] < 100 and gc.get_freeze_count() == before
