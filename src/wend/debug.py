"""wend.debug: what the engine did, and why."""

from wend.frontend.batching.report import Batches, batches
from wend.frontend.explanation import Explanation, explain

__all__ = ["Batches", "Explanation", "batches", "explain"]
