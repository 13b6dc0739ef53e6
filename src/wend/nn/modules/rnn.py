"""Recurrent networks."""

from wend.frontend.nn.rnn import *
