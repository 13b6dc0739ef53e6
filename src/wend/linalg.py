"""torch.linalg: norms and products; of the decompositions, Cholesky's so far."""

from wend.base.errors import LinAlgError
from wend.core.primitive import ops as _ops
from wend.frontend.linalg import cholesky, solve

cross = _ops.cross_along
diagonal = _ops.linalg_diagonal
matmul = _ops.matmul
matrix_norm = _ops.matrix_norm
matrix_power = _ops.matrix_power
multi_dot = _ops.multi_dot
norm = _ops.linalg_norm
vander = _ops.linalg_vander
vecdot = _ops.vecdot
vector_norm = _ops.vector_norm

__all__ = [
    "LinAlgError",
    "cholesky",
    "cross",
    "diagonal",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "multi_dot",
    "norm",
    "solve",
    "vander",
    "vecdot",
    "vector_norm",
]
