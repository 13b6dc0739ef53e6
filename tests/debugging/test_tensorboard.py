"""`wend.utils.tensorboard`: event files are read back, also by TensorBoard's own reader."""

from __future__ import annotations

import inspect
import io
import json
import struct
import subprocess
import sys
import wave
import zlib

import numpy as np
import pytest

import wend as torch
from wend._engine.base.errors import ArgumentError, ArgumentTypeError, ModuleNotAvailable

needs_files = pytest.mark.skipif(
    __import__("importlib.util").util.find_spec("tensorboardX") is None,
    reason="tensorboardX, which knows the format of event files, is not installed",
)
pytestmark = [pytest.mark.filterwarnings("ignore::DeprecationWarning")]


@pytest.fixture
def writer(tmp_path):
    pytest.importorskip("tensorboardX")
    with torch.utils.tensorboard.SummaryWriter(tmp_path) as found:
        yield found


def events(folder):
    """The events of a folder's files, in order of the files' names; checks lengths and sums."""
    proto = pytest.importorskip("tensorboardX.proto.event_pb2")
    masked = pytest.importorskip("tensorboardX.record_writer").masked_crc32c
    found = []
    for path in sorted(folder.glob("events.out.tfevents.*")):
        data = path.read_bytes()
        while data:
            (size,) = struct.unpack("<Q", data[:8])
            assert struct.unpack("<I", data[8:12])[0] == masked(data[:8])
            body = data[12 : 12 + size]
            assert struct.unpack("<I", data[12 + size : 16 + size])[0] == masked(body)
            found.append(proto.Event.FromString(body))
            data = data[16 + size :]
    return found


def values(writer):
    """The values of all summaries that a writer has written to its folder."""
    writer.flush()
    return [v for e in events_of(writer) for v in e.summary.value]


def events_of(writer):
    from pathlib import Path

    return events(Path(writer.get_logdir()))


def pixels(data):
    """A PNG file as an array, without help from the product."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, body, head = 8, b"", None
    while at < len(data):
        (size,) = struct.unpack(">I", data[at : at + 4])
        kind, chunk = data[at + 4 : at + 8], data[at + 8 : at + 8 + size]
        assert struct.unpack(">I", data[at + 8 + size : at + 12 + size])[0] == zlib.crc32(
            kind + chunk
        )
        head = chunk if kind == b"IHDR" else head
        body += chunk if kind == b"IDAT" else b""
        at += 12 + size
    width, height, depth, kind = struct.unpack(">IIBB", head[:10])
    assert depth == 8
    channels = {0: 1, 4: 2, 2: 3, 6: 4}[kind]
    rows = np.frombuffer(zlib.decompress(body), np.uint8).reshape(height, 1 + width * channels)
    assert not rows[:, 0].any()
    return rows[:, 1:].reshape(height, width, channels)


def test_signatures_are_pytorchs():
    real = pytest.importorskip("torch.utils.tensorboard", exc_type=ImportError)
    ours = torch.utils.tensorboard.SummaryWriter
    for name, method in inspect.getmembers(real.SummaryWriter, inspect.isfunction):
        if name == "__init__" or not name.startswith("_"):
            theirs = inspect.signature(method).parameters
            found = inspect.signature(getattr(ours, name)).parameters
            assert list(found) == list(theirs), name


@needs_files
def test_scalars(writer):
    for step in range(3):
        writer.add_scalar("loss/train", torch.tensor(0.5) / (step + 1), step, walltime=7.0)
    writer.add_scalar("new", 2.5, 3, new_style=True, double_precision=True)
    writer.flush()
    found = events_of(writer)
    assert found[0].file_version == "brain.Event:2"
    rows = [(e.step, e.wall_time, e.summary.value[0]) for e in found[1:]]
    assert [(s, w, v.tag) for s, w, v in rows[:3]] == [(k, 7.0, "loss/train") for k in range(3)]
    assert [v.simple_value for *_, v in rows[:3]] == pytest.approx([0.5, 0.25, 0.5 / 3])
    new = rows[3][2]
    assert new.metadata.plugin_data.plugin_name == "scalars"
    assert np.frombuffer(new.tensor.tensor_content, np.float64).tolist() == [2.5]


@needs_files
def test_scalars_take_what_counts_as_a_number(writer):
    given = [1, 1.5, True, np.float32(2), np.ones((1, 1)), torch.ones(1, dtype=torch.bfloat16)]
    for step, value in enumerate(given):
        writer.add_scalar("x", value, torch.tensor(step))
    assert [v.simple_value for v in values(writer)] == [1, 1.5, 1, 2, 1, 1]
    with pytest.raises(ArgumentError, match=r"add_scalar: x: takes a number .* shape \(2,\)"):
        writer.add_scalar("x", torch.ones(2))
    with pytest.raises(NotImplementedError, match="a dict is no tensor"):
        writer.add_scalar("x", {})


@needs_files
def test_several_scalars_in_one_chart(writer, tmp_path):
    for step in range(2):
        writer.add_scalars("run/14h", {"sin": step, "cos": 1 - step}, step)
    writer.flush()
    for name, expected in (("sin", [0, 1]), ("cos", [1, 0])):
        found = events(tmp_path / f"run_14h_{name}")[1:]
        assert [e.summary.value[0].simple_value for e in found] == expected
        assert {e.summary.value[0].tag for e in found} == {"run/14h"}


@needs_files
def test_histograms(writer):
    x = torch.tensor([-1.0, 0.0, 0.5, 0.5, 2.0])
    writer.add_histogram("default", x, 1)
    writer.add_histogram("named", x, 1, bins="auto")
    writer.add_histogram("few", x, 1, max_bins=16)
    writer.add_histogram_raw("raw", 0, 2, 3, 3, 5, [1, 2], [1, 2])
    found = values(writer)
    for value in found[:3]:
        histo = value.histo
        assert (histo.min, histo.max, histo.num, histo.sum) == (-1, 2, 5, 2)
        assert histo.sum_squares == pytest.approx(5.5) and sum(histo.bucket) == 5
        assert len(histo.bucket) == len(histo.bucket_limit)
    assert len(found[2].histo.bucket) < len(found[0].histo.bucket)
    assert list(found[3].histo.bucket) == [1, 2]
    with pytest.raises(ArgumentError, match="1 of 2 values are NaN or infinite"):
        writer.add_histogram("bad", torch.tensor([1.0, float("nan")]))
    with pytest.raises(ArgumentError, match="there are no values"):
        writer.add_histogram("bad", torch.ones(0))
    with pytest.raises(ArgumentError, match="1 limits and 2 counts"):
        writer.add_histogram_raw("bad", 0, 1, 1, 1, 1, [1], [1, 2])


@needs_files
@pytest.mark.parametrize("formats", ["CHW", "HWC", "HW", "WHC"])
def test_images(writer, formats):
    sizes = {"C": 3, "H": 2, "W": 4}
    x = np.random.default_rng(0).random([sizes[k] for k in formats]).astype(np.float32)
    writer.add_image("x", torch.tensor(x), 1, dataformats=formats)
    writer.add_image("bytes", (x * 255).astype(np.uint8), dataformats=formats)
    order = [formats.index(k) for k in "HWC" if k in formats]
    expected = np.transpose((x * 255).astype(np.uint8), order).reshape(2, 4, -1)
    for value in values(writer):
        found = pixels(value.image.encoded_image_string)
        assert np.array_equal(found, expected)
        assert (value.image.height, value.image.width) == (2, 4)
        assert value.image.colorspace == found.shape[-1]


@needs_files
def test_many_images(writer):
    x = torch.arange(3 * 1 * 2 * 2).reshape(3, 1, 2, 2).to(torch.uint8)
    writer.add_images("x", x)
    writer.add_images("list", [x[0], x[1]])
    first, second = [pixels(v.image.encoded_image_string) for v in values(writer)]
    assert first.shape == (2, 6, 3)
    assert first[0, :, 0].tolist() == [0, 1, 4, 5, 8, 9]
    assert second.shape == (2, 4, 3)
    with pytest.raises(ArgumentError, match="does not name the 2 dims"):
        writer.add_image("x", torch.ones(2, 2))
    with pytest.raises(ArgumentError, match="1, 2, 3 or 4 channels, not 5"):
        writer.add_image("x", torch.ones(5, 2, 2))


@needs_files
def test_boxes_and_videos(writer):
    pictures = pytest.importorskip("PIL.Image")
    writer.add_image_with_boxes(
        "boxes", torch.zeros(3, 20, 30), torch.tensor([[2, 3, 10, 12]]), labels=["a"]
    )
    writer.add_video("video", torch.rand(2, 5, 3, 8, 6), 4, fps=10)
    boxes, video = values(writer)
    red = np.asarray(pictures.open(io.BytesIO(boxes.image.encoded_image_string)))
    assert red[3, 5].tolist() == [255, 0, 0] and red[19, 29].tolist() == [0, 0, 0]
    picture = pictures.open(io.BytesIO(video.image.encoded_image_string))
    assert (picture.format, picture.n_frames, picture.size) == ("GIF", 5, (12, 8))
    with pytest.raises(ArgumentError, match="1 labels for 2 boxes"):
        writer.add_image_with_boxes("x", torch.zeros(3, 9, 9), torch.ones(2, 4), labels="a")


@needs_files
def test_figures(writer):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    figure = pyplot.figure(figsize=(2, 1), dpi=50)
    figure.add_subplot().plot([1, 2, 3])
    writer.add_figure("x", figure, 2)
    assert not pyplot.get_fignums()
    (value,) = values(writer)
    assert pixels(value.image.encoded_image_string).shape == (50, 100, 3)


@needs_files
def test_sounds(writer):
    writer.add_audio("x", torch.tensor([[0.0, 0.5, -2.0]]), sample_rate=8000)
    (value,) = values(writer)
    with wave.open(io.BytesIO(value.audio.encoded_audio_string)) as sound:
        assert sound.getframerate() == 8000
        frames = np.frombuffer(sound.readframes(3), "<i2")
    assert frames.tolist() == [0, 16383, -32767]
    with pytest.raises(ArgumentError, match=r"takes a tensor \(1, L\)"):
        writer.add_audio("x", torch.ones(2, 3))


@needs_files
def test_texts_and_tensors(writer):
    writer.add_text("note", "**bold**", 4)
    writer.add_tensor("x", torch.arange(6).reshape(2, 3))
    text, tensor = values(writer)
    assert (text.tag, text.tensor.string_val[0]) == ("note/text_summary", b"**bold**")
    assert text.metadata.plugin_data.plugin_name == "text"
    found = np.frombuffer(tensor.tensor.tensor_content, np.int64)
    assert found.tolist() == list(range(6))
    assert [d.size for d in tensor.tensor.tensor_shape.dim] == [2, 3]


@needs_files
def test_curves(writer):
    labels, guesses = torch.tensor([1, 0, 1, 0]), torch.tensor([0.9, 0.2, 0.6, 0.7])
    writer.add_pr_curve("curve", labels, guesses, 1, num_thresholds=5)
    counts = [[2, 1], [2, 0], [0, 2], [0, 1], [0.5, 1.0], [1.0, 0.5]]
    writer.add_pr_curve_raw("raw", *map(np.array, counts), num_thresholds=2)
    curve, raw = values(writer)
    table = np.array(curve.tensor.float_val).reshape(6, 5)
    assert table[0].tolist() == [2, 2, 2, 1, 0]  # true positives at 0, 1/4, 1/2, 3/4, 1
    assert np.array(raw.tensor.float_val).reshape(6, 2).tolist() == counts
    assert curve.metadata.plugin_data.plugin_name == "pr_curves"
    with pytest.raises(ArgumentError, match="4 labels for 3 predictions"):
        writer.add_pr_curve("x", labels, guesses[:3])


@needs_files
def test_meshes_and_layouts(writer):
    points = torch.rand(1, 4, 3)
    faces = torch.tensor([[[0, 1, 2], [1, 2, 3]]])
    writer.add_mesh("x", points, faces=faces, config_dict={"material": {"cls": "PointsMaterial"}})
    writer.add_custom_scalars({"all": {"loss": ["Multiline", ["a", "b"]]}})
    writer.add_custom_scalars_marginchart(["a", "b", "c"])
    vertices, triangles, layout, margin = values(writer)
    assert vertices.tag == "x_VERTEX" or vertices.tag.startswith("x_")
    assert np.array(vertices.tensor.float_val) == pytest.approx(points.numpy().ravel())
    assert [d.size for d in triangles.tensor.tensor_shape.dim] == [1, 2, 3]
    assert {layout.tag, margin.tag} == {"custom_scalars__config__"}
    with pytest.raises(ArgumentError, match="takes 3 tags"):
        writer.add_custom_scalars_marginchart(["a"])


@needs_files
def test_hyperparameters(writer, tmp_path):
    writer.add_hparams(
        {"lr": 0.1, "name": "sgd", "nesterov": True, "size": torch.tensor(8), "none": None},
        {"hparam/accuracy": 0.75},
        {"name": ["sgd", "adam"]},
        run_name="first",
        global_step=3,
    )
    plugin = pytest.importorskip("tensorboardX.proto.plugin_hparams_pb2").HParamsPluginData
    found = [v for e in events(tmp_path / "first") for v in e.summary.value]
    content = {v.tag: plugin.FromString(v.metadata.plugin_data.content) for v in found[:3]}
    start = content["_hparams_/session_start_info"].session_start_info.hparams
    assert start["lr"].number_value == 0.1 and start["name"].string_value == "sgd"
    assert start["nesterov"].bool_value is True and start["size"].number_value == 8
    infos = content["_hparams_/experiment"].experiment.hparam_infos
    assert [info.name for info in infos] == ["lr", "name", "nesterov", "size"]
    assert list(infos[1].domain_discrete) == ["sgd", "adam"]
    assert (found[3].tag, found[3].simple_value) == ("hparam/accuracy", 0.75)
    with pytest.raises(ArgumentTypeError, match="hparam_dict takes a dictionary, not a list"):
        writer.add_hparams([], {})
    with pytest.raises(ArgumentError, match="lr is a list"):
        writer.add_hparams({"lr": [1]}, {})
    with pytest.raises(ArgumentTypeError, match="no parameter 'x'"):
        writer.add_hparams({"lr": 1}, {}, {"x": [1]})


@needs_files
def test_graphs(writer):
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU())
    writer.add_graph(model, torch.ones(2, 3))
    writer.flush()
    proto = pytest.importorskip("tensorboardX.proto.graph_pb2")
    (data,) = [e.graph_def for e in events_of(writer) if e.graph_def]
    nodes = {node.name: node for node in proto.GraphDef.FromString(data).node}
    (relu,) = [node for node in nodes.values() if node.op == "relu"]
    (linear,) = [nodes[name] for name in relu.input]
    assert linear.op == "linear" and linear.name.startswith("0/") and relu.name.startswith("1/")
    assert all(name in nodes for name in linear.input)
    leaves = sorted(name.rpartition("_")[0] for name in linear.input)
    assert leaves == ["0/bias", "0/weight", "input_0"]
    assert f"{__file__}:" in linear.attr["line"].s.decode()
    (shape,) = linear.attr["_output_shapes"].list.shape
    assert [d.size for d in shape.dim] == [2, 4]
    with pytest.raises(ArgumentError, match="arguments of the model are missing"):
        writer.add_graph(model)


@needs_files
def test_tensorboard_shows_a_graph(writer, tmp_path):
    """The server's own plugin finds the run, and gives the graph's text to the page."""
    core = pytest.importorskip(
        "tensorboard.backend.event_processing.plugin_event_multiplexer",
        reason="tensorboard is not installed (44 MB with its dependencies)",
    )
    from tensorboard.backend.event_processing.data_provider import MultiplexerDataProvider
    from tensorboard.plugins import base_plugin
    from tensorboard.plugins.graph.graphs_plugin import GraphsPlugin

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.enter = torch.nn.Linear(3, 4)

        def forward(self, x, scale):
            return self.enter(x).tanh() * scale

    writer.add_graph(Net(), (torch.ones(2, 3), torch.ones(1)))
    writer.close()
    runs = core.EventMultiplexer().AddRunsFromDirectory(str(tmp_path)).Reload()
    provider = MultiplexerDataProvider(runs, str(tmp_path))
    context = base_plugin.TBContext(logdir=str(tmp_path), data_provider=provider)
    from tensorboard.context import RequestContext

    plugin = GraphsPlugin(context)
    info = plugin.info_impl(RequestContext(), experiment="")
    ((run, found),) = info.items()
    assert found["run_graph"]
    text, kind = plugin.graph_impl(RequestContext(), run, None, False, experiment="")
    assert kind == "text/x-protobuf"
    for name in ("enter/linear", "enter/weight", "tanh", "input_0", "input_1"):
        assert f'name: "{name}_' in text


@needs_files
def test_embeddings(writer, tmp_path):
    vectors = torch.tensor([[1.0, 2.0], [3.0, 4.5], [0.0, -1.0]])
    images = torch.rand(3, 3, 4, 4)
    writer.add_embedding(vectors, ["a", "b", "c"], images, 2, "words")
    writer.add_embedding(vectors, [["a", 1], ["b", 2], ["c", 3]], metadata_header=["x", "n"])
    folder = tmp_path / "00002" / "words"
    rows = [line.split("\t") for line in (folder / "tensors.tsv").read_text().splitlines()]
    assert [[float(x) for x in row] for row in rows] == vectors.tolist()
    assert (folder / "metadata.tsv").read_text() == "a\nb\nc\n"
    assert (tmp_path / "00000/default/metadata.tsv").read_text().startswith("x\tn\na\t1\n")
    assert pixels((folder / "sprite.png").read_bytes()).shape == (8, 8, 3)
    config = (tmp_path / "projector_config.pbtxt").read_text()
    assert 'tensor_name: "words:00002"' in config and config.count("embeddings {") == 2
    assert 'image_path: "00002/words/sprite.png"' in config
    with pytest.raises(ArgumentError, match="2 metadata for 3 vectors"):
        writer.add_embedding(vectors, ["a", "b"])
    with pytest.raises(ArgumentError, match=r"takes \(N, D\)"):
        writer.add_embedding(vectors[0])


@needs_files
def test_when_events_are_written(tmp_path):
    writer = torch.utils.tensorboard.SummaryWriter(tmp_path, max_queue=3)
    for step in range(2):
        writer.add_scalar("x", step, step)
    assert len(events(tmp_path)) == 1  # the version of the format
    writer.add_scalar("x", 2, 2)
    assert len(events(tmp_path)) == 4
    writer.add_scalar("x", 3, 3)
    writer.close()
    assert len(events(tmp_path)) == 5
    writer.add_scalar("x", 4, 4)  # a new file
    writer.close()
    writer.close()
    assert len(events(tmp_path)) == 7 and len(list(tmp_path.iterdir())) == 2


@needs_files
def test_purge_and_names(tmp_path, monkeypatch):
    with torch.utils.tensorboard.SummaryWriter(tmp_path, purge_step=5, filename_suffix=".x"):
        pass
    assert next(tmp_path.iterdir()).name.endswith(".x")
    found = events(tmp_path)
    assert [e.step for e in found[1:]] == [5, 5]
    assert found[2].session_log.status == found[2].session_log.START
    monkeypatch.chdir(tmp_path)
    with torch.utils.tensorboard.SummaryWriter(comment="-lr0.1") as writer:
        assert writer.log_dir.startswith("runs") and writer.log_dir.endswith("-lr0.1")
        assert (tmp_path / writer.log_dir).is_dir()


@needs_files
def test_a_program_that_ends_without_close(tmp_path):
    """Events that wait are written when the program ends."""
    program = (
        "import sys, wend.utils.tensorboard as t\n"
        "w = t.SummaryWriter(sys.argv[1])\nw.add_scalar('x', 1, 1)\n"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=True)
    assert len(events(tmp_path)) == 2


def test_without_the_library(monkeypatch):
    """The error names the extra; importing the package alone asks for nothing."""
    for name in [n for n in sys.modules if n.split(".")[0] == "tensorboardX"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    with pytest.raises(ModuleNotAvailable, match=r"pip install 'wend-dl\[tensorboard\]'"):
        torch.utils.tensorboard.SummaryWriter("never-made")


@needs_files
def test_tensorboards_own_reader(writer, tmp_path):
    """TensorBoard reads each kind of record, and finds the embedding's files."""
    reader = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator",
        reason="tensorboard is not installed (44 MB with its dependencies)",
    )
    for step in range(3):
        writer.add_scalar("loss", 1 / (step + 1), step)
        writer.add_histogram("weights", torch.randn(100), step)
        writer.add_image("image", torch.rand(3, 4, 4), step)
        writer.add_audio("sound", torch.rand(1, 100) - 0.5, step)
        writer.add_text("text", f"step {step}", step)
        writer.add_pr_curve("curve", torch.tensor([0, 1]), torch.tensor([0.2, 0.9]), step)
        writer.add_mesh("mesh", torch.rand(1, 5, 3), global_step=step)
    writer.add_hparams({"lr": 0.1}, {"accuracy": 0.5}, run_name="run")
    writer.add_custom_scalars_multilinechart(["loss"])
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU())
    writer.add_graph(model, torch.ones(2, 3))
    writer.close()
    found = reader.EventAccumulator(str(tmp_path), size_guidance=dict.fromkeys(
        reader.DEFAULT_SIZE_GUIDANCE, 0
    ))  # fmt: skip
    found.Reload()
    tags = found.Tags()
    names = {name for kind in tags.values() if isinstance(kind, list) for name in kind}
    assert tags["graph"]
    assert [n.op for n in found.Graph().node if n.op != "input"] == ["linear", "relu"]
    wanted = {"loss", "weights", "image", "sound", "text/text_summary", "curve"}
    assert wanted <= names and any(name.startswith("mesh") for name in names)
    scalars = found.Scalars("loss") if "loss" in tags["scalars"] else None
    if scalars is None:
        from tensorboard.util import tensor_util

        rows = found.Tensors("loss")
        numbers = [float(tensor_util.make_ndarray(row.tensor_proto)) for row in rows]
    else:
        numbers = [row.value for row in scalars]
    assert numbers == pytest.approx([1, 0.5, 1 / 3])
    hparams = reader.EventAccumulator(str(tmp_path / "run"))
    hparams.Reload()
    assert "_hparams_/experiment" in json.dumps(list(hparams.summary_metadata))
