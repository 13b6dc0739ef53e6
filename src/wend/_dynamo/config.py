"""torch._dynamo.config: settings of PyTorch's tracer, to be read and set, without effect.

Wend compiles paths as they come back, for all sizes: nothing is guarded, recompiled or cached per
size.
"""

from __future__ import annotations

from typing import Any

from wend._frontend.static.patched import Patched

accumulated_recompile_limit = 256
accumulated_cache_size_limit = 256
allow_ignore_mark_dynamic = False
allow_rnn = False
allow_unspec_int_on_nn_module = False
assume_static_by_default = True
automatic_dynamic_shapes = True
cache_size_limit = 8
capture_dynamic_output_shape_ops = False
capture_func_transforms = True
capture_scalar_outputs = False
compiled_autograd = False
dynamic_shapes = True
error_on_recompile = False
fail_on_recompile_limit_hit = False
force_nn_module_property_static_shapes = True
force_parameter_static_shapes = True
guard_nn_modules = True
inline_inbuilt_nn_modules = True
log_level = None
optimize_ddp = True
recompile_limit = 8
repro_after = None
skip_nnmodule_hook_guards = True
specialize_float = False
specialize_int = False
suppress_errors = False
trace_numpy = True
verbose = False


def patch(*changes: Any, **named: Any) -> Patched:
    """A context manager and decorator under which settings have new values.

    changes: a name and a value, or a dict
    """
    return Patched(globals(), *changes, **named)
