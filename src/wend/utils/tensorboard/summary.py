"""Records of TensorBoard: each function turns data into a `Summary` message.

The messages are tensorboardX's, as are histograms, curves, meshes, layouts, parameters of runs and
boxes.  Images are written as PNG and sounds as WAV by the standard library alone: tensorboardX
writes both by libraries that an installation need not have.
"""

from __future__ import annotations

import io
import re
import struct
import wave
import zlib
from collections.abc import Iterable, Mapping, Sequence
from types import ModuleType
from typing import Any, SupportsFloat

import numpy as np

from wend._engine.base.errors import ArgumentError, ArgumentTypeError
from wend._engine.core._hot import Tensor
from wend.utils.tensorboard._convert_np import Array, Data, as_bytes, in_order, make_grid, make_np
from wend.utils.tensorboard._library import Message, library, needed

__all__ = [
    "audio",
    "custom_scalars",
    "graph",
    "histogram",
    "histogram_raw",
    "hparams",
    "image",
    "image_boxes",
    "mesh",
    "pr_curve",
    "pr_curve_raw",
    "scalar",
    "tensor_proto",
    "text",
    "video",
]

#: TensorBoard's types of tensors, by NumPy's.
_TYPES = {
    "float16": "DT_HALF", "float32": "DT_FLOAT", "float64": "DT_DOUBLE", "int8": "DT_INT8",
    "uint8": "DT_UINT8", "int16": "DT_INT16", "int32": "DT_INT32", "int64": "DT_INT64",
    "bool": "DT_BOOL", "complex64": "DT_COMPLEX64", "complex128": "DT_COMPLEX128",
}  # fmt: skip


def _messages() -> ModuleType:
    return library("proto.summary_pb2")


def _clean(tag: str) -> str:
    """A tag in which characters that TensorBoard does not take are underscores."""
    clean_tag: str = library("summary")._clean_tag(tag)
    return clean_tag


def _value(**fields: Any) -> Message:
    """A `Summary` of a single value."""
    messages = _messages()
    return messages.Summary(value=[messages.Summary.Value(**fields)])


def _tensor(array: Array) -> Message:
    """An array as a message."""
    name = _TYPES.get(str(array.dtype))
    if name is None:
        raise ArgumentTypeError(f"tensorboard: an array of {array.dtype} cannot be written")
    shape = library("proto.tensor_shape_pb2").TensorShapeProto
    return library("proto.tensor_pb2").TensorProto(
        dtype=name,
        tensor_shape=shape(dim=[shape.Dim(size=n) for n in array.shape]),
        tensor_content=np.ascontiguousarray(array).tobytes(),
    )


def _metadata(plugin: str, content: bytes = b"") -> Message:
    messages = _messages()
    data = messages.SummaryMetadata.PluginData(plugin_name=plugin, content=content)
    return messages.SummaryMetadata(plugin_data=data)


def scalar(
    name: str,
    tensor: Data,
    collections: object = None,
    new_style: bool = False,
    double_precision: bool = False,
) -> Message:
    """A number.  Raises ArgumentError if there are more elements than one.

    new_style: as a tensor, which newer readers expect     double_precision: then in float64
    """
    array = make_np(tensor).squeeze()
    if array.ndim != 0:
        raise ArgumentError(
            f"add_scalar: {name}: takes a number or a tensor of one element, not shape "
            f"{tuple(make_np(tensor).shape)}"
        )
    if not new_style:
        return _value(tag=_clean(name), simple_value=float(array))
    wide = np.float64 if double_precision else np.float32
    return _value(
        tag=_clean(name), tensor=_tensor(array.astype(wide)), metadata=_metadata("scalars")
    )


def tensor_proto(tag: str, tensor: Data) -> Message:
    """A tensor of any shape."""
    array = np.asarray(tensor.detach().cpu() if isinstance(tensor, Tensor) else tensor)
    if array.dtype.kind == "V":
        array = array.astype(np.float32)
    return _value(tag=tag, tensor=_tensor(array), metadata=_metadata("tensor"))


def histogram(
    name: str, values: Data, bins: str | int | Sequence[float], max_bins: int | None = None
) -> Message:
    """How many values lie in each bin.

    bins: limits of bins, or a name or number that `numpy.histogram` takes
    max_bins: neighbours are joined where there are more bins than that
    Raises ArgumentError if there are no values, or some are not finite.
    """
    array = make_np(values)
    if array.size == 0:
        raise ArgumentError(f"add_histogram: {name}: there are no values")
    if array.dtype.kind in "fc" and not np.isfinite(array).all():
        bad = int((~np.isfinite(array)).sum())
        raise ArgumentError(
            f"add_histogram: {name}: {bad} of {array.size} values are NaN or infinite; "
            "wend.debug.nan_guard() tells where they come from"
        )
    return library("summary").histogram(name, array, bins, max_bins)


def histogram_raw(
    name: str, min: SupportsFloat, max: SupportsFloat, num: SupportsFloat, sum: SupportsFloat,
    sum_squares: SupportsFloat, bucket_limits: Iterable[SupportsFloat],
    bucket_counts: Iterable[SupportsFloat],
) -> Message:  # fmt: skip
    """A histogram whose bins have been counted already."""
    limits, counts = list(map(float, bucket_limits)), list(map(float, bucket_counts))
    return library("summary").histogram_raw(
        name, float(min), float(max), float(num), float(sum), float(sum_squares), limits, counts
    )


# -- pictures and sounds ------------------------------------------------------------------------

#: The type of PNG's pixels by their number of channels: gray, gray and alpha, RGB, RGBA.
_PIXELS = {1: 0, 2: 4, 3: 2, 4: 6}


def png(pixels: Array) -> bytes:
    """(height, width, channels) bytes as a PNG file.  Raises ArgumentError for five channels."""
    height, width, channels = pixels.shape
    if channels not in _PIXELS:
        raise ArgumentError(f"add_image: an image has 1, 2, 3 or 4 channels, not {channels}")
    rows = np.zeros((height, 1 + width * channels), np.uint8)  # each row begins with its filter
    rows[:, 1:] = pixels.reshape(height, width * channels)

    def chunk(kind: bytes, data: bytes) -> bytes:
        check = zlib.crc32(kind + data)
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", check)

    head = struct.pack(">IIBBBBB", width, height, 8, _PIXELS[channels], 0, 0, 0)
    body = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows.tobytes(), 6))
    return b"\x89PNG\r\n\x1a\n" + body + chunk(b"IEND", b"")


def _image(tag: str, pixels: Array, data: bytes) -> Message:
    height, width, channels = pixels.shape
    picture = _messages().Summary.Image(
        height=height, width=width, colorspace=channels, encoded_image_string=data
    )
    return _value(tag=_clean(tag), image=picture)


def image(tag: str, tensor: Data, rescale: float = 1, dataformats: str = "CHW") -> Message:
    """A picture of bytes, or of floats from 0 to 1.

    rescale: other than 1 asks for Pillow     dataformats: the names of the dims, in order
    """
    pixels = as_bytes(in_order(make_np(tensor), dataformats, "HWC"))
    if rescale == 1:
        return _image(tag, pixels, png(pixels))
    return _drawn(tag, pixels, rescale)


def image_boxes(
    tag: str, tensor_image: Data, tensor_boxes: Data, rescale: float = 1,
    dataformats: str = "CHW", labels: list[str] | None = None,
) -> Message:  # fmt: skip
    """A picture with boxes (left, top, right, bottom) in red.  Needs Pillow."""
    pixels = as_bytes(in_order(make_np(tensor_image), dataformats, "HWC"))
    boxes = make_np(tensor_boxes).reshape(-1, 4)
    if labels is not None and len(labels) != len(boxes):
        raise ArgumentError(
            f"add_image_with_boxes: {tag}: {len(labels)} labels for {len(boxes)} boxes"
        )
    texts = None if labels is None else [str(label) for label in labels]
    return _drawn(tag, pixels, rescale, boxes, texts)


def _drawn(
    tag: str,
    pixels: Array,
    rescale: float,
    boxes: Array | None = None,
    labels: list[str] | None = None,
) -> Message:
    """A picture with boxes, enlarged; gray pixels become coloured.  Pillow draws."""
    needed("PIL.Image", "boxes")
    if pixels.shape[-1] == 1:
        pixels = np.repeat(pixels, 3, axis=-1)
    picture = library("summary").make_image(pixels, rescale, boxes, labels)
    return _value(tag=_clean(tag), image=picture)


def video(tag: str, tensor: Data, fps: float = 4) -> Message:
    """(N, T, C, H, W) frames as a moving picture, the N side by side.  Needs Pillow."""
    array = make_np(tensor)
    if array.ndim != 5:
        raise ArgumentError(
            f"add_video: {tag}: takes a tensor (N, T, C, H, W), not shape {tuple(array.shape)}"
        )
    pictures = needed("PIL.Image", "videos")
    n, frames = array.shape[:2]
    columns = int(np.ceil(np.sqrt(n)))
    grids = [make_grid(array[:, t], columns) for t in range(frames)]
    first, *more = [pictures.fromarray(as_bytes(grid)) for grid in grids]
    file = io.BytesIO()
    first.save(file, format="GIF", save_all=True, append_images=more, duration=1000 / fps, loop=0)
    return _image(tag, grids[0], file.getvalue())


def audio(tag: str, tensor: Data, sample_rate: int = 44100) -> Message:
    """A sound of floats from -1 to 1, of a single channel.  Louder samples are clipped."""
    samples = make_np(tensor).squeeze()
    if samples.ndim != 1:
        raise ArgumentError(
            f"add_audio: {tag}: takes a tensor (1, L), not shape {tuple(make_np(tensor).shape)}"
        )
    bits = (samples.clip(-1, 1) * np.iinfo(np.int16).max).astype("<i2")
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(sample_rate)
        sound.writeframes(bits.tobytes())
    record = _messages().Summary.Audio(
        sample_rate=sample_rate,
        num_channels=1,
        length_frames=len(bits),
        encoded_audio_string=file.getvalue(),
        content_type="audio/wav",
    )
    return _value(tag=_clean(tag), audio=record)


# -- texts, curves, meshes, layouts -------------------------------------------------------------


def text(tag: str, text: str) -> Message:
    """A text in Markdown."""
    return library("summary").text(tag, text)


def pr_curve(
    tag: str,
    labels: Data,
    predictions: Data,
    num_thresholds: int = 127,
    weights: Data | None = None,
) -> Message:
    """Precision and recall at thresholds from 0 to 1."""
    rows = make_np(labels), make_np(predictions)
    if rows[0].size != rows[1].size:
        raise ArgumentError(
            f"add_pr_curve: {tag}: {rows[0].size} labels for {rows[1].size} predictions"
        )
    weights = None if weights is None else make_np(weights)
    return library("summary").pr_curve(tag, *rows, num_thresholds, weights)


def pr_curve_raw(
    tag: str, tp: Data, fp: Data, tn: Data, fn: Data, precision: Data, recall: Data,
    num_thresholds: int = 127, weights: Data | None = None,
) -> Message:  # fmt: skip
    """A curve whose points have been counted already."""
    rows = [make_np(row) for row in (tp, fp, tn, fn, precision, recall)]
    return library("summary").pr_curve_raw(tag, *rows, num_thresholds, weights)


def mesh(
    tag: str,
    vertices: Data,
    colors: Data | None,
    faces: Data | None,
    config_dict: dict[str, Any] | None = None,
) -> Message:
    """Points in space (B, N, 3), with their colors and triangles, where given."""
    rows = [None if row is None else make_np(row) for row in (vertices, colors, faces)]
    return library("summary").mesh(tag, *rows, config_dict)


def custom_scalars(layout: Mapping[str, Mapping[str, Any]]) -> Message:
    """The layout of charts of several scalars: {category: {title: (kind, tags)}}."""
    return library("summary").custom_scalars(layout)


def graph(ops: Any) -> Message:
    """A graph of ops (`wend.debug.graph`) as a `GraphDef`: TensorBoard folds names at slashes.

    Ops are within the module that was called, parameters within their owner. Attributes of a node:
    `_output_shapes`, `T` (the dtype), and `line`, the place in the user's program.
    """
    graphs, nodes = library("proto.graph_pb2"), library("proto.node_def_pb2")
    values = library("proto.attr_value_pb2").AttrValue
    shapes = library("proto.tensor_shape_pb2").TensorShapeProto
    types = library("proto.types_pb2")
    names = {}
    for op in ops:
        path = op.name.split(".") if op.is_leaf and op.name else [*op.module.split("."), op.op]
        name = re.sub(r"[^A-Za-z0-9_./-]", "_", "/".join(path)).lstrip("/_")
        names[op.id] = f"{name}_{op.id}"
    entries = []
    for op in ops:
        shape = shapes(dim=[shapes.Dim(size=n) for n in op.shape])
        attributes = {
            "_output_shapes": values(list=values.ListValue(shape=[shape])),
            "T": values(type=getattr(types, _TYPES.get(op.dtype, "DT_INVALID"))),
            "line": values(s=op.place.encode()),
        }
        inputs = [names[i] for i in op.inputs]
        entries.append(nodes.NodeDef(name=names[op.id], op=op.op, input=inputs, attr=attributes))
    versions = library("proto.versions_pb2").VersionDef(producer=22)
    return graphs.GraphDef(node=entries, versions=versions)


def hparams(
    hparam_dict: dict[str, Any], metric_dict: dict[str, Any],
    hparam_domain_discrete: dict[str, list[Any]] | None = None,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """The three messages of a run with these parameters: experiment, start and end of a session.

    Raises ArgumentTypeError for anything but dictionaries, ArgumentError for other values.
    """
    for name, table in (("hparam_dict", hparam_dict), ("metric_dict", metric_dict)):
        if not isinstance(table, dict):
            raise ArgumentTypeError(
                f"add_hparams: {name} takes a dictionary, not a {type(table).__name__}"
            )
    domains = hparam_domain_discrete or {}
    for name in domains:
        if name not in hparam_dict:
            raise ArgumentTypeError(f"add_hparams: hparam_domain_discrete: no parameter {name!r}")
    plain = {k: _parameter(k, value) for k, value in hparam_dict.items() if value is not None}
    experiment, start, end = library("summary").hparams(plain, metric_dict)
    if domains:
        data = experiment.value[0].metadata.plugin_data
        content = library("proto.plugin_hparams_pb2").HParamsPluginData.FromString(data.content)
        for info in content.experiment.hparam_infos:
            allowed = domains.get(info.name, ())
            info.domain_discrete.extend([_parameter(info.name, item) for item in allowed])
        data.content = content.SerializeToString()
    return experiment, start, end


def _parameter(name: str, value: object) -> bool | str | float:
    """A parameter as a plain value; a number as a float."""
    if isinstance(value, (Tensor, np.ndarray, np.generic)):
        value = make_np(value).item()
    if isinstance(value, (bool, str)):
        return value
    if isinstance(value, (int, float)):
        return float(value)
    raise ArgumentError(
        f"add_hparams: {name} is a {type(value).__name__}, not a number, bool, text or tensor"
    )
