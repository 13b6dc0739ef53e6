"""Changes of shape."""

from wend.frontend.nn.flatten import *
