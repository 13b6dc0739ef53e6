"""The container: what we write is a ZIP file, what we read is believed in nothing."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wend.serialization import _archive as archive_module
from wend.serialization._archive import (
    CENTRAL,
    END,
    LOCAL,
    ArchiveReader,
    ArchiveWriter,
    FileSource,
    MappedSource,
    looks_like_zip,
)
from wend.serialization._errors import CheckpointError

RECORDS = {"data.pkl": b"pickle", "data/0": bytes(range(256)) * 3, "data/1": b"", "version": b"3\n"}


def packed(records=RECORDS, folder="archive") -> bytes:
    buffer = io.BytesIO()
    writer = ArchiveWriter(buffer, folder)
    for name, data in records.items():
        writer.add(name, data)
    writer.close()
    return buffer.getvalue()


def opened(data: bytes) -> ArchiveReader:
    return ArchiveReader(FileSource(io.BytesIO(data)))


def zipped(records, **options) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", **options) as file:
        for name, data in records:
            file.writestr(name, data)
    return buffer.getvalue()


def test_round_trip():
    archive = opened(packed())
    assert archive.names() == list(RECORDS)
    for name, data in RECORDS.items():
        assert name in archive and archive.size(name) == len(data)
        assert archive.read(name) == data == archive.array(name).tobytes()
    assert archive.array("data/0").flags.writeable


def test_python_reads_what_we_write():
    with zipfile.ZipFile(io.BytesIO(packed())) as file:
        assert file.testzip() is None
        assert {i.filename: file.read(i) for i in file.infolist()} == {
            "archive/" + name: data for name, data in RECORDS.items()
        }


def test_data_is_aligned_for_mapping():
    data = packed({"a": b"x" * 5, "longer/name": b"y" * 700, "b": b"z"})
    for content in (b"x" * 5, b"y" * 700):
        assert data.index(content) % 64 == 0


def test_we_read_what_python_writes_if_it_is_stored():
    archive = opened(zipped([("a/data.pkl", b"1"), ("a/data/0", b"2")]))
    assert archive.read("data.pkl") == b"1" and archive.names() == ["data.pkl", "data/0"]


def test_a_file_may_begin_before_the_archive():
    file = io.BytesIO(b"header" + packed())
    file.seek(6)
    assert ArchiveReader(FileSource(file)).read("version") == b"3\n"


def test_mapped_files_are_writable_and_keep_the_file_unchanged(tmp_path):
    path = tmp_path / "a.pt"
    path.write_bytes(packed())
    with path.open("rb") as file:
        archive = ArchiveReader(MappedSource(file))
    array = archive.array("data/0")
    array[:] = 0
    assert path.read_bytes() == packed() and archive.read("data.pkl") == b"pickle"


def test_a_reader_without_readinto_will_do():
    class Plain:
        def __init__(self, data):
            self.inner = io.BytesIO(data)
            self.read, self.seek, self.tell = self.inner.read, self.inner.seek, self.inner.tell

    archive = ArchiveReader(FileSource(Plain(packed())))
    assert archive.array("data/0").tobytes() == RECORDS["data/0"]


def test_a_writer_that_takes_a_part_at_a_time_is_written_to_again():
    class Slow(io.RawIOBase):
        def __init__(self):
            self.data = bytearray()

        def write(self, data):
            self.data += bytes(data[:7])
            return len(data[:7])

    slow = Slow()
    writer = ArchiveWriter(slow, "archive")
    for name, data in RECORDS.items():
        writer.add(name, data)
    writer.close()
    assert bytes(slow.data) == packed()


# --- large archives, with the limits moved down so that small ones reach them


def test_more_records_than_16_bits_count():
    records = {f"data/{i}": b"" for i in range(70_000)}
    data = packed(records)
    assert len(zipfile.ZipFile(io.BytesIO(data)).namelist()) == 70_000
    assert len(opened(data).names()) == 70_000


def test_zip64_sizes_and_offsets(monkeypatch):
    monkeypatch.setattr(archive_module, "FULL32", 1000)
    data = packed({"a": b"x" * 1500, "b": b"y" * 10, "c": b"z" * 2000})
    archive = opened(data)
    assert [archive.read(n)[:1] for n in "abc"] == [b"x", b"y", b"z"]
    assert archive.size("c") == 2000


def test_zip64_fields_that_are_missing(monkeypatch):
    data = packed({"a": b"x" * 1500})
    monkeypatch.setattr(archive_module, "FULL32", 1500)
    with pytest.raises(CheckpointError, match="lacks its zip64 sizes"):
        opened(data)


# --- hostile and damaged archives


def replace_in_directory(data: bytes, name: str, **changes) -> bytes:
    """The archive with fields of one directory entry changed; `size` changes both sizes."""
    at = data.rindex(name.encode()) - CENTRAL.size
    fields = list(CENTRAL.unpack_from(data, at))
    places = {"flags": (3,), "method": (4,), "crc": (7,), "size": (8, 9), "unpacked": (9,)}
    places["offset"] = (16,)
    for key, value in changes.items():
        for place in places[key]:
            fields[place] = value
    return data[:at] + CENTRAL.pack(*fields) + data[at + CENTRAL.size :]


def test_a_compressed_record_is_refused():
    bomb = zipped([("a/data.pkl", b"\0" * 10_000_000)], compression=zipfile.ZIP_DEFLATED)
    assert len(bomb) < 20_000
    with pytest.raises(CheckpointError, match="compressed"):
        opened(bomb)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"size": 2**31}, "reaches beyond"),
        ({"size": 0xFFFFFFFF}, "zip64"),
        ({"offset": 2**31}, "reaches beyond"),
        ({"unpacked": 5}, "compressed"),
        ({"method": 8}, "compressed"),
        ({"flags": 1}, "encrypted"),
    ],
)
def test_lies_in_the_directory(changes, words):
    with pytest.raises(CheckpointError, match=words):
        opened(replace_in_directory(packed(), "archive/data/0", **changes))


def test_a_wrong_checksum_is_noticed():
    archive = opened(replace_in_directory(packed(), "archive/data/0", crc=1))
    with pytest.raises(CheckpointError, match="checksum"):
        archive.array("data/0")
    # 0 is what PyTorch writes when it was told to skip checksums.
    archive = opened(replace_in_directory(packed(), "archive/data/0", crc=0))
    assert archive.read("data/0") == RECORDS["data/0"]


def test_records_that_share_their_bytes_are_refused():
    """A thousand names for one large record would ask for a thousand times the file's size."""
    data = packed({"a": b"x" * 4096, "b": b"y" * 64})
    with pytest.raises(CheckpointError, match="reaches beyond"):
        opened(replace_in_directory(data, "archive/b", offset=0))


def test_two_records_of_one_name_are_refused():
    with pytest.warns(UserWarning, match="Duplicate"):
        data = zipped([("a/data.pkl", b"1"), ("a/data.pkl", b"2")])
    with pytest.raises(CheckpointError, match=r"two records named 'a/data\.pkl'"):
        opened(data)


def test_a_local_header_must_agree():
    data = packed()
    assert data.startswith(LOCAL.pack(*LOCAL.unpack_from(data)))
    other = data.replace(b"archive/data.pkl", b"archive/DATA.pkl", 1)
    with pytest.raises(CheckpointError, match="disagree"):
        opened(other).read("data.pkl")


def test_a_local_header_cannot_reach_into_the_next_record():
    data = bytearray(packed({"a": b"x" * 100, "b": b"y" * 100}))
    struct.pack_into("<H", data, 28, 0x7000)  # the length of the first record's extra field
    with pytest.raises(CheckpointError):
        opened(bytes(data)).read("a")


def test_names_must_be_text():
    data = packed({"ab": b"1"}).replace(b"archive/ab", b"archive/\xff\xfe")
    with pytest.raises(CheckpointError, match="not UTF-8"):
        opened(data)


@pytest.mark.parametrize("data", [b"", b"PK", b"PK\5\6", b"not a zip file at all" * 10])
def test_no_archive_at_all(data):
    with pytest.raises(CheckpointError, match="truncated"):
        opened(data)


def test_an_empty_archive():
    with pytest.raises(CheckpointError, match="no records"):
        opened(END.pack(b"PK\5\6", 0, 0, 0, 0, 0, 0, 0))


def test_missing_record():
    with pytest.raises(CheckpointError, match="no record 'data/7'"):
        opened(packed()).read("data/7")


def test_looks_like_zip():
    assert looks_like_zip(packed()[:4]) and not looks_like_zip(b"\x80\x02")


@settings(max_examples=300, deadline=None)
@given(st.integers(0, len(packed())), st.integers(0, 3))
def test_truncated_archives_are_refused(length, lost):
    data = packed()
    cut = data[lost:length] if lost else data[:length]
    if cut == data:
        return
    with pytest.raises(CheckpointError):
        archive = opened(cut)
        for name in archive.names():
            archive.read(name)


@settings(max_examples=250, deadline=None)
@given(st.data())
def test_damaged_archives_never_do_harm(data):
    """A few changed bytes: an error of ours, or bytes whose checksum agrees."""
    good = bytearray(packed())
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(good) - 1))
        good[place] = data.draw(st.integers(0, 255))
    try:
        archive = opened(bytes(good))
        read = {name: archive.array(name) for name in archive.names()}
    except CheckpointError:
        return
    total = sum(array.nbytes for array in read.values())
    assert total <= len(good)


def test_arrays_match_their_checksums():
    array = np.arange(1000, dtype=np.float32)
    archive = opened(packed({"data/0": memoryview(array.view(np.uint8))}))
    assert zlib.crc32(archive.array("data/0")) == zlib.crc32(array)
