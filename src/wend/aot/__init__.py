"""wend.aot: a model as a shared library with a C header, which runs without Python."""

from wend.aot._compilation import Compiled, compile  # noqa: A004 (as torch.compile is)

__all__ = ["Compiled", "compile"]
