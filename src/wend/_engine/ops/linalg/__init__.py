"""Linear algebra by LAPACK: factorisations, systems of equations, spectra, functions of matrices.

NumPy's batched routines serve where they exist, LAPACK matrix by matrix where not.
"""
