"""A plain loop around a rule's instructions: what the tests of generated code run."""

import ctypes

import numpy as np

from wend._engine.base import dtypes
from wend._engine.compiler.codegen.instructions import VectorBuilder
from wend._engine.compiler.llvm_ir import jit
from wend._engine.compiler.llvm_ir.error_flags import Faults
from wend._engine.compiler.llvm_ir.text import Module, Text


def kernel(rule, ins, lanes, module, target):
    """(text, dtype of the result, messages) of a loop over n elements, n a multiple of lanes.

    rule(b, *values) -> value; ins: dtypes of the operands. Arguments of the kernel: the operands'
    pointers, the result's, n, and a pointer to the word of failures.
    """
    text, faults = Text(), Faults()
    b = VectorBuilder(text, module, lanes, target, faults)
    values = []
    for k, dtype in enumerate(ins):
        offset = text.let(f"mul i64 %i, {dtype.itemsize}")
        values.append(b.load(text.let(f"getelementptr i8, ptr %x{k}, i64 {offset}"), dtype))
    result = rule(b, *values)
    offset = text.let(f"mul i64 %i, {result.dtype.itemsize}")
    b.store(result, text.let(f"getelementptr i8, ptr %y, i64 {offset}"))
    after = Text()
    faults.leave(after, "%word")
    pointers = "".join(f"ptr %x{k}, " for k in range(len(ins)))
    full = f"""
define void @kernel{lanes}({pointers}ptr %y, i64 %n, ptr %word) {{
entry:
{faults.entry()}
  br label %head
head:
  %i = phi i64 [0, %entry], [%next, %last]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %body, label %end
body:
{text.render()}
  br label %last
last:
  %next = add i64 %i, {lanes}
  br label %head
end:
{after.render().replace("%v", "%after")}
  ret void
}}
"""
    return full, result.dtype, faults.messages


def text_of(rule, ins, lanes, target=None):
    """The module of the kernels for these numbers of lanes, and [(dtype, messages)]."""
    module = Module()
    made = [kernel(rule, ins, n, module, target or jit.host()) for n in lanes]
    return "\n".join([*(text for text, _, _ in made), module.render()]), [m[1:] for m in made]


_compiled = {}


def compiled(rule, ins, lanes, target=None, key=None):
    """[(function, dtype of the result, messages)], remembered under `key`."""
    if key is not None and (key, lanes, target) in _compiled:
        return _compiled[key, lanes, target]
    text, made = text_of(rule, ins, lanes, target)
    library = jit.compile_module(text, [f"kernel{n}" for n in lanes], target)
    types = [*[ctypes.c_void_p] * (len(ins) + 1), ctypes.c_int64, ctypes.c_void_p]
    found = [(library.function(f"kernel{n}", *types), *rest) for n, rest in zip(lanes, made)]
    if key is not None:
        _compiled[key, lanes, target] = found
    return found


def run_each(rule, arrays, lanes, target=None, key=None):
    """[(result, the messages of what failed)] of a rule, for each number of lanes."""
    ins = [dtypes.from_numpy(a.dtype) for a in arrays]
    shape = np.broadcast_shapes(*(a.shape for a in arrays))
    size = int(np.prod(shape))
    found = []
    for (function, out, messages), n in zip(compiled(rule, ins, lanes, target, key), lanes):
        padded = -(-size // n) * n  # by elements that are there anyway
        flat = [np.resize(np.broadcast_to(a, shape), padded) for a in arrays]
        result = np.empty(padded, out.numpy)
        word = np.zeros(1, np.uint64)
        function(*(a.ctypes.data for a in flat), result.ctypes.data, padded, word.ctypes.data)
        failed = [m for i, m in enumerate(messages) if int(word[0]) >> i & 1]
        found.append((result[:size].reshape(shape), failed))
    return found


def run(rule, arrays, lanes, target=None, key=None):
    """(result, the messages of what failed) of a rule on arrays that broadcast."""
    return run_each(rule, arrays, (lanes,), target, key)[0]
