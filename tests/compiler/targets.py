"""Processors of the host's kind that can do less: their code runs here as well."""

from wend._engine.compiler.llvm_ir import jit


def targets():
    """[(name, target)] of what this machine can run."""
    host = jit.host()
    found = [("host", host)]
    if host.triple.startswith("x86_64"):
        if host.has("avx512f"):
            words = "+avx,+avx2,+fma,+f16c,+bmi2,+sse4.2"
            found.append(("avx2", jit.Target(host.triple, "haswell", words)))
        found.append(("oldest", jit.Target(host.triple, "x86-64", "")))
    return found
