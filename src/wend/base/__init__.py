"""The lowest layer: errors, element types, shapes, devices, settings, trees.

It imports nothing of Wend's other layers.
"""
