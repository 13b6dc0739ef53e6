"""Uncompiled core: fields that C would clear when an object is made, as class attributes."""

from __future__ import annotations

import functools
from types import ModuleType

#: Per class the fields that are None, 0 and False at first.
FIELDS = {
    "Value": ("type buffer trace leaf segment error extra packed", "serial index seg_index",
              "requires_grad inference"),
    "Tensor": ("value leaf derived _layout _grad", "version part _views", "_moved"),
    "Alias": ("base storage prim args outer layout writes leaf", "version storage_version",
              "plain"),
    "Record": ("prim rest mode out_type outs program code", "n_in lasti first n_out arg0",
               "many is_step requires_grad linked within"),
    "State": ("parent t0 t1 t2 trest last_args children child plans nodes leaves step",
              "depth inner stamp born passed gained simple ending", ""),
    "Trace": ("state sites extra site_code", "site_lasti", ""),
    "TensorType": ("size extents kind", "nbytes", ""),
    "PrimitiveBase": ("last_t0 last_t1 last_t2 last_more last_rest last_program last_outs piece"
                      " piece_outs piece_args cut_from cut cut_program", "", ""),
    "Mode": ("off", "", ""),
    "Segment": ("structure inputs saved types args sites hooks", "", ""),
    "Program": ("graph runner kinds", "", ""),
    "ModuleBase": ("", "n_hooks", ""),
}  # fmt: skip
#: Classes whose objects come, compiled, from memory kept for reuse: `fresh_value()`.
KEPT = ("Value", "Tensor", "Alias", "Record", "TensorType")


def set_defaults(part: ModuleType) -> None:
    """Give the classes of a part of the core default fields, and functions that make objects."""
    for name, fields in FIELDS.items():
        cls = vars(part).get(name)
        if cls is None or cls.__module__ != part.__name__:
            continue
        for names, default in zip(fields, (None, 0, False), strict=True):
            for field in names.split():
                setattr(cls, field, default)
        if name in KEPT:
            make = functools.partial(cls.__new__, cls)
            setattr(part, f"fresh_{name.lower()}", make)
            setattr(part, f"watched_{name.lower()}", make)  # by the cyclic collector
    if hasattr(part, "leave_base"):
        part.Alias.__del__ = part.leave_base
