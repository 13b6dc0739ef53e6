"""Seeing: graphs of a step as objects, text, pictures and pages."""
