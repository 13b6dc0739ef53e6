"""wend.debug: the work of the engine, with reasons."""

from wend.frontend.batching.report import Batches, batches
from wend.frontend.explanation import Explanation, explain
from wend.frontend.variant_table import VariantTable, variants

__all__ = ["Batches", "Explanation", "VariantTable", "batches", "explain", "variants"]
