"""torch._inductor.config: settings that may be read and set, and change nothing."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from wend._frontend.static.patched import Patched

aggressive_fusion = False
allow_buffer_reuse = True
autotune_local_cache = True
benchmark_kernel = False
compile_threads = 1
conv_1x1_as_mm = False
coordinate_descent_check_all_directions = False
coordinate_descent_tuning = False
cpp_wrapper = False
debug = False
epilogue_fusion = True
fallback_random = False
force_fuse_int_mm_with_mul = False
freezing = False
fx_graph_cache = True
fx_graph_remote_cache = None
layout_optimization = True
max_autotune = False
max_autotune_gemm = False
max_autotune_gemm_backends = "ATEN,TRITON,CPP"
max_autotune_pointwise = False
permute_fusion = False
shape_padding = True
split_reductions = True
unroll_reductions_threshold = 8
use_mixed_mm = True
aot_inductor = SimpleNamespace(output_path="", package=False)
cpp = SimpleNamespace(threads=-1, simdlen=None, weight_prepack=True, enable_kernel_profile=False)
cuda = SimpleNamespace(arch=None, compile_opt_level="-O1", use_fast_math=False)
trace = SimpleNamespace(enabled=False, graph_diagram=False)
triton = SimpleNamespace(
    cudagraph_trees=True, cudagraphs=False, persistent_reductions=True, unique_kernel_names=True
)


def patch(*changes: Any, **named: Any) -> Patched:
    """A context manager and decorator under which settings have new values.

    changes: a name and a value, or a dict
    """
    return Patched(globals(), *changes, **named)
