"""Tuning: a path over lambda on held-out instances, and what it says."""
