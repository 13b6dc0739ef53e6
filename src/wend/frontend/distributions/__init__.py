"""Probability distributions: parameters, samples, densities, divergences."""
