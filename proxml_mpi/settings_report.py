"""Frozen settings of proxml-analyze report."""
