"""torch._inductor: settings of PyTorch's code generator, which programs set; Wend has its own."""

from wend._frontend.static.compiling import MODES
from wend._inductor import config

__all__ = ["config", "list_mode_options"]


def list_mode_options(mode: str | None = None, dynamic: bool | None = None) -> dict[str, object]:
    """Per mode of `torch.compile` its options: none, as no mode changes anything."""
    return {} if mode is not None else {name: {} for name in MODES}
