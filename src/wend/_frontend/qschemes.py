"""torch.per_tensor_affine and its kin: how scales and zero points are spread over a tensor."""

from __future__ import annotations

from typing import Any

__all__ = [
    "per_channel_affine",
    "per_channel_affine_float_qparams",
    "per_channel_symmetric",
    "per_tensor_affine",
    "per_tensor_symmetric",
]


class QScheme:
    """How scales and zero points are spread over a tensor. name: as in PyTorch"""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> str:
        return self.name

    def __copy__(self) -> QScheme:
        return self

    def __deepcopy__(self, memo: Any) -> QScheme:
        return self


per_tensor_affine = QScheme("per_tensor_affine")
per_tensor_symmetric = QScheme("per_tensor_symmetric")
per_channel_affine = QScheme("per_channel_affine")
per_channel_symmetric = QScheme("per_channel_symmetric")
per_channel_affine_float_qparams = QScheme("per_channel_affine_float_qparams")
#: All of them, by name.
QSCHEMES = {
    scheme.name: scheme
    for scheme in (
        per_tensor_affine,
        per_tensor_symmetric,
        per_channel_affine,
        per_channel_symmetric,
        per_channel_affine_float_qparams,
    )
}
