"""Optimizers and schedules of learning rates."""

from wend.frontend.optim import *
from wend.optim import lr_scheduler, swa_utils
