"""Handles that share data, and changes in place."""
