# ruff: noqa: F403
"""Tables of vectors looked up by index."""

from wend.frontend.nn.sparse import *
