"""PyTorch's place for the loader."""

from wend.frontend.data.collate import default_collate as default_collate
from wend.frontend.data.collate import default_convert as default_convert
from wend.frontend.data.info import get_worker_info as get_worker_info
from wend.frontend.data.loader import DataLoader as DataLoader
