"""torch.utils.dlpack: memory shared with other libraries."""

from wend._frontend.interop.exchange import from_dlpack, to_dlpack

__all__ = ["from_dlpack", "to_dlpack"]
