"""Adam."""

from wend.frontend.optim.adam import Adam
