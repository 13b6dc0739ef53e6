"""Adadelta."""

from wend.frontend.optim.adaptive import Adadelta
