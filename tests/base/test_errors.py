"""Each error is also the built-in type that a PyTorch program catches."""

import pickle

import pytest

from wend._engine.base import errors
from wend._engine.base.errors import ModuleNotAvailable, WendError

BUILTINS = {
    "AmbiguousError": RuntimeError,
    "RequirementError": AssertionError,
    "ShapeError": RuntimeError,
    "DTypeError": RuntimeError,
    "DeviceError": RuntimeError,
    "GraphError": RuntimeError,
    "BadValueError": RuntimeError,
    "ExecutionError": RuntimeError,
    "OutOfMemory": MemoryError,
    "KernelFailure": RuntimeError,
    "DefectError": RuntimeError,
    "CompileError": RuntimeError,
    "CompileDeclined": RuntimeError,
    "SymbolicError": RuntimeError,
    "FormatError": RuntimeError,
    "ArgumentTypeError": TypeError,
    "LinAlgError": RuntimeError,
    "ArgumentError": ValueError,
    "ValueRefused": RuntimeError,
    "DataRefused": RuntimeError,
    "GradientRefused": RuntimeError,
    "ValuesRefused": ValueError,
    "DivisionByZero": ZeroDivisionError,
    "TooLarge": OverflowError,
    "DTypeNotImplemented": NotImplementedError,
    "DTypeOfOperator": TypeError,
    "IndexOutOfRange": IndexError,
    "OutOfMemoryError": RuntimeError,
    "ElementOutOfRange": IndexError,
    "DimError": IndexError,
    "NotAvailable": AttributeError,
    "ModuleNotAvailable": ImportError,
    "NoDataError": NotImplementedError,
    "NotImplementedInWend": NotImplementedError,
}


def test_every_error_is_listed():
    found = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, WendError) and value is not WendError
    }
    assert found == set(BUILTINS)


@pytest.mark.smoke
@pytest.mark.parametrize("name", BUILTINS)
def test_kind_text_site_and_pickle(name):
    kind = getattr(errors, name)
    assert issubclass(kind, BUILTINS[name]) and issubclass(kind, WendError)
    error = kind("mul: no")
    assert str(error) == "mul: no"
    error.site = "file.py:34 in f"
    assert str(error) == "mul: no\n  at file.py:34 in f"
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is kind and str(again) == str(error)


def test_module_error_carries_the_name():
    error = ModuleNotAvailable("torch.spam: no", name="torch.spam")
    assert error.name == "torch.spam" and isinstance(error, ModuleNotFoundError)
    assert pickle.loads(pickle.dumps(error)).name == "torch.spam"
