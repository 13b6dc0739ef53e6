"""Tensors whose memory is a file."""

from __future__ import annotations

import mmap
import os

from wend._engine.base.devices import DeviceLike
from wend._engine.base.dtypes import DType, get_default_dtype
from wend._engine.base.errors import ArgumentError
from wend._engine.core._hot import Tensor
from wend._frontend.creation import Options, at_place, frombuffer
from wend._frontend.formats import layout

__all__ = ["from_file"]


def from_file(
    filename: str,
    shared: bool | None = None,
    size: int | None = 0,
    *,
    dtype: DType | None = None,
    layout: layout | None = None,
    device: DeviceLike = None,
    pin_memory: bool | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """The 1-d tensor of the first `size` elements in a file.

    shared: writes to the tensor go to the file, which is made, or made longer, where needed
    Raises ArgumentError for a file that is too small.
    """
    options = Options("from_file", dtype, device, layout, False, bool(pin_memory))
    wanted = options.dtype or get_default_dtype()
    count = size or 0
    length = count * wanted.itemsize
    flags = (os.O_RDWR | os.O_CREAT) if shared else os.O_RDONLY
    file = os.open(filename, flags, 0o600)
    try:
        present = os.fstat(file).st_size
        if present < length and not shared:
            raise ArgumentError(
                f"from_file: {filename} has {present} bytes, and {count} elements of {wanted} "
                f"take {length}"
            )
        if present < length:
            os.ftruncate(file, length)
        if not length:
            empty = frombuffer(bytearray(wanted.itemsize), dtype=wanted)[:0]
            return empty.requires_grad_(bool(requires_grad))
        access = mmap.ACCESS_WRITE if shared else mmap.ACCESS_COPY
        memory = mmap.mmap(file, length, access=access)
        tensor = frombuffer(memory, dtype=wanted, count=count)
        return at_place(tensor, options.place).requires_grad_(bool(requires_grad))
    finally:
        os.close(file)
