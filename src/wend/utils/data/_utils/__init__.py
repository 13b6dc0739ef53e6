"""The parts of the loader; programs reach into `collate` here, as in PyTorch."""

from wend.utils.data._utils import collate as collate
