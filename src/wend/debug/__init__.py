"""wend.debug: the work of the engine, with reasons."""

from wend.debug._bad_values import BadValue, find_nan, nan_guard
from wend.frontend.batching.report import Batches, batches
from wend.frontend.explanation import Explanation, explain
from wend.frontend.variant_table import VariantTable, variants

__all__ = [
    "BadValue",
    "Batches",
    "Explanation",
    "VariantTable",
    "batches",
    "explain",
    "find_nan",
    "nan_guard",
    "variants",
]
