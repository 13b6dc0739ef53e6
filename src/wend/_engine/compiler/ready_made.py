"""The kernels that an installation brings along as machine code.

python -m wend._engine.compiler.ready_made FOLDER       make them for this processor's level

`setup.py` runs this at the end of a build; `llvm_ir/ready_objects.py` finds the outcome. LLVM takes
about a second for each of these modules, which a short program would hardly earn back. A module is
made for all processors of a level; WEND_CPU names a lower one.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from pathlib import Path

from wend._engine.base import dtypes
from wend._engine.compiler.kernels.attention.attention import AttentionVariant
from wend._engine.compiler.kernels.attention.backward import backward_text
from wend._engine.compiler.kernels.attention.forward import attend_text
from wend._engine.compiler.kernels.conv import forward as conv
from wend._engine.compiler.kernels.matmul import matmul
from wend._engine.compiler.llvm_ir import jit, ready_objects

#: Masks of attention, and whether a row looks at later keys: the usual combinations.
_MASKS = ((None, False), (None, True), (dtypes.bool_, False), (dtypes.float32, False))


def texts() -> Iterator[str]:
    """Yield the texts of the modules, for `jit.host()`."""
    yield matmul.core_text("float32")
    for name in ("convolve", "convolve_input", "convolve_weight"):
        yield conv.core_text(name, "float32")
    for (mask, is_causal), drops in itertools.product(_MASKS, (False, True)):
        form = AttentionVariant(dtypes.float32, mask, is_causal, drops)
        yield attend_text(form)
        yield backward_text(form)


def make(folder: Path) -> int:
    """Write the machine code of all modules into a folder; return how many modules there are.

    Files of the same level from other texts are removed. For a processor below all levels nothing
    is made.
    """
    host = jit.host()
    level = ready_objects.level_of(host.names)
    if not level:
        return 0
    folder.mkdir(parents=True, exist_ok=True)
    target = jit.Target(host.triple, level, "")
    wanted = {folder / ready_objects.name_of(text, host.triple, level): text for text in texts()}
    for path in set(folder.glob(f"{level}-*")) - set(wanted):
        path.unlink()
    for path, text in wanted.items():
        if not path.exists():
            ready_objects.keep(path, jit.machine_code(text, target))
    return len(wanted)


if __name__ == "__main__":
    print(make(Path(sys.argv[1])), "kernels are ready")
