"""NAdam."""

from wend.frontend.optim.adam_variants import NAdam
