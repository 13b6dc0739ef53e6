"""torch.distributed.tensor: how ranks share a tensor; no tensor of Wend is shared so."""

from wend._engine.base.lazy_modules import load_when_named
from wend.distributed.device_mesh import DeviceMesh, init_device_mesh
from wend.distributed.tensor._api import (
    DTensor,
    distribute_module,
    distribute_tensor,
    empty,
    full,
    ones,
    rand,
    randn,
    zeros,
)
from wend.distributed.tensor.placement_types import Partial, Placement, Replicate, Shard

__all__ = [
    "DTensor",
    "DeviceMesh",
    "Partial",
    "Placement",
    "Replicate",
    "Shard",
    "distribute_module",
    "distribute_tensor",
    "empty",
    "full",
    "init_device_mesh",
    "ones",
    "rand",
    "randn",
    "zeros",
]

load_when_named(__name__, "device_mesh experimental parallel placement_types")
