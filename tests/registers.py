"""A pytest plugin: generate code for vector registers that this processor does not have.

PYTHONPATH=tests python -m pytest -p registers tests/compiler

What a program becomes depends on the registers: loops, tiles, masks, packing. With AVX2 alone, code
is generated as for AVX-512; with AVX-512, as for AVX2. LLVM then makes it of what is here. The few
instructions of AVX-512 that are asked for by name become functions of this file, which say what
they do in plain terms: slowly, but with the same results. Other processors keep their own code.
"""

import re

import llvmlite.binding as binding

from wend._engine.compiler.llvm_ir import jit, ready_objects

AVX512 = ("avx512f", "avx512vl", "avx512bw", "avx512dq", "avx512cd")
NAMED = re.compile(r"@llvm\.x86\.avx512\.([\w.]+)\(")


def scaled(kind, lanes, size):
    """x * 2 ** n of whole n."""
    most, words = f"<{lanes} x {kind}>", f"<{lanes} x i32>"
    suffix = f"v{lanes}f{size}"
    high, low = (", ".join([f"{kind} {sign}4.0e+3"] * lanes) for sign in ("", "-"))
    rounding = ", i32 %how" if lanes * size == 512 else ""
    return f"""
define internal {most} @NAME({most} %x, {most} %n, {most} %o, i{max(lanes, 8)} %m{rounding}) {{
  %below = call {most} @llvm.minnum.{suffix}({most} %n, {most} <{high}>)
  %inside = call {most} @llvm.maxnum.{suffix}({most} %below, {most} <{low}>)
  %power = fptosi {most} %inside to {words}
  %y = call {most} @llvm.ldexp.{suffix}.v{lanes}i32({most} %x, {words} %power)
  ret {most} %y
}}
"""


def estimated(lanes):
    """1 / x, with 14 of its digits."""
    kind, words = f"<{lanes} x float>", f"<{lanes} x i32>"
    ones, digits = ", ".join(["float 1.0"] * lanes), ", ".join(["i32 -1024"] * lanes)
    return f"""
define internal {kind} @NAME({kind} %x, {kind} %o, i{max(lanes, 8)} %m) {{
  %y = fdiv {kind} <{ones}>, %x
  %bits = bitcast {kind} %y to {words}
  %cut = and {words} %bits, <{digits}>
  %z = bitcast {words} %cut to {kind}
  ret {kind} %z
}}
"""


def permuted():
    """Elements of two vectors, by the last five bits of their places in both."""
    order = ", ".join(f"i32 {k}" for k in range(32))
    kind, made = "<16 x i32>", "poison"
    lines = [f"%both = shufflevector {kind} %a, {kind} %b, <32 x i32> <{order}>"]
    for k in range(16):
        lines += [
            f"%place{k} = extractelement {kind} %places, i32 {k}",
            f"%inside{k} = and i32 %place{k}, 31",
            f"%element{k} = extractelement <32 x i32> %both, i32 %inside{k}",
            f"%made{k} = insertelement {kind} {made}, i32 %element{k}, i32 {k}",
        ]
        made = f"%made{k}"
    lines = "\n  ".join([*lines, f"ret {kind} {made}"])
    return f"define internal {kind} @NAME({kind} %a, {kind} %places, {kind} %b) {{\n  {lines}\n}}\n"


def added_pairs(lanes, size, unsigned):
    """a * b of neighbours added, in elements of twice the size; bytes saturate there.

    lanes: of the result     size: bits of a factor     unsigned: whether those of `a` have no sign
    """
    factors, wide = f"<{2 * lanes} x i{size}>", f"<{2 * lanes} x i{4 * size}>"
    exact, result = f"<{lanes} x i{4 * size}>", f"<{lanes} x i{2 * size}>"
    even, odd = (", ".join(f"i32 {2 * k + part}" for k in range(lanes)) for part in (0, 1))
    most = (1 << (2 * size - 1)) - 1
    suffix = f"v{lanes}i{4 * size}"
    return f"""
define internal {result} @NAME({factors} %a, {factors} %b) {{
  %x = {"zext" if unsigned else "sext"} {factors} %a to {wide}
  %y = sext {factors} %b to {wide}
  %z = mul {wide} %x, %y
  %even = shufflevector {wide} %z, {wide} poison, <{lanes} x i32> <{even}>
  %odd = shufflevector {wide} %z, {wide} poison, <{lanes} x i32> <{odd}>
  %sum = add {exact} %even, %odd
  %below = call {exact} @llvm.smin.{suffix}({exact} %sum, {exact} splat (i{4 * size} {most}))
  %inside = call {exact} @llvm.smax.{suffix}({exact} %below, {exact} splat (i{4 * size} {~most}))
  %kept = trunc {exact} {"%inside" if unsigned else "%sum"} to {result}
  ret {result} %kept
}}
"""


def function(name):
    """What an instruction of AVX-512 does, as a function `NAME`."""
    *_, operation, kind, bits = name.split(".")
    size = 64 if kind == "pd" else 32
    if operation == "scalef":
        return scaled("double" if size == 64 else "float", int(bits) // size, size)
    if operation == "rcp14" and size == 32:
        return estimated(int(bits) // size)
    if name == "vpermi2var.d.512":
        return permuted()
    if name in ("pmaddubs.w.512", "pmaddw.d.512"):
        factor = 8 if operation == "pmaddubs" else 16
        return added_pairs(512 // (2 * factor), factor, unsigned=factor == 8)
    raise NotImplementedError(f"tests/registers.py does not know what {name} does")


def without_names(text):
    """A module that asks for no instruction of AVX-512."""
    for name in sorted(set(NAMED.findall(text))):
        theirs, own = f"@llvm.x86.avx512.{name}(", f"@plain.{name}("
        declared = rf"^declare .*{re.escape(theirs)}.*$"
        text = re.sub(declared, "", text, flags=re.M).replace(theirs, own)
        text += function(name).replace("@NAME(", own)
    return text


def pretend():
    """Let generated code be that for other registers."""
    here, features = jit.host(), binding.get_host_cpu_features()
    if not here.triple.startswith("x86_64") or not here.has("avx2"):
        return  # tests are about this processor's code
    narrow = here.has("avx512f")
    names = [name for name in features if name.startswith("avx512")] if narrow else AVX512
    features.update(dict.fromkeys(names, not narrow))
    jit.host.cache_clear()
    binding.get_host_cpu_features = lambda: features
    other = jit.host()
    assert other.vector_bytes == (32 if narrow else 64)
    if narrow:
        return
    machine, optimized, words = jit._machine, jit._optimized, jit._words

    def optimized_here(text, target):
        return optimized(*((without_names(text), here) if target == other else (text, target)))

    # Machine code that was brought along would be for registers that are not here. What is compiled
    # like this is kept on disk apart from what AVX-512 would run.
    ready_objects.FOLDER = ready_objects.FOLDER / "of-no-processor"
    jit._words = lambda target: ("other registers", *words(target))
    jit._machine = lambda target: machine(here if target == other else target)
    jit._optimized = optimized_here


pretend()
