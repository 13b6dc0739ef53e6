"""Special functions of arrays of floats, by NumPy: the reference for generated code.

They take float32 and float64 arrays of any shapes that broadcast, and compute in float64.
"""
