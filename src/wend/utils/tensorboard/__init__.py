"""wend.utils.tensorboard: event files that TensorBoard opens.  Needs `wend[tensorboard]`."""

from wend.utils.tensorboard.writer import FileWriter, SummaryWriter

__all__ = ["FileWriter", "SummaryWriter"]
