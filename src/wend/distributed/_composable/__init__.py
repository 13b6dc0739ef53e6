"""torch.distributed._composable: older names of functions that change a module in place."""
