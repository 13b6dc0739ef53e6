"""Names for annotations of sizes of layers: `size_2_t` is an int, or a tuple of two."""

from typing import Any, TypeAlias

T = Any
size_any_t: TypeAlias = int | tuple[int, ...]
size_1_t = size_2_t = size_3_t = size_4_t = size_5_t = size_6_t = size_any_t
size_any_opt_t: TypeAlias = int | tuple[int | None, ...] | None
size_2_opt_t = size_3_opt_t = size_any_opt_t
ratio_any_t: TypeAlias = float | tuple[float, ...]
ratio_2_t = ratio_3_t = ratio_any_t

__all__: list[str] = []
