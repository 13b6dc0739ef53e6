# mypy: ignore-errors
# cython: boundscheck=False, wraparound=False, auto_pickle=False
"""Calls of ops in forms not met lately: the arguments are bound in Python, and the form is kept.

Compiled with the types in `_calls.pxd`, or run as plain Python: see `_hot.py`, which takes calls in
known forms apart, and leaves all further calls to these functions through `COLD`.
"""

from wend._engine.core._hot import has_override, record_list

MOST_LENGTHS = 128  # of lists of tensors whose calls a function knows


def unpack(args, nargs, kwnames):
    """Raw arguments as (tuple, dict)."""
    positional = tuple([arg(args, i) for i in range(nargs)])
    keywords = {}
    if kwnames is not None:
        i = nargs
        for name in kwnames:
            keywords[name] = arg(args, i)
            i += 1
    return positional, keywords


def call_override(function, args, nargs, kwnames):
    """A call with a tensor of a class that overrides `__torch_function__`."""
    return SLOTS.torch_function(function, *unpack(args, nargs, kwnames))


def call_cold(function, args, nargs, kwnames):
    """A form of call not met lately: bind the arguments in Python."""
    positional, keywords = unpack(args, nargs, kwnames)
    for a in positional:
        if has_override(a):
            return SLOTS.torch_function(function, positional, keywords)
    for a in keywords.values():
        if has_override(a):
            return SLOTS.torch_function(function, positional, keywords)
    if keywords:
        if "out" in keywords:
            return SLOTS.call_out(function, positional, keywords)
        if "device" in keywords and function.general is None:
            positional, keywords = SLOTS.strip_device(function, positional, keywords)
    if function.general is not None:
        found = function.general(positional, keywords)
        if found is not NotImplemented:
            return found
    prim, tensors, values, plan = function.binder.bind(positional, keywords)
    if plan is not None and plan.prim is prim:
        remember(function, plan)
    if prim.check_strides and tensors[0].alias is not None:
        SLOTS.check_view(prim, tensors[0], values)
    if plan is not None and plan.same_dtype is not None:
        if tensors[0].value.type.dtype is plan.same_dtype:
            return tensors[0]
    result = record_list(prim, tensors, values)
    if function.inplace:
        assign(tensors[0], result, function)
        return tensors[0]
    return result


def remember(function, plan):
    """Keep the plan of a form of call; the quickest forms have fields beside `plans`."""
    function.plans.insert(0, plan)
    if len(function.plans) > 12:
        function.plans.pop()
    function.plan0 = plan
    if not plan.is_quick():
        return
    roles = plan.roles
    if roles == bytes([R_TENSORS]):
        if len(function.lengths) >= MOST_LENGTHS:
            function.lengths.clear()
        function.lengths[plan.extras[0]] = plan
    if roles == bytes([R_TENSOR]) and not plan.has_args:
        function.one = plan.prim
    elif roles == bytes([R_TENSOR, R_TENSOR]) and not plan.has_args:
        function.two = plan.prim
    elif roles == bytes([R_TENSOR, R_TENSOR, R_TENSOR]) and not plan.has_args:
        function.three = plan.prim
    elif roles == bytes([R_TENSORS]) and plan.extras[0] == 2 and not function.inplace:
        function.pair = plan.prim
    elif roles == bytes([R_TENSOR, R_FLOAT]):
        function.with_float = plan.prim
    elif roles == bytes([R_TENSOR, R_INT]):
        function.with_int = plan.prim
    elif roles == bytes([R_FLOAT, R_TENSOR]) and not function.inplace:
        function.from_float = plan.prim
    elif roles == bytes([R_INT, R_TENSOR]) and not function.inplace:
        function.from_int = plan.prim


COLD.call_cold = call_cold
COLD.call_override = call_override
