"""The lowest layer: errors, element types, shapes, devices, settings, trees.

The layer imports nothing of Wend's upper layers.
"""
