"""Predictions as text: a header `N L`, then `label:score label:score ...` for every instance, best first."""

import sys

import numpy as np
from numpy.typing import NDArray

from proxml_mpi.errors import UserError


def prediction_header(n_instances: int, n_labels: int) -> bytes:
    """Return the first line of a file of predictions."""
    return f"{n_instances} {n_labels}\n".encode()


def prediction_lines(labels: NDArray[np.int32], scores: NDArray[np.float32]) -> bytes:
    """Return one line an instance: labels int32 [n, k], -1 where there is none, and scores float32 alike."""
    pairs = (zip(row, row_scores, strict=True) for row, row_scores in zip(labels.tolist(), scores, strict=True))
    lines = (" ".join(f"{label}:{score:.7g}" for label, score in row if label >= 0) for row in pairs)
    return "".join(f"{line}\n" for line in lines).encode()


def write_lines(labels: NDArray[np.int32], scores: NDArray[np.float32]) -> None:
    """Write lines to standard output, at once."""
    try:
        sys.stdout.buffer.write(prediction_lines(labels, scores))
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        sys.stdout = None  # or Python would try, and fail, to flush it at its end
        raise UserError("standard output: found it closed, expected a reader for every answer") from None
