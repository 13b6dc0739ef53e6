# ruff: noqa: F403
"""Recurrent networks."""

from wend.frontend.nn.rnn import *
