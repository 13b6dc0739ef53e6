"""Adagrad."""

from wend.frontend.optim.adaptive import Adagrad
