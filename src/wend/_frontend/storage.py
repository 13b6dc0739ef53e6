"""Storages: the memory of a tensor and its views, as a separate object."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from wend._engine.base.devices import CPU
from wend._engine.base.devices import device as Device
from wend._engine.base.dtypes import DType, uint8
from wend._engine.base.errors import NotImplementedInWend
from wend._engine.core._hot import Tensor
from wend._engine.core.primitive import ops
from wend._frontend import creation
from wend._frontend.aliasing.versions import storage_of

__all__ = ["TypedStorage", "UntypedStorage"]


class UntypedStorage:
    """The bytes of a tensor's memory; reading and writing an item reads and writes the tensor."""

    dtype: DType = uint8
    device: Device = CPU  # or META
    is_cuda = is_sparse = False

    def __init__(self, tensor: Tensor) -> None:
        alias = tensor.alias
        base = tensor if alias is None or alias.base is None else alias.base
        self._base = ops.detach(base)
        self.device = tensor.device
        self._memory = storage_of(self._base)

    def nbytes(self) -> int:
        """Number of bytes."""
        return int(self._base.nbytes)

    def __sizeof__(self) -> int:
        return super().__sizeof__() + self.nbytes()

    def size(self) -> int:
        """Number of elements: of bytes, if untyped."""
        return self.nbytes() // self.dtype.itemsize

    def element_size(self) -> int:
        """Bytes of an element."""
        return int(self.dtype.itemsize)

    def data_ptr(self) -> int:
        """Address of the memory.  From now on the memory is shared until freed."""
        return self._base.data_ptr()

    def resizable(self) -> bool:
        """False: see `resize_`."""
        return False

    def resize_(self, size: int) -> UntypedStorage:
        """The storage, if of that size.  Raises NotImplementedInWend for any other size."""
        if size != self.size():
            raise NotImplementedInWend(
                f"{type(self).__name__}.resize_: a storage of {self.size()} elements cannot become "
                f"one of {size}: memory is managed by the engine; use Tensor.resize_"
            )
        return self

    def is_shared(self) -> bool:
        """Whether the memory is shared between processes."""
        return False

    def tolist(self) -> list[Any]:
        """The elements as Python numbers."""
        return self._elements().tolist()  # type: ignore[no-any-return]

    def fill_(self, value: complex) -> UntypedStorage:
        """Overwrite every element."""
        self._elements().fill_(value)
        return self

    def _elements(self) -> Tensor:
        return ops.reinterpret(ops.view(self._base, (-1,)), self.dtype)  # type: ignore[no-any-return]

    def __len__(self) -> int:
        return self.size()

    def __getitem__(self, index: int | slice) -> Any:
        part = self._elements()[index]
        return part.tolist() if part.dim() else part.item()

    def __setitem__(self, index: int | slice, value: complex) -> None:
        self._elements()[index] = value

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._memory is other._memory

    def __hash__(self) -> int:
        return id(self._memory)

    @property
    def _cdata(self) -> int:
        return id(self._memory)

    def __repr__(self) -> str:
        shown = self.tolist() if self.device is CPU else ()
        head = "".join(f" {item}\n" for item in shown) if self.device is CPU else "...\n"
        place = f"device={self.device}"
        of = f"dtype={self.dtype}, {place}" if self.dtype is not uint8 else place
        return f"{head}[torch.storage.{type(self).__name__}({of}) of size {self.size()}]"


class TypedStorage(UntypedStorage):
    """A tensor's memory as elements of the tensor's dtype."""

    def __init__(self, content: Any = 0, *, dtype: DType | None = None) -> None:
        """content: a tensor, the number of elements, or the elements"""
        if isinstance(content, int):
            content = creation.zeros(content, dtype=dtype)
        elif not isinstance(content, Tensor):
            content = creation.tensor(list(content), dtype=dtype)
        tensor: Tensor = content
        super().__init__(tensor)
        self.dtype: DType = tensor.dtype
        self._tensor = tensor

    def untyped(self) -> UntypedStorage:
        """The same memory as bytes."""
        return UntypedStorage(self._tensor)

    _untyped_storage = property(untyped)


def untyped_storage(self: Tensor) -> UntypedStorage:
    """The bytes of the memory that this tensor lies in."""
    return UntypedStorage(self)


def storage(self: Tensor) -> TypedStorage:
    """The memory of this tensor, as elements of the tensor's dtype."""
    return TypedStorage(self)


for _name, _method in (("untyped_storage", untyped_storage), ("storage", storage)):
    setattr(Tensor, _name, _method)
Tensor._typed_storage = storage
