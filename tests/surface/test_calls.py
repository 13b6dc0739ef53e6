"""Ops called by keyword with PyTorch's names: functions that take `*args` have no signature to ask.

Each schema of PyTorch's is called with its required arguments, with all of them, and with the first
by position; where PyTorch computes something, Wend's result has the same shape and type.
"""

import warnings
from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import wend  # noqa: E402

#: Not called: they read files, change storages or modes, or are of a stream.
NOT_CALLED = {"from_file", "set_", "resize_as_sparse_", "record_stream", "set_grad_enabled"}
#: Called with values that suit no user; or differing on purpose.
KNOWN = {
    # PyTorch's functions of these names return all losses unless a reduction is given.
    *("margin_ranking_loss", "hinge_embedding_loss", "kl_div", "triplet_margin_loss"),
    "binary_cross_entropy_with_logits",
    # The values are no sparse tensor, which PyTorch finds out later.
    *("sparse_bsc_tensor", "sparse_bsr_tensor", "sparse_csc_tensor", "sparse_csr_tensor"),
    # A bias of two dims.
    *("linear", "rnn_tanh_cell", "rnn_relu_cell"),
    "expand",  # `implicit` is for PyTorch's own use
}
FAMILIES = {"linalg_": "linalg", "fft_": "fft", "special_": "special"}
POSITIONS = {"dim", "dim0", "axis", "axis0", "start_dim", "reduction", "offset", "storage_offset"}
INDICES = {"index", "indices", "batch_sizes", "offsets", "repeats", "indexes"}
INDICES |= {"crow_indices", "col_indices", "ccol_indices", "row_indices"}
TEXTS = {"equation": "ij,jk->ik", "side": "left", "UPLO": "L", "ord": "fro", "indexing": "ij"}
TEXTS |= {"approximate": "none", "mode": "reduced"}
LEFT_OUT = {"out", "generator", "dtype", "layout", "device", "pin_memory", "memory_format"}


class NoValue(Exception):
    """There is no value at hand for a type."""


def value(lib: Any, argument: Any) -> Any:
    """A value for an argument of a schema; None to leave it out."""
    kind = str(argument.type).removeprefix("Optional[").removesuffix("]")
    name = argument.name
    if kind == "Tensor":
        if name in INDICES:
            return lib.tensor([0, 1])
        if name in ("mask", "condition"):
            return lib.tensor([[True, False], [False, True]])
        return lib.tensor([[1.0, 2.0], [3.0, 5.0]])
    if kind in ("int", "SymInt", "number"):
        if name in ("dtype", "layout"):
            return None
        return 0 if name in POSITIONS or name == "low" else 1 if name in ("dim1", "axis1") else 2
    if kind == "float":
        return 0.5
    if kind == "bool":
        return False
    if kind.startswith(("List[int", "List[SymInt")):
        sizes = name in ("size", "shape", "sizes", "output_size", "kernel_size")
        return [2, 2] if sizes else [1, 0] if name in ("dims", "perm") else [0]
    if kind.startswith("List[Tensor"):
        return [lib.tensor([[1.0, 2.0], [3.0, 5.0]])] * 2
    if kind.startswith("List[float"):
        return [0.5, 0.5]
    if kind == "str":
        return TEXTS.get(name, "sum")
    raise NoValue


def called(lib: Any, path: str, name: str, arguments: list[Any], first: bool) -> Any:
    """The result of a call; `path` is a package of the library, or "Tensor" for a method."""
    named = {}
    for argument in arguments:
        given = value(lib, argument)
        if given is not None:
            named["input" if argument.name == "self" else argument.name] = given
    place = []
    if named and (first or path == "Tensor"):
        place = [named.pop(next(iter(named)))]
    where = lib if path == "" else lib.linalg if path == "linalg" else getattr(lib, path)
    return getattr(where, name)(*place, **named)


def calls() -> Iterator[tuple[str, str, list[Any], bool]]:
    """(package, name, arguments, whether the first is given by position) of each call."""
    seen = set()
    for schema in torch._C._jit_get_all_schemas():
        base = schema.name.removeprefix("aten::")
        if base == schema.name or base.startswith("_") or base in NOT_CALLED | KNOWN:
            continue
        paths = [("", base)]
        for prefix, package in FAMILIES.items():
            if base.startswith(prefix) and not base.startswith(prefix + "_"):
                paths = [(package, base.removeprefix(prefix))]
        if schema.arguments and schema.arguments[0].name == "self":
            paths.append(("Tensor", base))
        needed = [a for a in schema.arguments if not a.has_default_value()]
        forms = (needed, [a for a in schema.arguments if a.name not in LEFT_OUT])
        for path, name in paths:
            if not has(torch, path, name) or not has(wend, path, name):
                continue  # `tests/surface` compares the names
            for form in forms:
                for first in (False, True):
                    key = (path, name, tuple(a.name for a in form), first)
                    if key not in seen and not any(a.is_out for a in form):
                        seen.add(key)
                        yield path, name, form, first


def has(lib: Any, path: str, name: str) -> bool:
    return hasattr(getattr(lib, path) if path else lib, name)


@pytest.mark.filterwarnings("ignore")
def test_calls_by_keyword_give_results_as_pytorchs():
    faults = []
    count = 0
    for path, name, form, first in calls():
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                theirs = called(torch, path, name, form, first)
        except Exception:
            continue  # the values do not suit this op
        count += 1
        text = f"{path}.{name}({', '.join(a.name for a in form)})"
        try:
            ours = called(wend, path, name, form, first)
        except Exception as error:
            faults.append(f"{text}: {type(error).__name__}: {error}")
            continue
        if isinstance(theirs, torch.Tensor) and (
            tuple(ours.shape) != tuple(theirs.shape) or str(ours.dtype) != str(theirs.dtype)
        ):
            faults.append(f"{text}: {ours.shape}, {ours.dtype} for {theirs.shape}, {theirs.dtype}")
    assert not faults, "\n".join(faults)
    assert count > 2000
