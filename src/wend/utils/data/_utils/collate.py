"""PyTorch's place for collating."""

from wend.frontend.data.collate import collate as collate
from wend.frontend.data.collate import default_collate as default_collate
from wend.frontend.data.collate import default_collate_fn_map as default_collate_fn_map
from wend.frontend.data.collate import default_convert as default_convert
