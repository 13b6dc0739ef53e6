"""wend.utils.tensorboard: event files that TensorBoard opens.  Needs `wend-dl[tensorboard]`."""

from wend.utils.tensorboard.writer import FileWriter, SummaryWriter

__all__ = ["FileWriter", "SummaryWriter"]
