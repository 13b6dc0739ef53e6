"""Files of sessions: a program's file that also holds names, and kernels as machine code.

docs/internals/program-files.md describes the format.
"""

from __future__ import annotations

import hashlib
import json
import os
import zlib
from collections.abc import Mapping
from typing import Any

from wend.base.dtypes import uint8
from wend.base.errors import FormatError
from wend.compiler.llvm_ir.offered_objects import Offer
from wend.core import _hot
from wend.core._hot import Tensor
from wend.export import _saving
from wend.export._program import ExportedProgram
from wend.frontend.creation import frombuffer
from wend.frontend.static.graph_runner import GraphRunner

__all__ = ["SavedKernels", "compiled_parts", "read", "write"]

KEY, VERSION = "wend.session", 1
OBJECTS = "wend.kernels"  # the tensor of all machine code


class SavedKernels:
    """The kernels that a file has brought along.

    reason: why there are no kernels     offer: the kernels, at the compiler's disposal
    made_for: processor, features and version of LLVM, as `jit.description` gives these
    """

    def __init__(
        self, reason: str, offer: Offer | None = None, made_for: Mapping[str, str] | None = None
    ) -> None:
        self.reason, self.offer, self.made_for = reason, offer, dict(made_for or {})

    def told(self) -> str:
        """Where the kernels come from, as text."""
        if self.offer is None:
            return self.reason
        from wend.compiler.llvm_ir import jit

        made_for, here = self.made_for, jit.description()
        count = f"{len(self.offer.objects)} kernels came with the file"
        for key, name in (("processor", "processor"), ("features", "set of instructions")):
            if made_for.get(key) != here[key]:
                lacking = set(made_for.get(key, "").split(",")) - set(here[key].split(","))
                return (
                    f"{count} for another {name} ({', '.join(sorted(lacking)) or 'unknown'}): "
                    "kernels are made here instead"
                )
        if made_for.get("llvm") != here["llvm"]:
            return f"{count}, made by another version of LLVM: kernels are made here instead"
        return f"{count} for this processor; {len(self.offer.taken)} are in use"


def compiled_parts(runner: GraphRunner) -> list[Any]:
    """Return the compiled plans of all parts, made if need be."""
    from wend.compiler.llvm_ir import jit

    plans = [function.plan for function in runner.functions()]
    plans = [plan for plan in plans if hasattr(plan, "advance")]
    for plan in plans:
        while plan.compiled is None and not plan.hopeless:
            plan.advance()
            jit.drain()
    return [plan.compiled for plan in plans if plan.compiled is not None]


def write(
    path: str | os.PathLike[str],
    exported: ExportedProgram,
    names: Mapping[str, list[str]],
    runner: GraphRunner,
) -> None:
    """Write a session to a file.

    names: of inputs, outputs and arguments     runner: whose kernels are saved
    """
    plans = compiled_parts(runner)
    document: dict[str, Any] = {"version": VERSION, **names}
    more: dict[str, Tensor] = {}
    if plans:
        from wend.compiler.llvm_ir import jit
        from wend.runtime.compiled.plan import kernel_texts

        texts = {t: n for plan in plans for t, n in kernel_texts(plan.recipe).items()}
        rows, blob = [], b""
        for key, found in jit.objects_of(texts).items():
            packed = zlib.compress(found)
            rows.append([key, len(packed), hashlib.sha256(packed).hexdigest()])
            blob += packed
        document["kernels"] = {"made_for": jit.description(), "objects": rows}
        more[OBJECTS] = frombuffer(bytearray(blob), dtype=uint8)
    text = json.dumps(document, separators=(",", ":"))
    _saving.write(exported, path, {KEY: text}, more)


def read(
    path: str | os.PathLike[str], kernels: bool
) -> tuple[ExportedProgram, dict[str, list[str]], SavedKernels]:
    """Return the program, the names, and the kernels in a file.

    kernels: whether to look at the machine code
    """
    exported, metadata, tensors = _saving.read(path)
    try:
        document = json.loads(metadata.get(KEY, f'{{"version": {VERSION}}}'))
        if document["version"] != VERSION:
            raise FormatError(
                f"load_session: the file is of version {document['version']} of the format, and "
                f"this is a Wend that reads version {VERSION}"
            )
        names = {
            key: [str(name) for name in document[key]]
            for key in ("inputs", "outputs", "arguments")
            if key in document
        }
        if not kernels:
            found = SavedKernels("The file's kernels were left aside: kernels=False.")
        elif "kernels" not in document:
            found = SavedKernels("There are no kernels in the file: they are made here.")
        else:
            found = _kernels(document["kernels"], tensors[OBJECTS])
    except FormatError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise FormatError(f"load_session: the file is damaged: {error!r}") from error
    return exported, names, found


def _kernels(rows: Mapping[str, Any], tensor: Tensor) -> SavedKernels:
    """Return the kernels of a file, compared with the digests."""
    blob = _hot.ensure(_hot.refreshed(tensor)).tobytes()
    objects: dict[str, bytes] = {}
    at = 0
    for key, size, digest in rows["objects"]:
        packed = blob[at : at + int(size)]
        at += int(size)
        if hashlib.sha256(packed).hexdigest() != digest:
            raise FormatError(
                "load_session: the machine code in the file is damaged; kernels=False opens the "
                "file without it"
            )
        objects[str(key)] = packed
    made_for = {str(key): str(x) for key, x in rows["made_for"].items()}
    return SavedKernels("", Offer(objects), made_for)
