"""torch.storage: the memory of tensors."""

from wend._frontend.storage import TypedStorage, UntypedStorage

__all__ = ["TypedStorage", "UntypedStorage"]
