"""Views: ops that share the elements of the input."""
