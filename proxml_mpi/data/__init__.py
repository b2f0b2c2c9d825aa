"""The data set: readers, weighting, splitting and synthetic data."""
