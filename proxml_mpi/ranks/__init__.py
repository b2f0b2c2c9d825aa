"""Everything about MPI: the world, shared arrays, who owns which labels."""
