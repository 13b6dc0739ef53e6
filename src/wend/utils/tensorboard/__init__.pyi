# Made by `python -m wend._tools.stubs`; do not edit.
# mypy: disable-error-code="overload-overlap,overload-cannot-match,misc,override"
from wend.utils.tensorboard import summary as summary
from wend.utils.tensorboard import writer as writer
from wend.utils.tensorboard.writer import FileWriter as FileWriter
from wend.utils.tensorboard.writer import SummaryWriter as SummaryWriter
