"""Extreme multi-label classification under MPI, with a certificate for every label."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from proxml_mpi.api import load_model

__all__ = ["__version__", "load_model"]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Load the Python interface when it is first asked for: commands start without it."""
    if name == "load_model":
        importlib.import_module("proxml_mpi.kernel_cache").choose_cache()
        return importlib.import_module("proxml_mpi.api").load_model
    raise AttributeError(f"module 'proxml_mpi' has no attribute {name!r}")
