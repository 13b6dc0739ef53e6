"""Tools beside the model: data loading, checkpointing."""
