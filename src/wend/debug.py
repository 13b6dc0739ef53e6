"""wend.debug: the work of the engine, with reasons."""

from wend.frontend.batching.report import Batches, batches
from wend.frontend.explanation import Explanation, explain

__all__ = ["Batches", "Explanation", "batches", "explain"]
