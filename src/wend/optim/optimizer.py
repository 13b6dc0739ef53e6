# ruff: noqa: F401, F403
"""The base class of all optimizers."""

from wend.frontend.optim.optimizer import *
from wend.frontend.optim.optimizer import required
