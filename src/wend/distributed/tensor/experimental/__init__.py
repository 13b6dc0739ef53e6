"""torch.distributed.tensor.experimental: ways to use distributed tensors, which Wend lacks."""

from wend.distributed.tensor._api import refusal

__all__ = ["context_parallel", "implicit_replication", "local_map", "register_sharding"]

context_parallel = refusal("experimental.context_parallel")
implicit_replication = refusal("experimental.implicit_replication")
local_map = refusal("experimental.local_map")
register_sharding = refusal("experimental.register_sharding")
