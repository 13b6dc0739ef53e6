"""torch.backends.cpu: the instructions that the processor has."""

from wend import cpu as _cpu

__all__ = ["get_cpu_capability"]


def get_cpu_capability() -> str:
    """AVX512, AVX2 or DEFAULT."""
    capabilities = _cpu.get_capabilities()
    if capabilities.get("avx512_f"):
        return "AVX512"
    return "AVX2" if capabilities.get("avx2") else "DEFAULT"
