"""Functions that `wend` exports, by family."""
