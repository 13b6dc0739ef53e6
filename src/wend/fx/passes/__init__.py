"""torch.fx.passes: walks over graphs."""

from wend.fx.passes import shape_prop

__all__ = ["shape_prop"]
