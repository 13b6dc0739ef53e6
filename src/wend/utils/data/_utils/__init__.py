"""PyTorch's place for the parts of the loader that programs reach into."""

from wend.utils.data._utils import collate as collate
