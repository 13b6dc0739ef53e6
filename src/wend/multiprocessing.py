"""wend.multiprocessing: Python's own, with tensors sent by value."""

from multiprocessing import *  # noqa: F403
from multiprocessing import get_context, set_start_method

__all__ = ["get_context", "set_start_method"]
