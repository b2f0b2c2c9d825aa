"""From arrays to solution records: objective, certificate, solvers."""
