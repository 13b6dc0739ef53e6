"""Matrix products and linear algebra, composed of primitives."""
