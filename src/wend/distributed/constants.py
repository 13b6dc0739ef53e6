"""torch.distributed.constants: times that nobody has set."""

from wend.distributed._group import DEFAULT_TIMEOUT as default_pg_timeout

__all__ = ["default_pg_nccl_timeout", "default_pg_timeout"]

default_pg_nccl_timeout = default_pg_timeout
