"""torch.distributed.elastic: names for programs and starters that know torchrun."""
