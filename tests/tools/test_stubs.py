"""The checked-in stubs are what the registry and the core give today, and say what is there."""

import ast
import importlib
import inspect

import pytest

import wend
from wend._engine.core._hot import OpFunction, Tensor
from wend._engine.core._select import PARTS
from wend._tools import stubs
from wend._tools.stub_forms import FORMS
from wend._tools.stub_modules import imported_names
from wend._tools.stub_ops import Results, op_lines
from wend._tools.stub_python import annotation_text, python_function


@pytest.mark.parametrize("path", stubs.STUBS)
def test_stubs_are_up_to_date(path):
    written = (stubs.PACKAGE / path).read_text(encoding="utf-8")
    assert written == stubs.STUBS[path](), f"{path} is out of date: run python -m wend._tools.stubs"


@pytest.mark.parametrize("path", stubs.STUBS)
def test_stubs_are_python(path):
    ast.parse(stubs.STUBS[path]())


def declared(path, of_class=None):
    tree = ast.parse(stubs.STUBS[path]())
    body = tree.body
    if of_class is not None:
        body = next(n for n in body if isinstance(n, ast.ClassDef) and n.name == of_class).body
    names = {n.name for n in body if isinstance(n, ast.FunctionDef)}
    return names | {n.target.id for n in body if isinstance(n, ast.AnnAssign)}


def test_every_method_of_tensor_is_declared():
    names = declared("_engine/core/_hot.pyi", "Tensor")
    ops = {n for n, v in vars(Tensor).items() if isinstance(v, OpFunction)}
    assert ops <= names
    assert {"shape", "to", "backward", "T", "__getitem__", "__torch_function__"} <= names
    missing = {n for n in names if not n.startswith("_") and not hasattr(Tensor, n)}
    assert not missing


def test_every_function_is_declared():
    names = declared("__init__.pyi")
    functions = {n for n, v in vars(wend).items() if isinstance(v, OpFunction) and n[0] != "_"}
    imported = dict(imported_names(wend))
    assert functions <= names | set(imported)
    assert {"float32", "int", "matmul", "where"} <= names


@pytest.mark.parametrize("part", PARTS)
def test_every_name_of_the_core_is_declared(part):
    module = importlib.import_module(f"wend._engine.core.{part}")
    names = {
        n for n, v in vars(module).items() if inspect.isclass(v) and v.__module__ == module.__name__
    }
    text = stubs.core_stub(part)
    assert names or part in ("_trie_policy", "_calls")
    assert not [n for n in names if f"class {n}:" not in text and f"class {n}(" not in text]


def test_a_signature_becomes_a_declaration():
    results = Results()
    assert op_lines("sum", wend.sum, True, results)[0] == (
        "def sum(self, dim: Sequence[_int] | _int | None = None, keepdim: _bool = False, *, "
        "dtype: _dtype | None = None) -> Tensor:"
    )
    lines = op_lines("reshape", wend.reshape, True, results)
    assert lines[0] == "@overload"
    assert "def reshape(self, *shape: _int) -> Tensor:" in lines
    assert "def sort(input: Tensor, dim: _int" in "\n".join(
        op_lines("sort", wend.sort, False, results)
    )
    assert results.named["_values_indices"] == ("values", "indices")


def own_parameters(function):
    """The parameters of a function, or None if it takes others too."""
    if getattr(function, "general", None) is not None:
        return None
    parameters = inspect.signature(function).parameters.values()
    if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters):
        return None
    return {p.name for p in parameters}


@pytest.mark.parametrize("key", FORMS)
def test_written_forms_have_the_parameters_of_the_function(key):
    name = key.removesuffix("()").rpartition(".")[2]
    if key.startswith("nn.functional."):
        function = getattr(wend.nn.functional, name)
    else:
        function = getattr(wend if key.endswith("()") else Tensor, name, None) or getattr(
            wend, name
        )
    known = own_parameters(function)
    for parameters, _ in FORMS[key]:
        declared = ast.parse(f"def f({parameters.replace('{x}', 'self')}): ...").body[0].args
        names = {a.arg for a in [*declared.args, *declared.kwonlyargs]} - {"self"}
        assert known is None or names <= known | {"out"}, names - known


def test_words_that_a_stub_lacks_become_any():
    assert annotation_text("dict[str, Poly]") == "Any"
    assert annotation_text("list") == "list[Any]"
    assert annotation_text("DType | None") == "_dtype | None"
    assert annotation_text(inspect.Parameter.empty) == "Any"


def test_keywords_of_a_typed_dict_are_written_out():
    text = "\n".join(python_function("zeros", wend.zeros))
    assert "*, size: Sequence[_int], dtype: _dtype | None = ..." in text
    assert "*size: _int | Sequence[_int], dtype: _dtype | None = ..." in text
