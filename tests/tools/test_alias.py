"""`import torch` served by another package: identity, what is missing, worker processes."""

import pytest


def test_modules_are_the_same_objects(shop):
    shop(
        """
import torch, shop, sys
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset
from torch import nn as again
import torch.nn.linear
assert torch is shop and nn is shop.nn is again and F is shop.nn.functional
assert sys.modules["torch.nn.functional"] is sys.modules["shop.nn.functional"]
import shop.utils.data
assert DataLoader is shop.utils.data.DataLoader
assert torch.__name__ == "torch" and shop.nn.__spec__.name == "shop.nn"
assert torch.late == "late value"
import importlib
assert importlib.import_module("torch.nn") is nn
torch.nn.functional.gelu = 3
import shop.nn.functional
assert shop.nn.functional.gelu == 3
"""
    )


def test_submodules_come_without_being_imported(shop):
    shop(
        """
import torch
assert torch.utils.data.DataLoader
assert torch.nn.functional.relu
"""
    )


def test_versions(shop):
    shop(
        """
import torch
from torch.version import cuda
assert torch.__version__ == torch.version.__version__ == "2.13.0+wend"
assert torch.__version__ >= (1, 13) and torch.__version__ < "3"
assert cuda is None
"""
    )


def test_missing_attributes(shop):
    shop(
        """
import torch
assert not hasattr(torch, "announced")
assert not hasattr(torch, "spam") and getattr(torch, "spam", 5) == 5
try:
    torch.zeroes
except AttributeError as error:
    assert str(error) == "torch.zeroes: not part of Wend 0.5; near: torch.zeros", error
import torch.nn.functional as F
try:
    torch.nn.functional.gellu
except AttributeError as error:
    text = "torch.nn.functional.gellu: not part of Wend 0.5; near: torch.nn.functional.gelu"
    assert str(error) == text, error
try:
    torch.gelu  # spelled right, elsewhere
except AttributeError as error:
    assert "near: torch.nn.functional.gelu" in str(error), error
try:
    torch.nn.__wrapped__
except AttributeError as error:
    assert "not part of" not in str(error)
"""
    )


def test_the_engine_is_not_pytorchs(shop):
    """`torch.ops` and `torch.compiler` are PyTorch's; the engine's layers are not served."""
    shop(
        """
import torch
assert torch.ops.aten == 4 and not hasattr(torch, "core")
for name in ("torch._engine", "torch.core"):
    try:
        __import__(name)
    except ImportError as error:
        assert str(error).startswith(f"{name}: not part of Wend"), error
    else:
        raise SystemExit("the layer was served")
from shop._engine import ops
assert ops.x == 3
import types
torch.compiler = types.ModuleType("shop.frontend.compiler_names")
import torch.compiler as compiler
assert compiler.__name__ == "shop.frontend.compiler_names"
"""
    )


@pytest.mark.parametrize(
    ("statement", "name", "near"),
    [
        ("import torch.spam", "torch.spam", ""),
        ("import torch.spam.more", "torch.spam", ""),
        ("import torch.nn.functionals", "torch.nn.functionals", "torch.nn.functional"),
        ("from torch import zeroes", "torch.zeroes", "torch.zeros"),
        ("from torch.nn import Lineer", "torch.nn.Lineer", "torch.nn.Linear"),
        ("from torch.nn.functional import rellu", "torch.nn.functional.rellu", "relu"),
        ("from torch.utils.data import Datasett", "torch.utils.data.Datasett", "Dataset"),
        ("import torch.core", "torch.core", ""),
        ("from torch.nn.linear.deeper import x", "torch.nn.linear.deeper", ""),
    ],
)
def test_missing_imports(shop, statement, name, near):
    shop(
        f"""
import torch
try:
    {statement}
except ImportError as error:
    assert str(error).startswith("{name}: not part of Wend 0.5"), error
    assert "{near}" in str(error), error
    assert error.name == "{name}", error.name
else:
    raise SystemExit("nothing was raised")
"""
    )


def test_find_spec_answers_none(shop):
    shop(
        """
import importlib.util, torch
assert importlib.util.find_spec("torch.spam") is None
assert importlib.util.find_spec("torch.nn.functional") is not None
assert importlib.util.find_spec("torch") is not None
assert importlib.util.find_spec("shop.spam") is None
"""
    )


def test_other_errors_stay_what_they_are(shop):
    shop(
        """
import torch
try:
    import torch.broken
except ModuleNotFoundError as error:
    assert error.name == "a_module_that_nobody_has" and "Wend" not in str(error)
try:
    import torch.faulty
except ZeroDivisionError:
    pass
try:
    import torchspam
except ModuleNotFoundError as error:
    assert "Wend" not in str(error)
try:
    torch.zeros()
except TypeError as error:
    assert "missing" in str(error)
"""
    )


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_worker_processes_have_it(shop, method):
    done = shop(
        f"""
import multiprocessing as mp
import torch, torch.nn

class Net(torch.nn.Linear):
    pass

def work(net, queue):
    from torch.utils.data import DataLoader
    queue.put((torch.__version__, torch.__name__, type(net).__name__, DataLoader.__module__))

if __name__ == "__main__":
    context = mp.get_context({method!r})
    queue = context.Queue()
    worker = context.Process(target=work, args=(Net(), queue))
    worker.start()
    print(queue.get(timeout=60))
    worker.join()
    assert worker.exitcode == 0
"""
    )
    assert done.stdout.strip() == "('2.13.0+wend', 'torch', 'Net', 'shop.utils.data')"


def test_pickles_load_under_both_names(shop):
    shop(
        """
import pickle, torch, torch.nn
from torch.nn import Linear
assert pickle.loads(pickle.dumps(Linear)) is Linear
assert pickle.loads(b"ctorch.nn.linear\\nLinear\\n.") is Linear
"""
    )


def test_a_real_torch_is_not_replaced(python):
    code = (
        "import sys, types; sys.modules['torch'] = types.ModuleType('torch')\n"
        "from wend._tools import alias\n"
        "try: alias.install()\n"
        "except RuntimeError as error: print(error)"
    )
    assert "torch is imported already" in python("-c", code).stdout


def test_install_twice_is_once(shop):
    shop(
        """
import sys
from wend._tools import alias
count = len(sys.meta_path)
alias.install("shop")
assert len(sys.meta_path) == count
"""
    )


def test_uninstall_gives_torch_back(shop):
    """Modules are as before: names, versions, what a missing name says, workers."""
    shop(
        """
import sys
import multiprocessing.spawn as spawn
from wend._tools import alias
served = spawn.get_preparation_data
import torch, shop, torch.nn.functional as F
assert torch is shop and hasattr(shop.nn.functional, "__path__")
alias.uninstall("shop")
assert not alias.is_installed() and spawn.get_preparation_data is not served
assert not [name for name in sys.modules if name.partition(".")[0] == "torch"]
assert shop.__name__ == "shop" and shop.__version__ == shop.version.__version__ == "0.5"
assert not hasattr(shop, "__wend_version__")
assert not hasattr(shop.nn.functional, "__path__") and "__getattr__" not in vars(shop.nn)
assert shop.late == "late value"
try:
    shop.spam
except AttributeError as error:
    assert "not part of" not in str(error)
import importlib.util
spec = importlib.util.find_spec("torch")
assert spec is None or "shop" not in str(spec.origin)
alias.uninstall("shop")  # does nothing
alias.install("shop")
import torch as again
assert again is shop and torch.__name__ == "torch"
try:
    torch.zeroes
except AttributeError as error:
    assert "near: torch.zeros" in str(error)
"""
    )


def test_a_package_that_is_loaded_again_is_explained_again(shop):
    shop(
        """
import importlib, shop
from wend._tools import alias
alias.uninstall("shop")
importlib.reload(shop)
alias.install("shop")
import torch
try:
    torch.zeroes
except AttributeError as error:
    assert "near: torch.zeros" in str(error)
else:
    raise SystemExit("nothing was raised")
"""
    )
