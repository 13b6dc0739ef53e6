"""Processors of the host's kind that can do less: their code runs here as well."""

from wend.compiler.llvm_ir import jit as llvm


def targets():
    """[(name, target)] of what this machine can run."""
    host = llvm.host()
    found = [("host", host)]
    if host.triple.startswith("x86_64"):
        if host.has("avx512f"):
            words = "+avx,+avx2,+fma,+f16c,+bmi2,+sse4.2"
            found.append(("avx2", llvm.Target(host.triple, "haswell", words)))
        found.append(("oldest", llvm.Target(host.triple, "x86-64", "")))
    return found
