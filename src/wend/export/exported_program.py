"""The class of exported programs, at the second address of PyTorch's."""

from wend.export._program import ExportedProgram

__all__ = ["ExportedProgram"]
