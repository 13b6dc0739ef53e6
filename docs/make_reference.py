"""Writes the reference from the docstrings, when the site is built: `conf.py` calls `write`.

    python docs/make_reference.py FOLDER

One page a public module, and one for `Tensor`; a page for each topic lists these. Names are those
that a program can use, wherever they are defined: public modules re-export what lies in
`wend._frontend` and `wend._engine.ops`, some of it when first used.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import wend

#: The subject of a page, behind the module's name in its title. Modules inside of packages are
#: public if they stand here; those of `wend` itself are found.
TITLES = {
    "wend": "functions and types",
    "wend.nn": "layers",
    "wend.nn.functional": "layers as functions",
    "wend.nn.init": "initial values",
    "wend.nn.parameter": "parameters and buffers",
    "wend.nn.modules.lazy": "layers that take their sizes from an input",
    "wend.nn.parallel": "names of parallel models",
    "wend.nn.utils": "norms of gradients and weights",
    "wend.nn.utils.parametrize": "parametrisations",
    "wend.nn.utils.parametrizations": "ready parametrisations",
    "wend.nn.utils.rnn": "packed sequences",
    "wend.nn.utils.stateless": "modules as functions",
    "wend.optim": "optimisers",
    "wend.optim.lr_scheduler": "schedules of learning rates",
    "wend.optim.swa_utils": "averages of weights",
    "wend.ao": "models of 8 bits",
    "wend.errors": "errors",
    "wend.futures": "results to come",
    "wend.package": "names of packages of code",
    "wend.torch_version": "versions that compare as numbers",
    "wend.autograd": "gradients",
    "wend.autograd.function": "functions with gradients of one's own",
    "wend.autograd.functional": "Jacobians and Hessians of functions",
    "wend.autograd.forward_ad": "derivatives along directions",
    "wend.autograd.graph": "graphs of gradients",
    "wend.autograd.gradcheck": "gradients against differences",
    "wend.autograd.profiler": "measured stretches of a program",
    "wend.func": "transformations of functions",
    "wend.nested": "tensors of unlike sizes",
    "wend.utils": "tools beside the model",
    "wend.utils.data": "data sets, samplers and loaders",
    "wend.utils.checkpoint": "computing again instead of keeping",
    "wend.utils.hooks": "handles of hooks",
    "wend.utils.dlpack": "exchange of arrays",
    "wend.aot": "libraries without Python",
    "wend.debug": "what the engine did",
    "wend.serialization": "saving and loading",
    "wend.special": "special functions",
    "wend.masked": "reductions that leave elements out",
    "wend.linalg": "linear algebra",
    "wend.xp": "the array API standard",
    "wend.xp.linalg": "linear algebra of the array API",
    "wend.xp.fft": "Fourier transforms of the array API",
    "wend.fft": "Fourier transforms",
    "wend.signal.windows": "windows of signals",
    "wend.sparse": "sparse tensors",
    "wend.distributions": "probability distributions",
    "wend.distributions.constraints": "what values distributions take",
    "wend.distributions.transforms": "functions of random numbers",
    "wend.random": "random numbers",
    "wend.quasirandom": "points that fill a cube evenly",
    "wend.testing": "comparisons for tests",
    "wend.overrides": "classes that act as tensors",
    "wend.multiprocessing": "processes",
    "wend.amp": "automatic precision",
    "wend.cpu": "questions about the CPU",
    "wend.cpu.amp": "automatic precision under older names",
    "wend.cuda.amp": "automatic precision for a device that is not there",
    "wend.jit": "scripts and traces",
    "wend.export": "static graphs",
    "wend.fx": "calls of a module as a graph",
    "wend.fx.passes.shape_prop": "shapes in such graphs",
    "wend._higher_order_ops": "branches and loops as functions",
    "wend.compiler": "questions to the compiler",
    "wend._dynamo": "compiled functions",
    "wend.onnx": "ONNX models",
    "wend.library": "operators of a program's own",
    "wend.hub": "models from folders and addresses",
    "wend.profiler": "time and memory by op, line and module",
    "wend.nn.attention": "kernels of attention",
    "wend.nn.attention.flex_attention": "attention with functions on scores",
    "wend.cuda": "questions about devices",
    "wend.accelerator": "questions about accelerators",
    "wend.xpu": "questions about a device that is not there",
    "wend.mps": "questions about a device that is not there",
    "wend.mtia": "questions about a device that is not there",
    "wend.functional": "functions at a second address",
    "wend.return_types": "named results",
    "wend.storage": "memory of tensors",
    "wend.types": "names for annotations",
    "wend.distributed": "processes that communicate",
    "wend.distributed.checkpoint": "states of all ranks in a folder",
    "wend.distributed.device_mesh": "ranks in a grid",
    "wend.distributed.elastic.multiprocessing": "output of processes",
    "wend.distributed.elastic.multiprocessing.errors": "errors of processes",
    "wend.distributed.fsdp": "parameters shared out among ranks",
    "wend.distributed.launcher.api": "functions in several processes",
    "wend.distributed.nn.functional": "communication with gradients",
    "wend.distributed.optim": "optimizers shared out among ranks",
}
#: Modules whose page is by topic, most used first; names in no topic come last.
TOPICS = {
    "wend.debug": (
        ("Time", ("why_slow", "explain", "paths", "batches", "variants")),
        ("Memory", ("memory",)),
        ("Wrong numbers", ("find_nan", "nan_guard", "why_no_gradient", "break_when")),
        ("Graphs and models", ("graph", "watch", "diff", "summary")),
    ),
}
REST = "What the functions return"
#: Topics of the reference: (file, title, pages). A page belongs to the topic that names it, or else
#: its package.
SUBJECTS = (
    ("tensors", "Tensors and functions of tensors", (
        "wend.Tensor", "wend", "wend.linalg", "wend.fft", "wend.special", "wend.signal.windows",
        "wend.random", "wend.quasirandom", "wend.types", "wend.storage", "wend.functional",
        "wend.torch_version", "wend.xp",
    )),
    ("kinds", "Tensors of other kinds", ("wend.sparse", "wend.nested", "wend.masked")),
    ("layers", "Layers and models", ("wend.nn",)),
    ("training", "Training", (
        "wend.optim", "wend.amp", "wend.utils.data", "wend.utils.checkpoint", "wend.distributions",
        "wend.ao", "wend.hub",
    )),
    ("gradients", "Gradients and transformations", ("wend.autograd", "wend.func")),
    ("seeing", "Seeing, measuring, testing", (
        "wend.debug", "wend.profiler", "wend.autograd.profiler", "wend.testing", "wend.errors",
    )),
    ("files", "Files and programs without Python", (
        "wend.serialization", "wend.export", "wend.onnx", "wend.aot", "wend.jit", "wend.fx",
        "wend.package", "wend.compiler", "wend._dynamo", "wend._higher_order_ops",
    )),
    ("processes", "Several processes", (
        "wend.distributed", "wend.multiprocessing", "wend.futures",
    )),
    ("extending", "Extending and exchanging", (
        "wend.library", "wend.overrides", "wend.utils",
    )),
    ("devices", "Names of devices", (
        "wend.accelerator", "wend.cpu", "wend.cuda", "wend.mps", "wend.mtia", "wend.xpu",
    )),
)  # fmt: skip
#: Names that a package has from their first use on, which `dir` does not tell.
WHEN_USED = {
    "wend": tuple(wend._ELSEWHERE),
    "wend.utils": ("swap_tensors",),
}
#: Names of `wend` itself that belong to its inside.
INSIDE = {"wend": ("ABSENT", "ALIASES", "NAMES", "Any", "check_layout", "PublicModule")}
#: Families of functions whose titles are not the names of their files.
FAMILIES = {
    "C": "saving and loading",
    "_hot": "types",
    "addmm": "products with a sum",
    "api": "settings",
    "contract": "products",
    "conv": "convolutions",
    "creation": "making tensors",
    "devices": "types",
    "dtypes": "types",
    "formats": "types",
    "functions": "other functions",
    "grad_modes": "recording of gradients",
    "index_dim": "gather",
    "index_put": "gather",
    "exchange": "making tensors",
    "notebook": "settings",
    "methods": "other functions",
    "family": "views",
    "mapping": "many examples at once",
    "batched": "many examples at once",
    "platform": "settings",
    "pool": "pooling",
    "printing": "printing",
    "save": "saving and loading",
    "load": "saving and loading",
    "scatter_reduce": "gather",
    "shapes": "types",
    "storage": "types",
    "strided": "views",
    "subscript": "gather",
    "slicing": "views",
    "torch_version": "types",
    "typed": "making tensors",
    "version": "types",
    "wend": "making tensors",
}
HEAD = ".. Made by docs/make_reference.py; do not edit.\n"


@dataclass
class Entry:
    """An object that is documented once, and the names that it has in a module."""

    value: Any
    names: list[str] = field(default_factory=list)


#: Modules whose names come into being when a program asks.
MADE_WHEN_ASKED = {"ops"}


# -- what there is --------------------------------------------------------------------------


def modules() -> dict[str, list[Entry]]:
    """Public modules, each with what it offers and no package above it does, `wend` apart."""
    root = Path(wend.__file__).parent
    here = {path.stem for path in root.iterdir() if path.suffix == ".py" or path.is_dir()}
    names = {f"wend.{name}" for name in here - MADE_WHEN_ASKED if not name.startswith("_")}
    found: dict[str, list[Entry]] = {}
    offered: dict[str, set[int]] = {}
    for name in sorted(names | set(TITLES)):
        offers = entries(importlib.import_module(name))
        offered[name] = {id(entry.value) for entry in offers}
        packages = [n for n in offered if n != "wend" and name.startswith(n + ".")]
        above = set().union(*(offered[n] for n in packages))
        found[name] = [entry for entry in offers if id(entry.value) not in above]
    return {name: offers for name, offers in found.items() if offers}


def public_names(module: ModuleType) -> list[str]:
    """Names that a program may use of a module, modules left out."""
    name = module.__name__
    names = getattr(module, "__all__", None) or dir(module)
    found = {n for n in (*names, *WHEN_USED.get(name, ())) if not n.startswith("_")}
    found -= set(INSIDE.get(name, ()))
    return sorted(
        n for n in found if not inspect.ismodule(getattr(module, n)) and is_ours(getattr(module, n))
    )


def is_ours(value: Any) -> bool:
    """Tell whether a value is documented here: Wend's own, or a constant."""
    if callable(value):
        home = getattr(value, "__module__", None) or type(value).__module__
        return home.split(".")[0] in ("wend", "multiprocessing")
    return type(value).__module__.split(".")[0] == "wend"


def entries(module: ModuleType) -> list[Entry]:
    """The entries of a module; several names of one op are one entry."""
    found: dict[Any, Entry] = {}
    for name in public_names(module):
        value = getattr(module, name)
        found.setdefault(identity(value), Entry(value)).names.append(name)
    return list(found.values())


def identity(value: Any) -> Any:
    """A key that the names of one op have in common: `abs`, `absolute` and `abs_`."""
    primitive = getattr(value, "primitive", None)
    if primitive is None:
        return id(value)
    return (primitive, value.overloads, str(signature(value)))


def family(value: Any) -> str:
    """The heading under which a function of `wend` stands: where its rules are."""
    home = getattr(value, "primitive", value)
    file = (getattr(home, "__module__", None) or type(value).__module__).rsplit(".", 1)[-1]
    file = file.strip("_") if file != "_hot" else file
    return FAMILIES.get(file, file.replace("_", " "))


def members(cls: type, documented: set[type]) -> Iterator[tuple[str, Any]]:
    """Public methods and properties that a class adds to its documented bases."""
    bases = [base for base in cls.__mro__[1:] if base in documented or not is_ours(base)]
    for name in sorted(dir(cls)):
        if name.startswith("_") or any(hasattr(base, name) for base in bases):
            continue
        value = inspect.getattr_static(cls, name)
        if isinstance(value, (staticmethod, classmethod)):
            value = value.__func__
        if inspect.getdoc(value) and (callable(value) or is_property(value)):
            yield name, value


def is_property(value: Any) -> bool:
    """Tell whether a member is read as an attribute, and computed."""
    return hasattr(type(value), "__get__") and not callable(value)


# -- as text --------------------------------------------------------------------------------


def signature(value: Any) -> inspect.Signature | None:
    """Parameters and defaults, without types; None where there are none to be known."""
    try:
        found = inspect.signature(value)
    except (TypeError, ValueError):
        return None
    plain = [p.replace(annotation=p.empty) for p in found.parameters.values()]
    return found.replace(parameters=plain, return_annotation=found.empty)


def calls(name: str, value: Any, *, method: bool = False) -> list[str]:
    """The ways to call what has this name, as in `sum(input, dim=None)`."""
    forms = getattr(value, "overloads", None)
    if forms is None:
        found = signature(value)
        texts = [] if found is None else [str(found)[1:-1]]
    else:  # of each: "input, dim: dim, keepdim: bool = False"
        texts = [re.sub(r": *\w+", "", form.signature).replace(" = ", "=") for form in forms]
    if method:
        texts = [text.partition(", ")[2] for text in texts]
    # A default without a short text of its own: an object with an address, a class.
    texts = [re.sub(r"=<[^>]*>", "=...", text).replace("\\", "\\\\") for text in texts]
    return [f"{name}({text})" for text in dict.fromkeys(texts)] or [name]


def prose(text: str) -> str:
    """Running text as reStructuredText: `code` in backticks, all else as it stands."""
    parts = re.split(r"``([^`]+)``|`([^`]+)`", " ".join(text.split()))
    told = []
    for k in range(0, len(parts), 3):
        text = re.sub(r"([\\*_|`])", r"\\\1", parts[k])
        told.append(re.sub(r"\b([a-z]+):(?=\w)", r"\1\\:", text))  # file:line is no address
        if k + 2 < len(parts):
            code = parts[k + 1] or parts[k + 2]
            before = "" if not told[-1] or told[-1][-1] in " (" else "\\ "
            after = "" if re.match(r"[\s.,:;)?!]|$", parts[k + 3]) else "\\ "
            told.append(f"{before}``{code}``{after}")
    return "".join(told)


#: The beginning of `name: meaning`, or of several names.
NAMED = re.compile(r"(\*{0,2}\w+(?:, \*{0,2}\w+)*): (?=\S)")


def is_laid_out(paragraph: str) -> bool:
    """Tell whether the lines of a paragraph mean something: columns, or code."""
    return any(re.search(r"^\s|\S {3,}\S|->", line) for line in paragraph.splitlines())


def meanings(paragraph: str) -> list[tuple[str, str]]:
    """A list of `name: meaning` as pairs; [] for any other paragraph.

    Several may stand in a line, three spaces apart; further lines go on with the meaning.
    """
    rows: list[tuple[str, str]] = []
    for line in paragraph.splitlines():
        for piece in re.split(r" {3,}", line.strip()):
            named = NAMED.match(piece)
            if named is not None:
                rows.append((named[1], piece[named.end() :]))
            elif not rows:
                return []
            else:
                rows[-1] = rows[-1][0], f"{rows[-1][1]} {piece}"
    return rows


def body(value: Any) -> str:
    """The docstrings of a value as reStructuredText: several where it is called in several ways."""
    forms = getattr(value, "overloads", None) or (value,)
    return "\n\n".join(dict.fromkeys(text for form in forms for text in paragraphs(form)))


def paragraphs(value: Any) -> Iterator[str]:
    """The paragraphs of a docstring as reStructuredText."""
    for k, paragraph in enumerate(re.split(r"\n\s*\n", inspect.getdoc(value) or "")):
        named = meanings(paragraph) if k > 0 else []
        if named and "->" not in paragraph:
            yield "\n".join(f"- {prose(f'`{name}`: {meaning}')}" for name, meaning in named)
        elif k > 0 and is_laid_out(paragraph):
            yield "::\n\n" + textwrap.indent(textwrap.dedent(paragraph), "    ")
        elif paragraph.strip():
            yield prose(paragraph)


def directive(kind: str, calls: list[str], text: str, *inner: str) -> str:
    """A definition of the Python domain."""
    lead = f".. py:{kind}:: "
    head = lead + ("\n" + " " * len(lead)).join(calls)
    parts = [part for part in (text, *inner) if part]
    return "\n\n".join([head, *(textwrap.indent(part, "   ") for part in parts)]) + "\n"


def describe(entry: Entry, documented: set[type]) -> str:
    """One entry of a page."""
    value, names = entry.value, entry.names
    if not callable(value):
        return directive("data", names, "")
    ways = [way for name in names for way in calls(name, value)]
    if not inspect.isclass(value):
        return directive("function", ways, body(value))
    inner = [] if value is wend.Tensor else [member(n, v) for n, v in members(value, documented)]
    kind = "exception" if issubclass(value, BaseException) else "class"
    return directive(kind, ways, body(value), *inner)


def member(name: str, value: Any) -> str:
    """A member of a class."""
    if is_property(value):
        return directive("attribute", [name], body(value))
    return directive("method", calls(name, value, method=True), body(value))


# -- pages ----------------------------------------------------------------------------------


def title(text: str, line: str = "=") -> str:
    """A heading."""
    return f"{text}\n{line * len(text)}\n"


def page(name: str, found: list[Entry], documented: set[type]) -> str:
    """The page of a module."""
    head = f"{name}: {TITLES[name]}" if name in TITLES else name
    package, _, last = name.rpartition(".")
    # `wend.autograd.gradcheck` is a function, which hides the module.
    hidden = package and getattr(importlib.import_module(package), last) is not sys.modules[name]
    kind = "currentmodule" if hidden else "module"
    parts = [HEAD, title(head), f".. py:{kind}:: {name}\n"]
    if name == "wend":
        parts += by_family(found, documented)
    else:
        parts.append(body(importlib.import_module(name)) + "\n")
        if name in TOPICS:
            parts += by_topic(found, documented, TOPICS[name])
        else:
            parts += [describe(entry, documented) for entry in found]
    return "\n".join(parts)


def by_topic(
    found: list[Entry], documented: set[type], topics: tuple[tuple[str, tuple[str, ...]], ...]
) -> Iterator[str]:
    """The functions of a module by topic; then what they return, which programs do not make."""
    by_name = {name: entry for entry in found for name in entry.names}
    for heading, names in topics:
        yield title(heading, "-")
        for name in names:
            yield describe(by_name.pop(name), documented)
    if by_name:
        yield title(REST, "-")
    for entry in by_name.values():
        text = describe(entry, documented)
        yield text if not inspect.isclass(entry.value) else without_parameters(text)


def without_parameters(text: str) -> str:
    """The text of a class, without the parameters of its constructor."""
    head, rest = text.split("\n", 1)
    return f"{head.partition('(')[0]}\n{rest}"


def by_family(found: list[Entry], documented: set[type]) -> Iterator[str]:
    """The functions of `wend` under headings, settings first; dtypes and numbers as lists."""
    families: dict[str, list[Entry]] = {}
    for entry in found:
        if callable(entry.value):
            families.setdefault(family(entry.value), []).append(entry)
        else:
            kind = type(entry.value).__name__.strip("_")
            families.setdefault(f"values of type {kind}", []).append(entry)
    for heading in sorted(families):
        yield title(heading[0].upper() + heading[1:], "-")
        for entry in families[heading]:
            yield describe(entry, documented)


def subject_of(name: str) -> str:
    """The topic of a page: of the longest name that the page's name begins with."""
    owners = [
        (len(owner), file)
        for file, _, owners in SUBJECTS
        for owner in owners
        if name == owner or (owner != "wend" and name.startswith(f"{owner}."))
    ]
    if not owners:
        raise ValueError(f"SUBJECTS of docs/make_reference.py has no place for {name}")
    return max(owners)[1]


def subject_pages(names: Iterable[str]) -> dict[str, str]:
    """The pages of topics by file, each with its modules: the order of SUBJECTS, then by name."""
    order = [name for _, _, owners in SUBJECTS for name in owners]
    rank = {name: k for k, name in enumerate(order)}
    pages = {}
    ranked = sorted(names, key=lambda name: (rank.get(name, len(rank)), name))
    for file, heading, _ in SUBJECTS:
        listed = "\n".join(f"   {name}" for name in ranked if subject_of(name) == file)
        toctree = f".. toctree::\n   :maxdepth: 1\n\n{listed}\n"
        pages[f"{file}.rst"] = "\n".join([HEAD, title(heading), toctree])
    return pages


def tensor_page() -> str:
    """The page of `Tensor`: methods and attributes."""
    told = [HEAD, title("wend.Tensor: methods and attributes"), ".. py:currentmodule:: wend\n"]
    same: dict[Any, Entry] = {}
    for name, value in members(wend.Tensor, set()):
        same.setdefault(identity(value), Entry(value)).names.append(f"Tensor.{name}")
    for entry in same.values():
        if is_property(entry.value):
            told.append(directive("attribute", entry.names, body(entry.value)))
        else:
            ways = [way for name in entry.names for way in calls(name, entry.value, method=True)]
            told.append(directive("method", ways, body(entry.value)))
    return "\n".join(told)


def write(folder: Path) -> list[Path]:
    """Write all pages into a folder, and take away pages of modules that are gone."""
    folder.mkdir(parents=True, exist_ok=True)
    found = modules()
    offered = [entry.value for here in found.values() for entry in here]
    documented = {value for value in offered if inspect.isclass(value)}
    pages = {f"{name}.rst": page(name, here, documented) for name, here in found.items()}
    pages["wend.Tensor.rst"] = tensor_page()
    pages |= subject_pages(name.removesuffix(".rst") for name in pages)
    for old in folder.glob("*.rst"):
        if old.name not in pages:
            old.unlink()
    for name, text in pages.items():
        path = folder / name
        # A page that is the same is not written: Sphinx then need not read it again.
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
    return [folder / name for name in pages]


if __name__ == "__main__":
    write(Path(sys.argv[1]))
