"""SGD."""

from wend.frontend.optim.sgd import SGD
