"""wend.random: seeds and states of the random number generators."""

from wend._frontend.random import (
    Generator,
    default_generator,
    fork_rng,
    get_rng_state,
    initial_seed,
    manual_seed,
    seed,
    set_rng_state,
)

__all__ = [
    "default_generator",
    "fork_rng",
    "get_rng_state",
    "initial_seed",
    "manual_seed",
    "seed",
    "set_rng_state",
    "thread_safe_generator",
]


def thread_safe_generator() -> Generator | None:
    """The generator of a `DataLoader`'s worker thread: None, for workers are processes.

    None lets functions draw from the default generator, of which each worker has a copy.
    """
    return None
