"""The value of the quadratic model, its best bias, and products with columns: see newton_lasso."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from proxml_mpi.solve.newton_data import inner

ONE, TWO, THREE, FOUR = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)


class Model(NamedTuple):
    """What of the model stays while it is minimised; the columns begin at work.starts[FEW]."""

    row: NDArray[np.uint32]  # of the active rows, by columns
    value: NDArray[np.float32]
    row_column: NDArray[np.uint32]  # behind the entries by columns: room for some of them by rows
    row_value: NDArray[np.float32]
    n_columns: int
    n_active: int
    m: float  # n_active, and the active rows without features
    cap: float  # of the bias
    with_bias: bool
    half: float  # lambda / 2
    half_ridge: float  # mu / 2


@inner
def soft(x: float, by: float) -> float:
    """Soft threshold."""
    if x > by:
        return x - by
    if x < -by:
        return x + by
    return 0.0


@inner
def best_bias(model: Model, total: float) -> float:
    """Return the bias that minimises the model for fixed weights; total = E."""
    if not model.with_bias or model.m <= 0.0:
        return min(0.0, model.cap) if model.with_bias else 0.0
    return min(soft(total, model.half) / model.m, model.cap)


@inner
def model_value(model: Model, u: NDArray[np.float64], e: NDArray[np.float64], b: float) -> float:
    """Return the model's value; active rows beyond the local ones have no features and the label -1."""
    squares = 0.0
    for r in range(model.n_active):
        squares += (e[r] - b) * (e[r] - b)
    norm, square = abs(b), 0.0
    for j in range(model.n_columns):
        norm += abs(u[j])
        square += u[j] * u[j]
    squares += (model.m - model.n_active) * (1.0 + b) * (1.0 + b)
    return squares + 2.0 * model.half * norm + model.half_ridge * square


@inner
def dot(
    row: NDArray[np.uint32],
    value: NDArray[np.float32],
    start: np.uint64,
    end: np.uint64,
    e: NDArray[np.float64],
) -> float:
    """Return the product of a column with e; four sums at a time, since each addition waits for the one before."""
    a0, a1, a2, a3 = 0.0, 0.0, 0.0, 0.0
    entry = start
    while entry + THREE < end:
        a0 += value[entry] * e[row[entry]]
        a1 += value[entry + ONE] * e[row[entry + ONE]]
        a2 += value[entry + TWO] * e[row[entry + TWO]]
        a3 += value[entry + THREE] * e[row[entry + THREE]]
        entry += FOUR
    while entry < end:
        a0 += value[entry] * e[row[entry]]
        entry += ONE
    return (a0 + a1) + (a2 + a3)
