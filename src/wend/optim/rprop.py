"""Rprop."""

from wend.frontend.optim.first_order import Rprop
