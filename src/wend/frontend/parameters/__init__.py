"""Parameters and buffers."""
