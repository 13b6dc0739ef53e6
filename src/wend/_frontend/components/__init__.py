"""Ops on tensors that are made of components: on masked, nested and sparse tensors, and on meta.

The module `table` of each package states which family an op belongs to, and gives the op's rule.
A family is a function of the package: how such ops act on the components.
"""

from wend._frontend.components.calls import (
    BoundCall,
    Call,
    forms_of,
    is_dim,
    mapped,
    tensors_in,
)
from wend._frontend.components.table import OpTable, as_called, refused

__all__ = [
    "BoundCall",
    "Call",
    "OpTable",
    "as_called",
    "forms_of",
    "is_dim",
    "mapped",
    "refused",
    "tensors_in",
]
