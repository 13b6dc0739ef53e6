"""AdamW."""

from wend.frontend.optim.adam import AdamW
