"""RAdam."""

from wend.frontend.optim.adam_variants import RAdam
