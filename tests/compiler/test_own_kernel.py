"""An op with a kernel of its own is two files: those that CONTRIBUTING shows."""

import os
import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "CONTRIBUTING.md"

#: Makes modules of the two files where they would lie, and runs the op at sizes known and new.
PROGRAM = """
import sys, types
import numpy as np
import wend as torch
import wend._engine.compiler.pipeline

for name, text in {files!r}.items():
    module = sys.modules[name] = types.ModuleType(name)
    exec(text, vars(module))

from wend._engine.core.primitive import ops

for n in (5, 1, 0, 9):
    x = torch.tensor(np.arange(float(n)), requires_grad=True)
    y = ops.rotate((x * 2)[:n])
    (y * torch.arange(n)).sum().backward()
    np.testing.assert_array_equal(y.detach().numpy(), np.roll(2 * np.arange(n), -1))
    np.testing.assert_array_equal(x.grad.numpy(), np.roll(2 * np.arange(n), 1))
    kinds = [step.kind for step in torch.debug.explain().flushes[-1].kernels]
    assert "rotate" in kinds, kinds
x = torch.arange(12.0).reshape(3, 4)[:, 1]
assert ops.rotate(x).tolist() == [5.0, 9.0, 1.0]
rows = torch.arange(6.0).reshape(2, 3)
assert torch.func.vmap(ops.rotate)(rows).tolist() == [[1.0, 2.0, 0.0], [4.0, 5.0, 3.0]]
print("done")
"""


def files_of_page():
    """{module: text} of the blocks that begin with a path."""
    blocks = re.findall(r"^```python\n# (\S+)\.py\n(.*?)^```$", PAGE.read_text(), re.M | re.S)
    return {"wend._engine." + path.replace("/", "."): text for path, text in blocks}


def test_an_op_with_a_kernel_is_two_files():
    files = files_of_page()
    files = {name: files[name] for name in files if name.endswith(".rotate")}
    assert list(files) == ["wend._engine.ops.rotate", "wend._engine.compiler.kernels.rotate"]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(files=files)],
        env={**os.environ, "WEND_COMPILE": "force", "WEND_STRICT": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (done.stdout, done.returncode) == ("done\n", 0), done.stderr
