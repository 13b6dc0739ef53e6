"""RMSprop."""

from wend.frontend.optim.adaptive import RMSprop
