"""A plain loop around a rule's instructions: what the tests of generated code run."""

import ctypes

import numpy as np

from wend.base import dtypes
from wend.compiler import llvm
from wend.compiler.instructions import Faults, Value, VectorBuilder
from wend.compiler.text import Module, Text


def kernel(rule, ins, lanes, target=None):
    """(text, dtype of the result, messages) of a loop over n elements.

    rule(b, *values) -> value; ins: dtypes of the operands. Arguments of the kernel: the operands'
    pointers, the result's, n, and a pointer to the word of failures. The rest is done one by one.
    """
    target = target or llvm.host()
    module, text, faults = Module(), Text(), Faults()
    found = []

    def loop(name, lanes, start, end):
        """for i = start; i + lanes <= end; i += lanes; the last i."""
        b = VectorBuilder(text, module, lanes, target, faults)
        text.line(f"br label %{name}.in")
        text.label(f"{name}.in")
        text.line(f"br label %{name}.head")
        text.label(f"{name}.head")
        at = len(text.lines)
        i = text.fresh("i")
        past = text.let(f"add i64 {i}, {lanes}")
        more = text.let(f"icmp sle i64 {past}, {end}")
        text.line(f"br i1 {more}, label %{name}.body, label %{name}.end")
        text.label(f"{name}.body")
        values = []
        for k, dtype in enumerate(ins):
            size = dtype.itemsize
            offset = text.let(f"mul i64 {i}, {size}")
            values.append(b.load(text.let(f"getelementptr i8, ptr %x{k}, i64 {offset}"), dtype))
        result = rule(b, *values)
        offset = text.let(f"mul i64 {i}, {result.dtype.itemsize}")
        b.store(result, text.let(f"getelementptr i8, ptr %y, i64 {offset}"))
        text.line(f"br label %{name}.last")
        text.label(f"{name}.last")
        text.line(f"br label %{name}.head")
        text.label(f"{name}.end")
        text.lines.insert(at, f"  {i} = phi i64 [{start}, %{name}.in], [{past}, %{name}.last]")
        found.append(result.dtype)
        return i

    reached = loop("many", lanes, "0", "%n") if lanes > 1 else "0"
    loop("one", 1, reached, "%n")
    faults.leave(text, "%word")
    pointers = ", ".join(f"ptr %x{k}" for k in range(len(ins)))
    full = (
        f"define void @kernel({pointers}{', ' * bool(ins)}ptr %y, i64 %n, ptr %word) {{\n"
        f"entry:\n{faults.entry()}\n{text.render()}\n  ret void\n}}\n\n{module.render()}"
    )
    return full, found[-1], faults.messages


_compiled = {}


def compiled(rule, ins, lanes, target=None, key=None):
    """(function, dtype of the result, messages), remembered under `key`."""
    if key is not None and (key, lanes, target) in _compiled:
        return _compiled[key, lanes, target]
    text, out, messages = kernel(rule, ins, lanes, target)
    library = llvm.compile_module(text, ["kernel"], target)
    pointers = [ctypes.c_void_p] * (len(ins) + 1)
    function = library.function("kernel", *pointers, ctypes.c_int64, ctypes.c_void_p)
    if key is not None:
        _compiled[key, lanes, target] = function, out, messages
    return function, out, messages


def run(rule, arrays, lanes, target=None, key=None):
    """(result, the messages of what failed) of a rule on arrays that broadcast."""
    ins = [dtypes.from_numpy(a.dtype) for a in arrays]
    function, out, messages = compiled(rule, ins, lanes, target, key)
    shape = np.broadcast_shapes(*(a.shape for a in arrays))
    flat = [np.ascontiguousarray(np.broadcast_to(a, shape)) for a in arrays]
    result = np.empty(shape, out.numpy)
    word = np.zeros(1, np.uint64)
    function(*(a.ctypes.data for a in flat), result.ctypes.data, result.size, word.ctypes.data)
    failed = [m for i, m in enumerate(messages) if int(word[0]) >> i & 1]
    return result, failed


__all__ = ["Value", "compiled", "kernel", "run"]
