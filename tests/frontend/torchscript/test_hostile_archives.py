"""Archives that PyTorch has not written: nothing of them is executed, and nothing grows."""

import io
import zipfile

import pytest

import wend
from wend.errors import FormatError

HEAD = """class M(Module):
  __parameters__ = []
  __buffers__ = []
  training : bool
"""
FORWARD = "  def forward(self: __torch__.M, x: Tensor) -> Tensor:\n"
#: An object of class M whose attribute `training` is True.
STATE = b"\x80\x02c__torch__\nM\n)\x81}(X\x08\x00\x00\x00trainingq\x01\x88ub."


def archive(code=None, state=STATE, constants=b"\x80\x02).", version=b"3", **more):
    """A file with the class M."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        file.writestr("m/data.pkl", state)
        file.writestr(
            "m/code/__torch__.py", HEAD + FORWARD + "    return x\n" if code is None else code
        )
        file.writestr("m/constants.pkl", constants)
        file.writestr("m/version", version)
        for name, content in more.items():
            file.writestr(f"m/{name.replace('__', '/')}", content)
    buffer.seek(0)
    return buffer


def body(*lines):
    """The class M whose forward has these lines."""
    return HEAD + FORWARD + "".join(f"    {line}\n" for line in lines)


def loaded(*lines):
    return wend.jit.load(archive(body(*lines)))


def test_an_archive_written_by_hand_runs():
    module = loaded("y = torch.add(x, 1)", "return torch.mul(y, 2.)")
    assert module(wend.ones(2)).tolist() == [4.0, 4.0]
    assert module.training


@pytest.mark.parametrize(
    "line",
    [
        "import os",
        "from os import system",
        "return __import__('os')",
        "return eval('1')",
        "return exec('1')",
        "return open('/etc/passwd')",
        "return compile('1', '', 'eval')",
        "return globals()",
        "return [y for y in x]",
        "return lambda: x",
        "return x + 1",
        "return x @ x",
        "return not x",
        "return x if x and x else x",
        "y: int",
        "del x",
        "try:\n      pass\n    except:\n      pass",
        "yield x",
        "global x",
        "return f'{x}'",
        "return print(*x)",
        "return torch.add(**x)",
        "return CONSTANTS.c5",
        "return CONSTANTS.c99999999999999999999",
        "return y",
        "return __torch__.os.system('true')",
        "return annotate(__import__('os'), x)",
        "x[0] = 1",
        "y = z = x",
        "@x\n    def f():\n      pass",
        "def f(a):\n      pass",
        "class C:\n      pass",
        "return " + "(" * 100 + "x" + ")" * 100,
        "return " + "[" * 5000 + "]" * 5000,
        "return x" + ".a" * 5000,
        "return " + "-" * 50_000 + "1",
        "\x00",
        "return x`",
        "return 'a\n",
    ],
)
def test_what_is_no_torchscript_is_refused_at_load(line):
    with pytest.raises(FormatError):
        loaded(line)


def test_deep_blocks_are_refused():
    lines = ["  " * i + "if True:" for i in range(99)] + ["  " * 99 + "pass"]
    with pytest.raises(FormatError, match=r"deep|no TorchScript"):
        loaded(*lines)


@pytest.mark.parametrize(
    "line",
    [
        "return x.__class__",
        "return getattr(x, '__class__')",
        "return self.__class__",
        "return self.__dict__",
        "return self.forward",
        "return self._modules",
        "return (self).load_state_dict(x)",
        "return (x).numpy()",
        "return (x).__reduce__()",
        "return ((x).tolist()).__class__",
        "return torch.format.__globals__",
        "return ('{0.__class__}').format(x)",
        "y = torch.append([], 1)\n    return y.__class__",
        "return torch.keys(x)",
        "return torch.format(self)",
        "return torch.as_strided(x, [1000], [1], 0)",
        "return (__torch__.M).__init__",
        "return (__torch__.M)(x)",
        "return __torch__.M.__new__(__torch__.M)",
        "self.fresh = x",
        "self.__class__ = x",
        "x.data = x",
    ],
)
def test_attributes_of_python_are_out_of_reach(line):
    try:
        module = loaded(line)
    except FormatError:
        return
    with pytest.raises((RuntimeError, TypeError, ValueError)) as caught:
        module(wend.ones(2))
    assert isinstance(caught.value, wend.errors.WendError)


@pytest.mark.parametrize(
    "op",
    [
        "torch.load('x')",
        "torch.save(x, 'x')",
        "torch.from_file('/etc/passwd', False, 10)",
        "torch.compile(x)",
        "torch.ops(x)",
        "torch.hub(x)",
        "torch.__builtins__(x)",
        "torch.set_num_threads(1)",
        "torch.seed()",
        "ops.os.system('true')",
        "ops.prim.PythonOp(x)",
        "ops.wend.anything(x)",
        "torch.jit.load('x')",
    ],
)
def test_ops_that_are_not_on_the_list_are_not_there(op):
    try:
        module = loaded(f"return {op}")
    except FormatError:
        return
    with pytest.raises((NotImplementedError, FormatError, TypeError)):
        module(wend.ones(2))


def test_formats_do_not_reach_attributes():
    module = loaded("return torch.format('{0.__class__} {}', x, 1)")
    assert "class" in module(wend.ones(1))  # the text, as it stands
    with pytest.raises(ValueError, match="width"):
        loaded("return torch.percentFormat('%999999999d', 1)")(wend.ones(1))


def test_code_that_calls_itself_ends():
    code = HEAD + FORWARD + "    return (self).forward(x, )\n"
    with pytest.raises(FormatError, match="calls itself"):
        wend.jit.load(archive(code))(wend.ones(1))


@pytest.mark.parametrize(
    "state",
    [
        b"\x80\x02cposix\nsystem\nX\x04\x00\x00\x00true\x85R.",
        b"\x80\x02cbuiltins\neval\nX\x01\x00\x00\x001\x85R.",
        b"\x80\x02c__torch__\nN\n)\x81.",
        b"\x80\x02c__torch__\nM\n(X\x01\x00\x00\x00ato.",
        b"\x80\x02c__torch__\nM\n)\x81]b.",
        b"\x80\x02c__torch__\nM\n)\x81}(K\x01K\x02ub.",
        b"\x80\x02c__torch__\nM\nX\x01\x00\x00\x00a\x85\x81.",
        b"\x80\x02K\x01.",
        b"\x80\x02ctorch.jit._pickle\nbuild_intlist\nK\x01\x85R.",
        b"\x80\x02" + b"(" * 5000 + b".",
        b"",
        b"\x80\x02X\xff\xff\xff\x7fa.",
    ],
)
def test_hostile_pickles_are_refused(state):
    with pytest.raises(FormatError):
        wend.jit.load(archive(state=state))


def test_attributes_of_a_file_do_not_shadow_those_of_modules():
    for name in ("forward", "parameters", "_modules", "__class__", "_kind"):
        text = name.encode()
        state = (
            b"\x80\x02c__torch__\nM\n)\x81}(X"
            + len(text).to_bytes(4, "little")
            + text
            + b"K\x01ub."
        )
        module = wend.jit.load(archive(state=state))
        assert list(module.parameters()) == []
        assert module(wend.ones(2)).tolist() == [1.0, 1.0]


def test_compressed_code_cannot_grow():
    buffer = archive(body("return x"))
    with zipfile.ZipFile(buffer, "a", zipfile.ZIP_DEFLATED) as file:
        file.writestr("m/code/__torch__/big.py", b"\n" * (80 << 20))
    buffer.seek(0)
    with pytest.raises(FormatError, match="larger than code may be"):
        wend.jit.load(buffer)


def test_sizes_that_lie_are_seen():
    content = archive(body("return x"))
    with zipfile.ZipFile(content, "a", zipfile.ZIP_DEFLATED) as file:
        file.writestr("m/code/__torch__/a.py", b"\n" * 1000)
    data = bytearray(content.getvalue())
    at = data.rindex(b"PK\1\2")
    data[at + 24 : at + 28] = (500).to_bytes(4, "little")
    with pytest.raises(FormatError, match="another size"):
        wend.jit.load(io.BytesIO(bytes(data)))


@pytest.mark.parametrize("version", [b"x", b"-1", b"99999999999", b""])
def test_odd_versions_are_refused(version):
    with pytest.raises(FormatError, match="version"):
        wend.jit.load(archive(version=version))


def test_other_archives_are_named():
    for names, words in (
        (["a/model.json"], "before PyTorch 1.2"),
        (["a/.data/extern_modules"], r"torch\.package"),
        (["a/readme"], "no TorchScript"),
    ):
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as file:
            for name in names:
                file.writestr(name, b"x")
        buffer.seek(0)
        with pytest.raises(FormatError, match=words):
            wend.jit.load(buffer)


def test_programs_of_older_versions_mean_what_they_meant():
    lines = ("y = torch.div(torch.tensor([7, -7]), 2)", "return y")
    assert wend.jit.load(archive(body(*lines), version=b"3"))(wend.ones(1)).tolist() == [3, -3]
    newer = wend.jit.load(archive(body(*lines), version=b"4"))
    assert newer(wend.ones(1)).tolist() == [3.5, -3.5]
    full = "return torch.full([2], 3)"
    assert wend.jit.load(archive(body(full), version=b"3"))(wend.ones(1)).dtype is wend.float32
    assert wend.jit.load(archive(body(full), version=b"9"))(wend.ones(1)).dtype is wend.int64
    head = "op_version_set = 1\nimport __torch__.torch.nn\n"
    assert wend.jit.load(archive(head + body("return x")))(wend.ones(1)).tolist() == [1.0]
