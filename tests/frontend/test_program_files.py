"""Files of programs are data: what Wend cannot have written is refused before any rule runs."""

import io
import json

import numpy as np
import pytest

import wend as torch
from wend import nn
from wend._engine.base.errors import FormatError
from wend._engine.core.symbolic import power
from wend.serialization import safetensors


class Steps(nn.Module):
    """A loop, a buffer, a random number, a number that is read, a branch."""

    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(3, 4)
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        self.calls.add_(1)
        h = torch.zeros(1, 4)
        for row in x:
            h = self.cell(row[None], h * 2)
        if h.sum() > 0:
            h = h * h.max().item()
        return h + torch.rand(4), x.shape[0]


@pytest.fixture(scope="module")
def valid():
    torch.manual_seed(0)
    file = io.BytesIO()
    torch.export.save(torch.export.export(Steps(), (torch.randn(5, 3),)), file)
    return file.getvalue()


def items(document, kind):
    """The items of a kind, of all stretches."""
    stretches = [s for point in document["points"] for s in point["answers"]]
    return [item for found, _ in stretches for item in found if item[0] == kind]


def ends(document, kind):
    stretches = [s for point in document["points"] for s in point["answers"]]
    return [end for _, end in stretches if end[0] == kind]


def op(document, name):
    return next(item for item in items(document, "apply") if item[1] == name)


def with_number(document):
    """An op whose form has a number."""
    return next(x for x in items(document, "apply") if '"N"' in json.dumps(x[3]))


def entry_of_number(document):
    return next(e for e in with_number(document)[3]["tuple"] if type(e) is dict)


def a_tensor_twice(document):
    document["inputs"].append(document["inputs"][0])


def a_value_before_it_is_made(document):
    stretch = document["points"][0]["answers"][0][0]
    later = [i for item in stretch if item[0] == "apply" for i in item[5]][-1]
    next(item for item in stretch if item[0] == "apply" and item[4])[4][0] = later


def a_value_of_one_branch(document):
    """What one answer makes, as the result of the other one."""
    for point in document["points"][1:]:
        for a, b in ((0, 1), (1, 0)):
            made = [i for item in point["answers"][a][0] if item[0] == "apply" for i in item[5]]
            end = point["answers"][b][1]
            if made and end[0] in ("go", "give"):
                if end[0] == "give":
                    end[1][0] = ["value", made[-1]]
                else:
                    end[2][0] = made[-1]
                return
    raise AssertionError("no question leads to ops")


DAMAGES = {
    "a form without content": lambda d: entry_of_number(d).update(tuple=[]),
    "a form of one letter": lambda d: entry_of_number(d).update(tuple=["N"]),
    "a form of another letter": lambda d: entry_of_number(d).update(tuple=["S", 2]),
    "a form of a strange category": lambda d: entry_of_number(d).update(tuple=["N", 9]),
    "a form of a bool": lambda d: entry_of_number(d).update(tuple=["N", True]),
    "a form of two entries": lambda d: with_number(d)[3]["tuple"].append("T"),
    "a form that is a text": lambda d: with_number(d).__setitem__(3, "TN"),
    "a number too few": lambda d: with_number(d)[6].pop(),
    "an operand too few": lambda d: with_number(d)[4].pop(),
    "an operand that is a number": lambda d: op(d, "add")[4].__setitem__(
        0, (items(d, "read") + items(d, "draw"))[0][1]
    ),
    "an unknown attribute": lambda d: op(d, "add")[2].update(dim=1),
    "an attribute that is missing": lambda d: op(d, "full")[2].popitem(),
    "an attribute of another kind": lambda d: op(d, "select")[2].update(dim="0"),
    "an attribute beyond 64 bits": lambda d: op(d, "select")[2].update(dim=1 << 63),
    "a size that is a bool": lambda d: op(d, "full")[6].__setitem__(0, True),
    "an op of users": lambda d: op(d, "add").__setitem__(1, "user_function"),
    "a result of another dtype": lambda d: d["info"][str(op(d, "add")[5][0])].__setitem__(
        1, "float16"
    ),
    "a result of another rank": lambda d: d["info"].__setitem__(
        str(op(d, "add")[5][0]), [[1], "float32", [1]]
    ),
    "a result too many": lambda d: op(d, "add")[5].append(10**6),
    "an axis beyond the rank": lambda d: d["info"][str(d["inputs"][0])][0].__setitem__(
        0, ["dim", d["inputs"][0], 7]
    ),
    "a negative axis": lambda d: d["info"][str(d["inputs"][0])][0].__setitem__(
        0, ["dim", d["inputs"][0], -1]
    ),
    "a size of 2**62": lambda d: d["info"][str(d["inputs"][0])][2].__setitem__(0, 1 << 62),
    "a negative size": lambda d: d["info"][str(d["inputs"][0])][2].__setitem__(0, -1),
    "an id that is negative": lambda d: op(d, "add")[4].__setitem__(0, -1),
    "an id that is a bool": lambda d: op(d, "add")[4].__setitem__(0, True),
    "an id that is a float": lambda d: op(d, "add")[4].__setitem__(0, 1.0),
    "a value before it is made": a_value_before_it_is_made,
    "a value of one branch": a_value_of_one_branch,
    "an input twice": a_tensor_twice,
    "no points": lambda d: d.update(points=[]),
    "a point without a way": lambda d: d["points"].append(d["points"][1]),
    "a way back to the entry": lambda d: ends(d, "go")[0].__setitem__(1, 0),
    "a way with a value too few": lambda d: ends(d, "go")[0][2].pop(),
    "a result too few": lambda d: ends(d, "give")[0][1].pop(),
    "a write to a result": lambda d: ends(d, "give")[0].__setitem__(
        3, [[op(d, "add")[5][0], d["inputs"][0]]]
    ),
    "a write of another dtype": lambda d: ends(d, "give")[0][3][0].__setitem__(1, d["inputs"][0]),
    "a write to nothing": lambda d: ends(d, "give")[0][3][0].__setitem__(0, 10**6),
    "a named tuple of code": lambda d: ends(d, "give")[0].__setitem__(
        2, ["named", "x", ["a=print('run')", "b"], [None, None]]
    ),
    "a deep tree": lambda d: d.update(structure=json.loads("[" * 700 + "]" * 700)),
    "a tensor and a module of one name": lambda d: d["captured"][0].__setitem__(1, "calls.x"),
    "arguments that are a list": lambda d: d["structure"].__setitem__(0, "list"),
    "an argument too many": lambda d: d["constants"].update({"9": 1}),
    "a guard on a result": lambda d: d["guards"].append(
        ["eq", ["dim", op(d, "add")[5][0], 0], 1, True, ""]
    ),
    "a comparison that is none": lambda d: d["guards"].append(["add", 1, 1, True, ""]),
    "a division of one number": lambda d: with_number(d)[6].__setitem__(0, ["div", 1]),
    "a huge number": lambda d: with_number(d)[6].__setitem__(0, 10**400),
    "dims of nothing": lambda d: d["dims"].append({}),
    "a part that is missing": lambda d: d.pop("guards"),
}


def changed(data, change):
    metadata, tensors = safetensors.read_metadata(io.BytesIO(data)), safetensors.load(data)
    document = json.loads(metadata["wend.program"])
    change(document)
    metadata["wend.program"] = json.dumps(document)
    return safetensors.save(tensors, metadata)


@pytest.mark.parametrize("change", DAMAGES.values(), ids=DAMAGES)
def test_a_graph_that_wend_cannot_have_written_is_refused(valid, change, tmp_path):
    data = changed(valid, change)
    path = tmp_path / "changed.wend"
    path.write_bytes(data)
    for read in (torch.export.load, torch.jit.load):
        with pytest.raises(FormatError, match=r"export\.load: the file is damaged"):
            read(io.BytesIO(data))
    for kernels in (False, True):
        with pytest.raises(FormatError, match=r"export\.load: the file is damaged"):
            torch.load_session(path, kernels=kernels)


def test_a_text_that_is_no_graph_is_refused(valid):
    metadata, tensors = safetensors.read_metadata(io.BytesIO(valid)), safetensors.load(valid)
    for text, words in (
        ('{"a": NaN}', "no number of JSON"),
        ('{"a": 1, "a": 2}', "a name stands twice"),
        ("[1", "no JSON"),
        ('{"version": ' + "9" * 5000 + "}", "no JSON"),
        ("[]", "no table"),
        ('{"version": true}', "version True of the format"),
    ):
        data = safetensors.save(tensors, {**metadata, "wend.program": text})
        with pytest.raises(FormatError, match=words):
            torch.export.load(io.BytesIO(data))


def test_a_file_that_was_not_changed_runs(valid):
    program = torch.export.load(io.BytesIO(changed(valid, lambda document: None)))
    h, n = program.module()(torch.randn(7, 3))
    assert h.shape == (1, 4) and n == 7


def test_bytes_of_bools_are_0_or_1_in_memory():
    data = safetensors.save({"b": torch.zeros(4, dtype=torch.bool)})[:-4] + bytes([0, 1, 2, 255])
    found = safetensors.load(data)["b"].numpy()
    assert found.view(np.uint8).tolist() == [0, 1, 1, 1]


def test_powers_of_sizes_are_bounded():
    assert power(3, 4) == 81 and power(2.0, 0.5) == 2.0**0.5 and power(5, -1) == 0.2
    with pytest.raises(ValueError, match="to the power of"):
        power(9, 9**9)


def test_ops_that_ask_nothing_of_sizes_do_so_in_files():
    """Ops of gradient rules trust their sizes, and a file is not trusted."""
    file = io.BytesIO()
    program = torch.export.export(lambda x: x.expand(2, 4) * 2, (torch.ones(1, 4),))
    torch.export.save(program, file)

    def trusting(document):
        op(document, "expand")[1] = "reshape_to"

    with pytest.raises(
        FormatError, match=r"reshape: shape '\[2, 4\]' is invalid for input of size 4"
    ):
        torch.export.load(io.BytesIO(changed(file.getvalue(), trusting)))
