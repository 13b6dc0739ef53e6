"""Gradients clipped by norm or by value."""

from wend.frontend.nn.gradients import *
