"""torch.onnx: there is no exporter yet, and a call says so."""

from wend.frontend.platform import onnx_export as export
from wend.onnx.importing.loader import load

__all__ = ["export", "is_in_onnx_export", "load"]


def is_in_onnx_export() -> bool:
    """False: nothing is being exported."""
    return False
