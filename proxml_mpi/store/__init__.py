"""Everything about HDF5: the model file."""
