"""What this machine, MPI, HDF5, threads and scheduler can do, and what to change."""
