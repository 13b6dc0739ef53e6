"""A pytest plugin: kernels are cut into parts wherever they can be, and three threads take them.

PYTHONPATH=tests python -m pytest -p small_parts tests/compiler

Few tests have sizes that threads would share. Here kernels of a few hundred nanoseconds are cut:
parts, the rounds in which they are taken, and tails, which have to know which part they get, are
tested at the sizes of all tests.
"""

import wend
from wend._engine.compiler.parallel import partition
from wend._engine.runtime.compiled import plan as cpu

#: Nanoseconds: see `wend._engine.compiler.parallel.partition`.
partition.WORTH = cpu.WORTH = 200
partition.PART = 100
partition.GRAIN = 16
wend.set_num_threads(3)

#: Tests that say which sizes are cut, and into how many parts.
OF_SIZES = (
    "test_small_kernels_stay_whole",
    "test_parts_follow_from_sizes",
    "test_images_of_one_product_stay_together",
)


def pytest_collection_modifyitems(config, items):
    """Leave out what is not so here."""
    left = [item for item in items if item.name not in OF_SIZES]
    config.hook.pytest_deselected(items=[item for item in items if item.name in OF_SIZES])
    items[:] = left
