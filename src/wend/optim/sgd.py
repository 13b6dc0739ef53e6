# ruff: noqa: F401
"""SGD."""

from wend.frontend.optim.sgd import SGD
