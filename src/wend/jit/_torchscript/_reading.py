"""Reads an archive of PyTorch's TorchScript: a container of code, pickles and tensors.

    code/__torch__/...py   classes and functions, as text     constants.pkl   tensors of the code
    data.pkl               the module with all attributes     data/, constants/   their bytes

The pickles go through the machine of `torch.load`, with a list of names of their own. Classes of
the archive are the only classes that a pickle may make.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import IO, Any

from wend._engine.base.errors import FormatError
from wend._engine.core._hot import Tensor
from wend.jit._torchscript._classes import ArchiveClass
from wend.jit._torchscript._compiling import Unit
from wend.jit._torchscript._lexing import parse
from wend.jit._torchscript._module import ArchiveModule, fill
from wend.jit._torchscript._values import Number0d, ScriptObject
from wend.nn.parameter import Parameter
from wend.serialization._archive import ArchiveReader, FileSource
from wend.serialization._errors import CheckpointError, UnsafeName, short
from wend.serialization._interpreter import Interpreter
from wend.serialization._meanings import default_meanings
from wend.serialization._names import Meaning, Names, full_name
from wend.serialization._storages import MapLocation, StorageLoader

__all__ = ["is_program", "known_number", "read_archive"]

MOST_CODE = 64 << 20  # bytes of all compressed records
QUANTISED = frozenset(f"torch.{kind}Storage" for kind in ("QInt8", "QUInt8", "QInt32"))
LISTS = ("intlist", "tensorlist", "doublelist", "boollist")


def read_archive(
    file: IO[bytes], map_location: MapLocation, extra: dict[str, Any] | None = None
) -> ArchiveModule:
    """The module in a file, which starts at the present position.

    extra: names of further records, whose content is put in
    Raises FormatError for anything but an archive that PyTorch could have written.
    """
    archive = ArchiveReader(FileSource(file), inflates=MOST_CODE)
    _check_kind(archive)
    constants = _constants(archive, map_location)
    texts = _texts(archive)
    trees = {name: parse(text, name) for name, text in texts.items()}
    unit = Unit(trees, constants, _version(archive))
    unit.texts = texts
    unit.find_all()
    reader = StateReader(unit)
    root = reader.run(archive, "data", map_location)
    if not isinstance(root, ArchiveModule):
        raise FormatError(f"torch.jit.load: the file holds a {type(root).__name__}, no module")
    for name in extra or {}:
        if f"extra/{name}" in archive:
            extra[name] = archive.read(f"extra/{name}")  # type: ignore[index]
    return root


def is_program(file: IO[bytes]) -> bool:
    """Whether a file may be a program that Wend has written: a checkpoint. The file is rewound."""
    start = file.tell()
    names = ArchiveReader(FileSource(file), inflates=MOST_CODE).names()
    file.seek(start)
    return "data.pkl" in names and "constants.pkl" not in names and "model.json" not in names


def _check_kind(archive: ArchiveReader) -> None:
    names = archive.names()
    if "model.json" in names:
        raise FormatError(
            "torch.jit.load: the archive is of the format before PyTorch 1.2; load and save it "
            "anew in PyTorch"
        )
    if "data.pkl" not in names or "constants.pkl" not in names:
        what = "a checkpoint: use torch.load" if "data.pkl" in names else "no TorchScript archive"
        if any(name.endswith("extern_modules") for name in names):
            what = "a package of torch.package, whose Python code Wend does not run"
        raise FormatError(f"torch.jit.load: the file is {what}")


def _version(archive: ArchiveReader) -> int:
    """The number of the format, by which some ops differ."""
    text = archive.read("version").strip() if "version" in archive else b"1"
    if not text.isdigit() or len(text) > 4:
        raise FormatError(f"torch.jit.load: the version of the archive is {short(text)}")
    return int(text)


def _texts(archive: ArchiveReader) -> dict[str, str]:
    """All code, by the name of the module."""
    texts: dict[str, str] = {}
    for name in archive.names():
        if not (name.startswith("code/") and name.endswith(".py")):
            continue
        try:
            text = archive.read(name).decode()
        except UnicodeDecodeError as error:
            raise FormatError(f"torch.jit.load: {short(name)} is no text") from error
        texts[name[len("code/") : -len(".py")].replace("/", ".")] = text
    return texts


def _constants(archive: ArchiveReader, map_location: MapLocation) -> tuple[Any, ...]:
    """The constants of the code. Tensors without dims that hold an int are known numbers."""
    values = StateReader(None).run(archive, "constants", map_location)
    if not isinstance(values, tuple):
        raise FormatError("torch.jit.load: constants.pkl holds no tuple")
    return tuple(known_number(v) for v in values)


def known_number(value: Any) -> Any:
    """A constant of the code: of a tensor without dims that holds an int, the known number."""
    scalar = isinstance(value, Tensor) and value.dim() == 0 and not value.is_meta
    if scalar and value.dtype.name == "int64" and not value.requires_grad:
        return Number0d(int(value), value)
    return value


class StateReader:
    """Reads the pickles of an archive.

    unit: the code, whose classes the pickle may make; None for pickles of values alone
    """

    def __init__(self, unit: Unit | None) -> None:
        self.unit = unit
        self.parameters: dict[int, Parameter] = {}

    def run(self, archive: ArchiveReader, name: str, map_location: MapLocation) -> Any:
        """The object of `NAME.pkl`, whose tensors lie in the folder `NAME`."""
        storages = StorageLoader(archive, map_location, False, folder=name)
        data = archive.read(f"{name}.pkl")

        def storage(identity: Any) -> Any:
            # Until PyTorch 1.4 a sixth item said of which storage this was a part: of none.
            former = type(identity) is tuple and len(identity) == 6 and identity[5] is None
            return storages(identity[:5] if former else identity)

        return Interpreter(data, ArchiveNames(self), storage).run()

    def set_state(self, instance: Any, state: Any) -> None:
        """Fill an object of the archive: by `__setstate__` if the class has that."""
        kind = instance.kind if isinstance(instance, ScriptObject) else instance._kind
        if "__setstate__" in kind.methods:
            if isinstance(instance, ArchiveModule):
                instance._values.update(dict.fromkeys(kind.fields))
            kind.method("__setstate__").call([instance, state], {})
            if isinstance(instance, ArchiveModule):
                values, instance.__dict__["_values"] = instance._values, {}
                fill(instance, values, self.parameters)
            return
        if type(state) is not dict or not all(type(name) is str for name in state):
            raise CheckpointError("load: the attributes of a module are no dict")
        if isinstance(instance, ArchiveModule):
            fill(instance, state, self.parameters)
        else:
            instance.fields.update(state)


class ArchiveNames(Names):
    """The names of an archive's pickles: of values, lists, and classes of the archive."""

    def __init__(self, reader: StateReader) -> None:
        super().__init__(_meanings())
        self.reader = reader

    def lookup(self, module: str, name: str) -> Any:
        """The object of a name. Raises UnsafeName for a name that is not on the list."""
        path = full_name(module, name)
        unit = self.reader.unit
        if unit is not None and path in unit.nodes:
            kind = unit.find(path)
            if isinstance(kind, ArchiveClass):
                return kind
        meaning = self.allowed.get(path)
        if path.startswith("__torch__.torch.classes.") or path in QUANTISED:
            raise UnsafeName(
                f"torch.jit.load: the archive holds {path.rpartition('.')[2]}, weights packed for "
                "PyTorch's own kernels (quantised or for mobile devices), which Wend does not "
                "read; save the model before the packing"
            )
        if meaning is None:
            raise UnsafeName(
                f"torch.jit.load: the file asks for {path[:200]}, which no archive needs that "
                "Wend can run; nothing was executed"
            )
        return meaning.value

    def call(self, function: Any, arguments: tuple[Any, ...]) -> Any:
        """A call: an enum's member or a named tuple, or a function of the list."""
        if isinstance(function, ArchiveClass):
            return function.call(list(arguments))
        return super().call(function, arguments)

    def arguments(self, function: Any, value: Any) -> Any:
        """The arguments of a call; of an enum the value alone is written."""
        if isinstance(function, ArchiveClass) and function.base == "Enum":
            return (value,)
        return super().arguments(function, value)

    def new(self, cls: object, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """A new module or object, without attributes."""
        if isinstance(cls, ArchiveClass) and not arguments and not keywords:
            if cls.base == "Module":
                return ArchiveModule(cls)
            if not cls.base:
                return ScriptObject(cls)
        raise CheckpointError("load: the file makes an object of no class of the archive")

    def build(self, instance: object, state: object) -> None:
        """Set the attributes of an object of the archive."""
        if isinstance(instance, (ArchiveModule, ScriptObject)):
            self.reader.set_state(instance, state)
        else:
            super().build(instance, state)


def _restored(value: Any, kind: Any) -> Any:
    """A container whose type is written beside: `Dict[str, int]`."""
    if not isinstance(value, (list, dict)) or type(kind) is not str:
        raise CheckpointError("load: a container with a type is no container")
    return value


def _list_of(items: Any) -> list[Any]:
    if type(items) is not list:
        raise CheckpointError("load: a list is made of something else than a list")
    return items


def _meanings() -> Mapping[str, Meaning]:
    """The names of values in an archive."""
    table = dict(default_meanings())
    for name in LISTS:
        table[f"torch.jit._pickle.build_{name}"] = Meaning(_list_of, _list_of)
    table["torch.jit._pickle.restore_type_tag"] = Meaning(_restored, _restored)
    return table
