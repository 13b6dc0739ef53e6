"""torch.utils.model_zoo: the old address of `torch.hub.load_state_dict_from_url`."""

from wend.hub import load_state_dict_from_url as load_url
from wend.hub import tqdm

__all__ = ["load_url", "tqdm"]
