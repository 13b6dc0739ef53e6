# ruff: noqa: F401
"""RMSprop."""

from wend.frontend.optim.adaptive import RMSprop
