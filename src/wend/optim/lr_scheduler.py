# ruff: noqa: F401, F403
"""Learning rates that change from epoch to epoch."""

from wend.frontend.optim.lr_scheduler import *
from wend.frontend.optim.lr_scheduler import _LRScheduler
