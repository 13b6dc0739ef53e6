"""Schedules of learning rates, which `wend.optim.lr_scheduler` shows."""
