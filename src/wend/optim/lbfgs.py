"""LBFGS."""

from wend.frontend.optim.lbfgs import LBFGS
