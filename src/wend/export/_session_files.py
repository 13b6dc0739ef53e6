"""Files of sessions: a program's file that also holds names, and kernels as machine code.

docs/internals/program-files.md describes the format.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import zlib
from collections.abc import Mapping
from typing import Any

from wend._engine.base.dtypes import uint8
from wend._engine.base.errors import FormatError
from wend._engine.compiler.llvm_ir.offered_objects import Offer, signatures_of
from wend._engine.compiler.llvm_ir.user_key import user_key
from wend._engine.core import _hot
from wend._engine.core._hot import Tensor
from wend._frontend.creation import frombuffer
from wend._frontend.progress import ProgressLine
from wend._frontend.static.graph_runner import GraphRunner
from wend.export import _saving
from wend.export import _strict as strict
from wend.export._program import ExportedProgram

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
        from wend._engine.compiler.llvm_ir import jit

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
    from wend._engine.compiler.llvm_ir import jit

    plans = [function.plan for function in runner.functions()]
    plans = [plan for plan in plans if hasattr(plan, "advance")]
    with ProgressLine("session", "parts compiled", len(plans)) as line:
        for done, plan in enumerate(plans):
            while plan.compiled is None and not plan.hopeless:
                plan.advance()
                jit.drain()
                line.tell(done)
    return [plan.compiled for plan in plans if plan.compiled is not None]


def write(
    path: str | os.PathLike[str],
    exported: ExportedProgram,
    names: Mapping[str, list[str]],
    runner: GraphRunner,
    offer: Offer | None = None,
) -> None:
    """Write a session to a file.

    names: of inputs, outputs and arguments     runner: whose kernels are saved
    offer: the kernels that the session's own file has brought along
    """
    plans = compiled_parts(runner)
    document: dict[str, Any] = {"version": VERSION, **names}
    more: dict[str, Tensor] = {}
    secret = user_key() if plans else None
    if secret is not None:
        from wend._engine.compiler.llvm_ir import jit
        from wend._engine.runtime.compiled.plan import kernel_texts

        texts = {t: n for plan in plans for t, n in kernel_texts(plan.code).items()}
        packed = {k: zlib.compress(x) for k, x in jit.objects_of(texts, offer).items()}
        document["kernels"] = {
            "made_for": jit.description(),
            "objects": [[k, len(x), hashlib.sha256(x).hexdigest()] for k, x in packed.items()],
            "signatures": signatures_of(packed, secret),
        }
        more[OBJECTS] = frombuffer(bytearray(b"".join(packed.values())), dtype=uint8)
    text = json.dumps(document, separators=(",", ":"))
    _saving.write(exported, path, {KEY: text}, more)


def read(
    path: str | os.PathLike[str], kernels: bool
) -> tuple[ExportedProgram, dict[str, list[str]], SavedKernels]:
    """Return the program, the names, and the kernels in a file.

    kernels: whether to look at the machine code

    Raises FormatError.
    """
    exported, metadata, tensors = _saving.read(path)
    document = strict.parsed(metadata.get(KEY, f'{{"version": {VERSION}}}'))
    version = document.get("version")
    if type(version) is not int or version != VERSION:
        raise FormatError(
            f"load_session: the file is of version {strict.short(version)} of the format, and "
            f"this is a Wend that reads version {VERSION}"
        )
    names: dict[str, list[str]] = {
        key: [strict.text(name, f"one of the {key}") for name in strict.rows(document[key], key)]
        for key in ("inputs", "outputs", "arguments")
        if key in document
    }
    if not kernels:
        saved_kernels = SavedKernels("The file's kernels were left aside: kernels=False.")
    elif "kernels" not in document:
        saved_kernels = SavedKernels("There are no kernels in the file: they are made here.")
    else:
        saved_kernels = _kernels(
            strict.table(document["kernels"], "the kernels"), tensors.get(OBJECTS)
        )
    return exported, names, saved_kernels


def _kernels(told: Mapping[str, Any], tensor: Tensor | None) -> SavedKernels:
    """Return the kernels of a file, compared with the digests and the user's signatures."""
    if tensor is None or tensor.dtype is not uint8 or tensor.dim() != 1:
        raise strict.damaged("the machine code is no tensor of bytes")
    blob = _hot.ensure(_hot.refreshed(tensor)).tobytes()
    objects: dict[str, bytes] = {}
    at = 0
    for row in strict.rows(told.get("objects"), "the objects"):
        key, size, digest = strict.row(row, "an object", 3)
        packed = blob[at : at + strict.whole(size, "the size of an object")]
        at += size
        if hashlib.sha256(packed).hexdigest() != digest:
            raise FormatError(
                "load_session: the machine code in the file is damaged; kernels=False opens the "
                "file without it"
            )
        objects[strict.text(key, "the key of an object")] = packed
    made_for = {
        key: strict.text(x, "what kernels are made for")
        for key, x in strict.table(told.get("made_for"), "what kernels are made for").items()
    }
    if not _are_signed(objects, strict.rows(told.get("signatures", []), "the signatures")):
        return SavedKernels(
            "The kernels in the file are not signed by this user's key: kernels are made here."
        )
    return SavedKernels("", Offer(objects), made_for)


def _are_signed(objects: Mapping[str, bytes], signatures: list[Any]) -> bool:
    """Return whether each object has a signature by the key of this user."""
    secret = user_key() if signatures else None
    if secret is None or len(signatures) != len(objects):
        return False
    wanted = "".join(signatures_of(objects, secret))
    file_signatures = "".join([strict.text(x, "a signature") for x in signatures])
    return file_signatures.isascii() and hmac.compare_digest(wanted, file_signatures)
