"""From weights and instances to ranked labels and metrics."""
