"""wend.debug: what the engine did, and why."""

from wend.frontend.explanation import Explanation, explain

__all__ = ["Explanation", "explain"]
