"""Views: ops that share the elements of their input."""
