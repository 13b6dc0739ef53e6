"""`torch.cuda.FloatTensor` and its siblings: classes that no tensor and no storage belongs to.

Programs ask `isinstance(x, torch.cuda.FloatTensor)` and keep these classes in tables.
"""

from __future__ import annotations

from typing import Any, NoReturn

from wend._engine.base.dtypes import DType
from wend._engine.base.errors import ArgumentTypeError
from wend._frontend import typed


class AbsentType(type):
    """The metaclass: calls raise ArgumentTypeError, and nothing is an instance."""

    dtype: DType
    is_cuda = True

    def __call__(cls, *args: Any, **keywords: Any) -> NoReturn:
        raise ArgumentTypeError(
            f"torch.cuda.{cls.__name__} is not available: Wend computes on 'cpu' only so far; use "
            f"torch.{cls.__name__}"
        )

    def __instancecheck__(cls, instance: Any) -> bool:
        return False

    def __repr__(cls) -> str:
        return f"<class 'torch.cuda.{cls.__name__}'>"


def _made(name: str, dtype: DType) -> AbsentType:
    members = {
        "__doc__": f"No tensor is a {name} of CUDA. Calls raise ArgumentTypeError.",
        "__module__": "wend.cuda",
        "dtype": dtype,
    }
    return AbsentType(name, (), members)


CLASSES = {
    name: _made(name, getattr(typed, twin).dtype)
    for twin in typed.__all__
    for name in (twin, twin.replace("Tensor", "Storage"))
}
