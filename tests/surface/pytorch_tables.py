"""The call forms that PyTorch's own tables state, by public name.

The tables: the stub files of its binary (functions of `torch`, methods of `Tensor`), the schemas of
its operators, `inspect.signature` of what is Python, docstrings of builtins without a signature,
and the list of overridable functions.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import types
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from call_forms import Form, of_docstring, of_python, of_schema, of_stub

#: Modules whose public names are compared.
NAMESPACES = """
torch torch.nn torch.nn.functional torch.nn.init torch.nn.utils torch.nn.utils.rnn
torch.nn.utils.parametrize torch.nn.utils.parametrizations torch.nn.utils.prune
torch.nn.utils.stateless torch.nn.parallel torch.nn.parameter
torch.optim torch.optim.lr_scheduler torch.optim.swa_utils torch.utils.data
torch.utils.checkpoint torch.utils.dlpack torch.utils.hooks torch.utils._pytree
torch.distributions torch.distributions.constraints torch.distributions.transforms
torch.linalg torch.fft torch.special torch.signal.windows torch.func torch.autograd
torch.autograd.functional torch.autograd.forward_ad torch.autograd.graph torch.autograd.profiler
torch.jit torch.export
torch.amp torch.sparse torch.nested torch.masked torch.library torch.overrides torch.random
torch.serialization torch.hub torch.testing torch.compiler torch.onnx torch.fx
torch.multiprocessing torch.profiler torch.cuda torch.cpu torch.mps torch.xpu
torch.accelerator torch.types torch.quasirandom
torch.distributed torch.distributed.algorithms.join torch.distributed.checkpoint
torch.distributed.checkpoint.state_dict torch.distributed.device_mesh
torch.distributed.elastic.multiprocessing.errors torch.distributed.fsdp
torch.distributed.nn.functional torch.distributed.optim
""".split()
#: Modules of numbers and words, which programs ask for.
_FACTS = frozenset(
    """torch.version torch.backends.cuda torch.backends.cudnn torch.backends.mkl
    torch.backends.mkldnn torch.backends.openmp torch.backends.mps torch.backends.cpu""".split()
)
NAMESPACES += sorted(_FACTS)
#: The part of a schema's name that says where its function is public.
PREFIXES = {"linalg_": "torch.linalg", "fft_": "torch.fft", "special_": "torch.special"}


def public_names(module: Any) -> list[str]:
    """Names of a module that its users may rely on."""
    listed = getattr(module, "__all__", None)
    if listed is None:
        listed = [
            name
            for name, value in vars(module).items()
            if _of_module(value, module) or isinstance(value, types.BuiltinFunctionType)
        ]
    names = {n for n in listed if not n.startswith("_") and not n[0].isdigit()}
    return sorted(n for n in names if not isinstance(getattr(module, n, module), types.ModuleType))


def _of_module(value: Any, module: Any) -> bool:
    """Whether a value was made in a module, or is a fact that the module states."""
    made_in = getattr(value, "__module__", None)
    if made_in is None:
        return (module.__name__ in _FACTS and value is None) or isinstance(value, bool | str)
    return str(made_in).startswith(module.__name__)


def all_names() -> dict[str, Any]:
    """Each public name with its object: functions, classes, methods of classes, constants.

    The members of a class stand under its first name only.
    """
    found: dict[str, Any] = {}
    seen: set[int] = set()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for space in NAMESPACES:
            module = importlib.import_module(space)
            for name in public_names(module):
                value = getattr(module, name, None)
                found[f"{space}.{name}"] = value
                if isinstance(value, type) and _has_members(value) and id(value) not in seen:
                    seen.add(id(value))
                    for member in member_names(value):
                        static = inspect.getattr_static(value, member)
                        found[f"{space}.{name}.{member}"] = static
    return found


def _has_members(cls: type) -> bool:
    """Whether the members of a class are names of their own: not of the script compiler's."""
    if type(cls).__name__ == "tensortype" or "Storage" in cls.__name__:
        return False  # FloatTensor and the like
    scripts = any(base.__name__ == "pybind11_object" for base in cls.__mro__)
    return cls.__module__.startswith("torch") and not scripts


def member_names(cls: Any) -> list[str]:
    """Public names that a class itself defines, `Tensor` also those of its base in C."""
    bases = cls.__mro__[:2] if cls is torch.Tensor else (cls,)
    return sorted({n for base in bases for n in vars(base) if not n.startswith("_")})


# -- forms ----------------------------------------------------------------------------------


def _stub(name: str) -> ast.Module:
    path = Path(torch.__file__).parent / name
    return ast.parse(path.read_text(encoding="utf-8"))


def stub_forms() -> Iterator[Form]:
    """Forms of the functions of `torch` and the methods of `Tensor`."""
    for node in _stub("_C/_VariableFunctions.pyi").body:
        if isinstance(node, ast.FunctionDef) and hasattr(torch, node.name):
            form = of_stub(f"torch.{node.name}", node)
            if all(p.name != "names" for p in form.parameters):  # names of dims
                yield form
    for node in _stub("_C/__init__.pyi").body:
        if isinstance(node, ast.ClassDef) and node.name == "TensorBase":
            for member in node.body:
                if (
                    isinstance(member, ast.FunctionDef)
                    and not _is_property(member)
                    and callable(getattr(torch.Tensor, member.name, None))
                ):
                    yield of_stub(f"torch.Tensor.{member.name}", member, 1)


def _is_property(node: ast.FunctionDef) -> bool:
    words = [ast.unparse(d) for d in node.decorator_list]
    return any(w == "property" or w.endswith(".setter") for w in words)


def schema_forms() -> Iterator[Form]:
    """Forms of the schemas of operators that are public under their name."""
    from torch._C import _nn  # type: ignore[attr-defined]

    for schema in torch._C._jit_get_all_schemas():
        space, _, name = schema.name.partition("::")
        if space != "aten" or name.startswith("_") or _unbound(schema):
            continue
        first = schema.arguments[0].name if schema.arguments else ""
        for prefix, module in PREFIXES.items():
            leaf = name.removeprefix(prefix)
            if leaf != name and hasattr(importlib.import_module(module), leaf):
                yield of_schema(f"{module}.{leaf}", schema, False)
        if isinstance(getattr(torch, name, None), types.BuiltinFunctionType):
            yield of_schema(f"torch.{name}", schema, False)
        functional = getattr(torch.nn.functional, name, None)
        if functional is not None and functional is getattr(_nn, name, None):
            yield of_schema(f"torch.nn.functional.{name}", schema, False)
        if first == "self" and "out" not in schema.overload_name:
            method = getattr(torch.Tensor, name, None)
            if isinstance(method, types.MethodDescriptorType):
                yield of_schema(f"torch.Tensor.{name}", schema, True)


def _unbound(schema: Any) -> bool:
    """Whether PyTorch's Python has no call for a schema: of names of dims, scripts' lists."""
    words = str(schema)
    first = schema.arguments[0] if schema.arguments else None
    if first is not None and str(first.type) in (
        "int",
        "float",
        "bool",
        "Scalar",
        "str",
        "complex",
        "t[]",
    ):
        return schema.overload_name in (
            "int",
            "float",
            "t",
            "str",
            "Scalar",
            "int_int",
            "complex",
            "bool",
        )
    return "Dimname" in words or " t[]" in words or "(t[]" in words


def _method_skip(value: Any) -> int:
    return 0 if isinstance(value, staticmethod | classmethod) else 1


def python_forms(names: dict[str, Any]) -> Iterator[Form]:
    """Forms of Python functions, classes and methods, and of builtins by their docstring."""
    for name, value in names.items():
        owner = name.rpartition(".")[0]
        method = owner in names and isinstance(names[owner], type)
        if isinstance(value, property) or not (
            callable(value) or isinstance(value, staticmethod | classmethod)
        ):
            continue
        if isinstance(value, type) and issubclass(value, BaseException):
            continue
        target, skip = value, _method_skip(value) if method else 0
        if isinstance(value, staticmethod):
            target = value.__func__
        elif isinstance(value, classmethod):
            target, skip = value.__func__, 1
        form = of_python(name, target, skip)
        if form is None and not isinstance(value, type):
            form = of_docstring(name, target.__doc__, method)
        if form is not None:
            yield form


def override_forms(names: dict[str, Any]) -> Iterator[Form]:
    """Forms of PyTorch's list of overridable functions: what has to be given, by position."""
    from torch.overrides import get_testing_overrides

    by_id: dict[int, list[str]] = {}
    for name, value in names.items():
        by_id.setdefault(id(value), []).append(name)
    for function, stand_in in get_testing_overrides().items():
        for name in by_id.get(id(function), ()):
            form = of_python(name, stand_in, 1 if name.startswith("torch.Tensor.") else 0)
            if form is not None:
                given = tuple(p for p in form.parameters if p.required)
                yield Form(name, given, "override")


def all_forms(names: dict[str, Any]) -> dict[str, list[Form]]:
    """All different forms of each name.

    A stub says exactly what Python takes, so that schemas count for names without a stub; the list
    of overridable functions and docstrings count where no other table has the name.
    """
    found: dict[str, dict[Any, Form]] = {}
    exact = (stub_forms(), (f for f in python_forms(names) if f.source == "inspect"))
    for maker in (*exact, schema_forms(), python_forms(names), override_forms(names)):
        before = set(found) if maker not in exact else set()
        for form in _in_silence(maker):
            if form.name not in before:
                key = tuple((p.name, p.required, p.keyword_only, p.kind) for p in form.parameters)
                found.setdefault(form.name, {}).setdefault(key, form)
    return {name: list(forms.values()) for name, forms in found.items()}


def _in_silence(forms: Iterator[Form]) -> list[Form]:
    """All forms, without the warnings of former names that are looked at."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return list(forms)


# -- modules --------------------------------------------------------------------------------

PRIVATE_BUT_USED = """
torch._utils torch.utils._pytree torch.nn.parallel._functions torch.nn.modules
""".split()


def module_paths() -> list[str]:
    """Paths of all public modules, found without importing them."""
    found = ["torch"]
    found += [info.name for info in _walk(torch.__path__, "torch.")]
    return sorted(found + [p for p in PRIVATE_BUT_USED if p not in found])


def _walk(path: Any, prefix: str) -> Iterator[pkgutil.ModuleInfo]:
    for info in pkgutil.iter_modules(path, prefix):
        if info.name.rpartition(".")[2].startswith("_"):
            continue
        yield info
        if info.ispkg:
            folders = [str(Path(folder) / info.name.rpartition(".")[2]) for folder in path]
            yield from _walk(folders, info.name + ".")
