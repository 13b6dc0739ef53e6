"""torch.autograd.profiler: ranges with names; timing is the business of wend's own tools."""

from wend.frontend.profiler import emit_nvtx, profile, record_function

__all__ = ["emit_nvtx", "profile", "record_function"]
