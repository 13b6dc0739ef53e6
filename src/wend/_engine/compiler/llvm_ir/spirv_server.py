"""A process that translates modules to SPIR-V, each in a process of its own. Run by its path.

LLVM's generator for SPIR-V keeps numbers of blocks from one module to the next, by the addresses of
functions that are gone. So a process can translate a single module; and the process ends where the
generator meets an unknown instruction.

    python spirv_server.py FOLDER       # the folder that holds llvmlite

Requests and answers begin with the number of bytes that follow, in 8 bytes. A request is LLVM's
text. An answer is a byte, 1 if all went well, and the module or the message of an error.
"""

from __future__ import annotations

import os
import struct
import sys
from typing import Any

NUMBER = struct.Struct("<q")


def translated(binding: Any, text: str) -> bytes:
    """Return the answer to a request."""
    try:
        module = binding.parse_assembly(text)
        target = binding.Target.from_triple(module.triple)
        return b"\1" + bytes(target.create_target_machine(opt=0).emit_object(module))
    except RuntimeError as fault:  # the asker raises
        return b"\0" + str(fault).encode()


def in_child(binding: Any, text: str) -> bytes:
    """Return the answer to a request, from a process that ends with it."""
    source, sink = os.pipe()
    child = os.fork()
    if not child:
        os.close(source)
        with os.fdopen(sink, "wb") as pipe:
            pipe.write(translated(binding, text))
        os._exit(0)
    os.close(sink)
    with os.fdopen(source, "rb") as pipe:
        answer = pipe.read()
    status = os.waitpid(child, 0)[1]
    return answer if answer and not status else b"\0the generator for SPIR-V has ended"


def main(folder: str) -> None:
    """Answer requests until there are no more."""
    sys.path.insert(0, folder)
    from llvmlite import binding

    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    while head := requests.read(NUMBER.size):
        text = requests.read(*NUMBER.unpack(head)).decode()
        several = hasattr(os, "fork")
        answer = (in_child if several else translated)(binding, text)
        answers.write(NUMBER.pack(len(answer)) + answer)
        answers.flush()
        if not several:
            return


if __name__ == "__main__":
    main(sys.argv[1])
