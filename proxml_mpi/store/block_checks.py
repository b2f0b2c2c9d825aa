"""Checks of solutions that come from a file: whatever passed them can be stored, scored and started from."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proxml_mpi.solve.block import Block
from proxml_mpi.solve.problem import Outcome

Problem = Callable[[str], Exception]  # makes an error of words


def require(problem: Problem, holds: bool, name: str, found: object, expected: str) -> None:
    """Raise the problem unless something holds."""
    if not holds:
        raise problem(f"{name}: found {found}, expected {expected}")


def check_block(problem: Problem, block: Block, n_features: int) -> None:
    """Refuse a block with anything that a kernel or a reader could stumble over; its arrays have the right lengths."""
    check_indptr(problem, "weights/indptr", block.indptr, len(block.indices))
    check_range(problem, "weights/indices", block.indices, 0, n_features - 1)
    _check_ascending(problem, "weights/indices", block.indptr, block.indices)
    check_finite(problem, "weights/data", block.data)
    check_finite(problem, "labels/lambda", block.lambda_)
    usable = np.isfinite(block.bias) | (block.bias == -np.inf)
    require(problem, bool(usable.all()), "bias", block.bias[~usable][:1], "finite numbers or -inf")
    check_range(problem, "labels/n_positives", block.n_positives, 0, np.iinfo(np.int32).max)
    check_range(problem, "labels/outcome", block.outcome, 0, max(Outcome))


def check_indptr(problem: Problem, name: str, indptr: NDArray[np.int64], n_entries: int) -> None:
    """Refuse beginnings of rows that a kernel would follow out of the array."""
    require(problem, indptr[0] == 0, f"{name}[0]", indptr[0], "0")
    require(problem, indptr[-1] == n_entries, f"the last of {name}", indptr[-1], f"{n_entries}")
    # Compared, not subtracted: differences of hostile numbers overflow.
    require(problem, bool(np.all(indptr[1:] >= indptr[:-1])), name, "a descent", "ascending numbers")


def check_range(problem: Problem, name: str, values: NDArray[Any], low: int, high: int) -> None:
    """Refuse numbers below low or above high."""
    outside = values[(values < low) | (values > high)]
    require(problem, len(outside) == 0, name, outside[:1], f"numbers from {low} to {high}")


def check_finite(problem: Problem, name: str, values: NDArray[Any]) -> None:
    """Refuse infinities and what is no number."""
    unusable = values[~np.isfinite(values)]
    require(problem, len(unusable) == 0, name, unusable[:1], "finite numbers")


def _check_ascending(problem: Problem, name: str, indptr: NDArray[np.int64], indices: NDArray[np.int32]) -> None:
    """Refuse ids that do not ascend within a row."""
    if len(indices) < 2:
        return
    descends = indices[1:] <= indices[:-1]
    begins = indptr[1:-1]
    begins = begins[(begins > 0) & (begins < len(indices))]
    descends[begins - 1] = False
    require(problem, not descends.any(), name, "a descent within a row", "ascending ids")
