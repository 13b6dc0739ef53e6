"""Stores: keys and bytes that processes share."""
