"""Event files for TensorBoard: `SummaryWriter` with PyTorch's methods."""

from __future__ import annotations

import atexit
import itertools
import os
import socket
import threading
import time
import weakref
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, SupportsFloat, SupportsInt
from urllib.parse import quote

import numpy as np

from wend import debug
from wend._engine.base.errors import ArgumentError
from wend.utils.tensorboard import _embedding, summary
from wend.utils.tensorboard._convert_np import Data, in_order, make_grid, make_np
from wend.utils.tensorboard._library import Event, Message, library, needed

__all__ = ["FileWriter", "SummaryWriter"]

#: Distinguishes the files that a process writes in the same second.
_COUNTER = itertools.count()


class FileWriter:
    """Writes events to a file of a folder: `max_queue` at a time, or after `flush_secs` seconds.

    Events are written by the calling thread; nothing runs in the background.  tensorboardX's own
    class flushes while events are still in the queue of a thread.  Opened again within a second,
    that class writes over the first file.

    log_dir: the folder, made if there is none
    filename_suffix: the end of the file's name
    """

    def __init__(
        self,
        log_dir: str | os.PathLike[str],
        max_queue: int = 10,
        flush_secs: float = 120,
        filename_suffix: str = "",
    ) -> None:
        self._folder = str(log_dir)
        self._most = max_queue
        self._seconds = flush_secs
        self._suffix = filename_suffix
        self._lock = threading.RLock()
        self._waiting: list[bytes] = []
        self._file: Any = None
        self._open()
        _OPEN.add(self)

    def _open(self) -> None:
        records = library("record_writer")
        os.makedirs(self._folder, exist_ok=True)
        now = time.time()
        name = f"events.out.tfevents.{int(now):010d}.{socket.gethostname()}"
        name += f".{os.getpid()}.{next(_COUNTER)}{self._suffix}"
        self._file = records.RecordWriter(os.path.join(self._folder, name))
        self._flushed = now
        event = library("proto.event_pb2").Event(wall_time=now, file_version="brain.Event:2")
        self._file.write(event.SerializeToString())
        self._file.flush()

    def get_logdir(self) -> str:
        """The folder of the file."""
        return self._folder

    def add_event(
        self, event: Event, step: int | None = None, walltime: float | None = None
    ) -> None:
        """Add an `Event` message.  walltime: seconds since 1970, else the time of the call"""
        event.wall_time = time.time() if walltime is None else walltime
        if step is not None:
            event.step = int(step)
        with self._lock:
            if self._file is None:
                return
            self._waiting.append(event.SerializeToString())
            late = time.time() - self._flushed > self._seconds
            if len(self._waiting) >= self._most or late:
                self.flush()

    def add_summary(
        self, summary: Message, global_step: int | None = None, walltime: float | None = None
    ) -> None:
        """Add a `Summary` message."""
        event = library("proto.event_pb2").Event(summary=summary)
        self.add_event(event, global_step, walltime)

    def add_graph(
        self, graph_profile: tuple[Message, Message | None], walltime: float | None = None
    ) -> None:
        """Add a graph: a (`GraphDef`, `RunMetadata` or None) pair of messages."""
        events = library("proto.event_pb2")
        graph, profile = graph_profile
        self.add_event(events.Event(graph_def=graph.SerializeToString()), None, walltime)
        if profile is not None:
            tagged = events.TaggedRunMetadata(
                tag="profiler", run_metadata=profile.SerializeToString()
            )
            self.add_event(events.Event(tagged_run_metadata=tagged), None, walltime)

    def add_onnx_graph(self, graph: Message, walltime: float | None = None) -> None:
        """Add a `GraphDef` message."""
        self.add_graph((graph, None), walltime)

    def flush(self) -> None:
        """Write all events to the disk."""
        with self._lock:
            if self._file is None:
                return
            for data in self._waiting:
                self._file.write(data)
            self._waiting.clear()
            self._file.flush()
            self._flushed = time.time()

    def close(self) -> None:
        """Write all events, and close the file; events that come later are dropped."""
        with self._lock:
            if self._file is not None:
                self.flush()
                self._file.close()
                self._file = None

    def reopen(self) -> None:
        """Go on, after `close`, in a new file of the same folder."""
        with self._lock:
            if self._file is None:
                self._open()


#: Files that are closed when the program ends.
_OPEN: weakref.WeakSet[FileWriter] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    for writer in list(_OPEN):
        writer.close()


class SummaryWriter:
    """Writes scalars, histograms, pictures and more to event files, which TensorBoard shows.

    log_dir: the folder; else `runs/`, with the time, the name of the machine and `comment`
    purge_step: TensorBoard forgets all events of this step and later ones
    max_queue, flush_secs: events wait until there are so many, or for so long
    filename_suffix: the end of the names of files

    Raises ModuleNotAvailable without the extra `wend-dl[tensorboard]`.
    """

    def __init__(
        self,
        log_dir: str | os.PathLike[str] | None = None,
        comment: str = "",
        purge_step: int | None = None,
        max_queue: int = 10,
        flush_secs: float = 120,
        filename_suffix: str = "",
    ) -> None:
        if not log_dir:
            now = datetime.now().strftime("%b%d_%H-%M-%S")
            log_dir = os.path.join("runs", f"{now}_{socket.gethostname()}{comment}")
        self.log_dir: str = str(log_dir)
        self.purge_step = purge_step
        self.max_queue = max_queue
        self.flush_secs = flush_secs
        self.filename_suffix = filename_suffix
        self.file_writer: FileWriter | None = None
        self.all_writers: dict[str, FileWriter] | None = None
        self._get_file_writer()
        positive = [1e-12 * 1.1**k for k in range(776)]  # up to 1e20
        self.default_bins: list[float] = [*(-x for x in reversed(positive)), 0.0, *positive]

    def _get_file_writer(self) -> FileWriter:
        """The writer of the folder, made anew after `close`."""
        if self.file_writer is None or self.all_writers is None:
            self.file_writer = self._new_writer(self.log_dir)
            self.all_writers = {self.log_dir: self.file_writer}
            if self.purge_step is not None:
                events = library("proto.event_pb2")
                step = self.purge_step
                self.file_writer.add_event(events.Event(file_version="brain.Event:2"), step)
                start = events.SessionLog(status=events.SessionLog.START)
                self.file_writer.add_event(events.Event(session_log=start), step)
                self.purge_step = None
        return self.file_writer

    def _new_writer(self, folder: str) -> FileWriter:
        return FileWriter(folder, self.max_queue, self.flush_secs, self.filename_suffix)

    def _add(self, message: Message, step: SupportsInt | None, walltime: float | None) -> None:
        self._get_file_writer().add_summary(message, _step(step), walltime)

    def get_logdir(self) -> str:
        """The folder of the event files."""
        return self.log_dir

    def add_scalar(
        self, tag: str, scalar_value: Data, global_step: SupportsInt | None = None,
        walltime: float | None = None,
        new_style: bool = False, double_precision: bool = False,
    ) -> None:  # fmt: skip
        """Add a number: see `summary.scalar`."""
        message = summary.scalar(
            tag, scalar_value, new_style=new_style, double_precision=double_precision
        )
        self._add(message, global_step, walltime)

    def add_scalars(
        self, main_tag: str, tag_scalar_dict: dict[str, Any],
        global_step: SupportsInt | None = None,
        walltime: float | None = None,
    ) -> None:  # fmt: skip
        """Add several numbers to one chart: each has a folder and a file of its own."""
        self._get_file_writer()
        assert self.all_writers is not None
        walltime = time.time() if walltime is None else walltime
        for tag, value in tag_scalar_dict.items():
            folder = os.path.join(self.log_dir, f"{main_tag.replace('/', '_')}_{tag}")
            if folder not in self.all_writers:
                self.all_writers[folder] = self._new_writer(folder)
            message = summary.scalar(main_tag, value)
            self.all_writers[folder].add_summary(message, _step(global_step), walltime)

    def add_tensor(
        self,
        tag: str,
        tensor: Data,
        global_step: SupportsInt | None = None,
        walltime: float | None = None,
    ) -> None:
        """Add a tensor of any shape."""
        self._add(summary.tensor_proto(tag, tensor), global_step, walltime)

    def add_histogram(
        self, tag: str, values: Data, global_step: SupportsInt | None = None,
        bins: str | int | Sequence[float] = "tensorflow",
        walltime: float | None = None, max_bins: int | None = None,
    ) -> None:  # fmt: skip
        """Add a histogram: see `summary.histogram`.  bins: "tensorflow" grow by a tenth each"""
        bins = self.default_bins if isinstance(bins, str) and bins == "tensorflow" else bins
        self._add(summary.histogram(tag, values, bins, max_bins), global_step, walltime)

    def add_histogram_raw(
        self, tag: str, min: SupportsFloat, max: SupportsFloat, num: SupportsFloat,
        sum: SupportsFloat, sum_squares: SupportsFloat,
        bucket_limits: Sequence[SupportsFloat], bucket_counts: Sequence[SupportsFloat],
        global_step: SupportsInt | None = None,
        walltime: float | None = None,
    ) -> None:  # fmt: skip
        """Add a histogram whose bins have been counted already.

        Raises ArgumentError if there are not as many limits as counts.
        """
        if len(bucket_limits) != len(bucket_counts):
            raise ArgumentError(
                f"add_histogram_raw: {tag}: len(bucket_limits) != len(bucket_counts): "
                f"{len(bucket_limits)} limits and {len(bucket_counts)} counts"
            )
        message = summary.histogram_raw(
            tag, min, max, num, sum, sum_squares, bucket_limits, bucket_counts
        )
        self._add(message, global_step, walltime)

    def add_image(
        self, tag: str, img_tensor: Data, global_step: SupportsInt | None = None,
        walltime: float | None = None,
        dataformats: str = "CHW",
    ) -> None:  # fmt: skip
        """Add a picture: see `summary.image`."""
        message = summary.image(tag, img_tensor, dataformats=dataformats)
        self._add(message, global_step, walltime)

    def add_images(
        self, tag: str, img_tensor: Data, global_step: SupportsInt | None = None,
        walltime: float | None = None,
        dataformats: str = "NCHW",
    ) -> None:  # fmt: skip
        """Add pictures side by side."""
        if isinstance(img_tensor, (list, tuple)):
            img_tensor = np.stack([make_np(item) for item in img_tensor])
        images = in_order(make_np(img_tensor), dataformats, "NHWC").transpose(0, 3, 1, 2)
        self.add_image(tag, make_grid(images), global_step, walltime, "HWC")

    def add_image_with_boxes(
        self, tag: str, img_tensor: Data, box_tensor: Data, global_step: SupportsInt | None = None,
        walltime: float | None = None, rescale: float = 1, dataformats: str = "CHW",
        labels: list[str] | None = None,
    ) -> None:  # fmt: skip
        """Add a picture with boxes: see `summary.image_boxes`."""
        labels = [labels] if isinstance(labels, str) else labels
        message = summary.image_boxes(tag, img_tensor, box_tensor, rescale, dataformats, labels)
        self._add(message, global_step, walltime)

    def add_figure(
        self, tag: str, figure: Any, global_step: SupportsInt | None = None, close: bool = True,
        walltime: float | None = None,
    ) -> None:  # fmt: skip
        """Add a figure of matplotlib, or several side by side.  close: close the figures then"""
        needed("matplotlib.pyplot", "figures")
        many = isinstance(figure, (list, tuple))
        pixels = library("utils").figure_to_image(list(figure) if many else figure, close)
        (self.add_images if many else self.add_image)(tag, pixels, global_step, walltime)

    def add_video(
        self, tag: str, vid_tensor: Data, global_step: SupportsInt | None = None, fps: float = 4,
        walltime: float | None = None,
    ) -> None:  # fmt: skip
        """Add a moving picture: see `summary.video`."""
        self._add(summary.video(tag, vid_tensor, fps), global_step, walltime)

    def add_audio(
        self, tag: str, snd_tensor: Data, global_step: SupportsInt | None = None,
        sample_rate: int = 44100,
        walltime: float | None = None,
    ) -> None:  # fmt: skip
        """Add a sound: see `summary.audio`."""
        self._add(summary.audio(tag, snd_tensor, sample_rate), global_step, walltime)

    def add_text(
        self,
        tag: str,
        text_string: str,
        global_step: SupportsInt | None = None,
        walltime: float | None = None,
    ) -> None:
        """Add a text in Markdown."""
        self._add(summary.text(tag, text_string), global_step, walltime)

    def add_onnx_graph(self, prototxt: object) -> None:
        """Add the graph of an ONNX file.  Needs onnx."""
        needed("onnx", "graphs of ONNX files")
        self._get_file_writer().add_onnx_graph(library("onnx_graph").load_onnx_graph(prototxt))

    def add_graph(
        self, model: Any, input_to_model: Any = None, verbose: bool = False,
        use_strict_trace: bool = True,
    ) -> None:  # fmt: skip
        """Add the ops of a model's forward pass, grouped by module: the model is called once.

        input_to_model: the arguments, a tensor or a tuple     verbose: print the graph
        use_strict_trace: of no effect, because every kind of result is taken
        Raises ArgumentError without arguments.
        """
        if input_to_model is None:
            raise ArgumentError("add_graph: input_to_model: the arguments of the model are missing")
        many = isinstance(input_to_model, (list, tuple))
        op_graph = debug.graph(model, *(input_to_model if many else (input_to_model,)))
        if verbose:
            print(op_graph)
        self._get_file_writer().add_graph((summary.graph(op_graph), None))

    def add_embedding(
        self, mat: Data, metadata: Sequence[Any] | None = None, label_img: Data | None = None,
        global_step: SupportsInt | None = None,
        tag: str = "default", metadata_header: list[str] | None = None,
    ) -> None:  # fmt: skip
        """Add vectors (N, D) for the projector.

        metadata: a label for each, or several under `metadata_header`
        label_img: a square picture for each, (N, C, S, S)
        Raises ArgumentError if there are more or fewer labels or pictures than vectors.
        """
        rows = make_np(mat)
        images = None if label_img is None else make_np(label_img)
        if rows.ndim != 2:
            raise ArgumentError(f"add_embedding: mat takes (N, D), not shape {tuple(rows.shape)}")
        for name, entries in (("metadata", metadata), ("label_img", images)):
            if entries is not None and len(entries) != len(rows):
                raise ArgumentError(f"add_embedding: {len(entries)} {name} for {len(rows)} vectors")
        step = 0 if global_step is None else _step(global_step)
        below = f"{step:05d}/{quote(tag, safe='')}"
        folder = Path(self._get_file_writer().get_logdir())
        (folder / below).mkdir(parents=True, exist_ok=True)
        if metadata is not None:
            _embedding.write_labels(folder / below, list(metadata), metadata_header)
        if images is not None:
            _embedding.write_pictures(folder / below, images)
        _embedding.write_vectors(folder / below, rows)
        _embedding.write_entry(folder, below, tag, step, metadata, images)

    def add_pr_curve(
        self, tag: str, labels: Data, predictions: Data, global_step: SupportsInt | None = None,
        num_thresholds: int = 127, weights: Data | None = None, walltime: float | None = None,
    ) -> None:  # fmt: skip
        """Add the precision and recall of predictions from 0 to 1."""
        message = summary.pr_curve(tag, labels, predictions, num_thresholds, weights)
        self._add(message, global_step, walltime)

    def add_pr_curve_raw(
        self, tag: str, true_positive_counts: Data, false_positive_counts: Data,
        true_negative_counts: Data, false_negative_counts: Data, precision: Data, recall: Data,
        global_step: SupportsInt | None = None, num_thresholds: int = 127,
        weights: Data | None = None,
        walltime: float | None = None,
    ) -> None:  # fmt: skip
        """Add a curve whose points have been counted already."""
        message = summary.pr_curve_raw(
            tag, true_positive_counts, false_positive_counts, true_negative_counts,
            false_negative_counts, precision, recall, num_thresholds, weights,
        )  # fmt: skip
        self._add(message, global_step, walltime)

    def add_custom_scalars_multilinechart(
        self, tags: list[str], category: str = "default", title: str = "untitled"
    ) -> None:
        """Lay out a chart of several scalars."""
        self.add_custom_scalars({category: {title: ["Multiline", tags]}})

    def add_custom_scalars_marginchart(
        self, tags: list[str], category: str = "default", title: str = "untitled"
    ) -> None:
        """Lay out a chart of a scalar between two bounds: tags of value, lower, upper."""
        if len(tags) != 3:
            raise ArgumentError(
                f"add_custom_scalars_marginchart: takes 3 tags (value, lower, upper), not {tags}"
            )
        self.add_custom_scalars({category: {title: ["Margin", tags]}})

    def add_custom_scalars(self, layout: dict[str, dict[str, Any]]) -> None:
        """Lay out charts: {category: {title: ("Multiline" or "Margin", tags)}}."""
        self._add(summary.custom_scalars(layout), None, None)

    def add_mesh(
        self, tag: str, vertices: Data, colors: Data | None = None, faces: Data | None = None,
        config_dict: dict[str, Any] | None = None, global_step: SupportsInt | None = None,
        walltime: float | None = None,
    ) -> None:  # fmt: skip
        """Add points in space: see `summary.mesh`."""
        message = summary.mesh(tag, vertices, colors, faces, config_dict)
        self._add(message, global_step, walltime)

    def add_hparams(
        self, hparam_dict: dict[str, Any], metric_dict: dict[str, Any],
        hparam_domain_discrete: dict[str, list[Any]] | None = None, run_name: str | None = None,
        global_step: SupportsInt | None = None,
    ) -> None:  # fmt: skip
        """Add a run with these parameters and results: see `summary.hparams`.

        run_name: the folder of the run, else the time
        """
        messages = summary.hparams(hparam_dict, metric_dict, hparam_domain_discrete)
        folder = os.path.join(self._get_file_writer().get_logdir(), run_name or str(time.time()))
        with SummaryWriter(folder) as run:
            for message in messages:
                run._add(message, None, None)
            for name, value in metric_dict.items():
                run.add_scalar(name, value, global_step)

    def flush(self) -> None:
        """Write all events to the disk."""
        for writer in (self.all_writers or {}).values():
            writer.flush()

    def close(self) -> None:
        """Write all events, and close the files.  A later call opens new ones."""
        for writer in (self.all_writers or {}).values():
            writer.close()
        self.file_writer = self.all_writers = None

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _step(step: SupportsInt | None) -> Any:
    """A step as an int, from a tensor or an array as well."""
    return None if step is None else int(step)
