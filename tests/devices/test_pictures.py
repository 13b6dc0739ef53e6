"""Graphs show where each op ran: the device of each value, and ops that the processor computed."""

import pytest

import wend as torch
from tries import own_trie
from wend import nn
from wend._frontend.seeing.page import data_of
from wend._frontend.seeing.visible import caption, hint

pytestmark = pytest.mark.usefixtures("accelerator")


@pytest.fixture(scope="module")
def graph():
    """A step with a copy to the device, a decomposition, which has no kernel, and a way back."""
    layer = nn.Linear(8, 4).to("xpu")

    def step(x):
        y = torch.linalg.qr(torch.tanh(layer(x.to("xpu")))).Q
        loss = (y * 2).cpu().square().sum()
        loss.backward()
        return loss

    with own_trie():
        yield torch.debug.graph(step, torch.ones(6, 8))


def test_values_have_devices(graph):
    (leaf,) = graph.find(name="input 0")
    assert leaf.device == "cpu"
    assert {n.device for n in graph.find("linear")} == {"xpu:0"}
    assert {n.device for n in graph.find(name="Linear.weight")} == {"xpu:0"}
    there, back = graph.find("to_device", phase="forward")
    assert (there.device, back.device) == ("xpu:0", "cpu")
    assert {n.device for n in graph.find("square")} == {"cpu"}
    assert {n.device for n in graph.find("linear_backward")} == {"xpu:0"}
    assert {n.device for n in graph.find("square_backward")} == {"cpu"}


def test_host_steps_are_marked(graph):
    (decomposition,) = graph.find("linalg_qr")
    assert "LAPACK" in decomposition.on_host
    assert decomposition.where == "host for xpu:0"
    assert [n.op for n in graph if n.on_host] == ["linalg_qr", "linalg_qr_backward"]
    assert caption(decomposition).mark == "host"
    assert "on the host: the work is a call of a library" in hint(decomposition)
    assert [row for row in graph.table(None).splitlines() if "host for xpu:0" in row]


def test_boxes_tell_the_device(graph):
    (tanh,) = graph.find("tanh")
    assert caption(tanh).below == "float32[6, 4] · xpu:0"
    assert caption(tanh).mark == ""
    (square,) = graph.find("square")
    assert caption(square).below == "float32[6, 4]"


def test_files_have_it(graph, tmp_path):
    for end in ("svg", "dot", "html", "txt"):
        graph.save(tmp_path / f"step.{end}")
        text = (tmp_path / f"step.{end}").read_text()
        assert "xpu:0" in text
        assert "host for xpu:0" in text


def test_the_page_has_columns(graph):
    data = data_of(graph)
    words = data["texts"]
    assert {words[k] for k in data["where"]} == {"cpu", "xpu:0", "host for xpu:0"}
    assert sum(bool(words[k]) for k in data["host"]) == 2


def test_without_a_device_there_is_one_value():
    data = data_of(torch.debug.graph(lambda x: torch.tanh(x).sum(), torch.ones(3)))
    assert data["texts"][data["where"]] == "cpu"
    assert data["texts"][data["host"]] == ""
