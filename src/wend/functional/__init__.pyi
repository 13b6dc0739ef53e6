# Made by `python -m wend._tools.stubs`; do not edit.
# mypy: disable-error-code="overload-overlap,overload-cannot-match,misc,override"
from wend import atleast_1d as atleast_1d
from wend import atleast_2d as atleast_2d
from wend import atleast_3d as atleast_3d
from wend import block_diag as block_diag
from wend import broadcast_shapes as broadcast_shapes
from wend import broadcast_tensors as broadcast_tensors
from wend import cartesian_prod as cartesian_prod
from wend import cdist as cdist
from wend import chain_matmul as chain_matmul
from wend import einsum as einsum
from wend import istft as istft
from wend import lu as lu
from wend import meshgrid as meshgrid
from wend import norm as norm
from wend import pca_lowrank as pca_lowrank
from wend import split as split
from wend import stft as stft
from wend import svd_lowrank as svd_lowrank
from wend import tensordot as tensordot
from wend import unique as unique
from wend import unique_consecutive as unique_consecutive
from wend import unravel_index as unravel_index
