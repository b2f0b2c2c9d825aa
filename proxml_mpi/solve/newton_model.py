"""The value of the quadratic model, and its best bias: see newton_lasso."""

import numpy as np
from numpy.typing import NDArray

from proxml_mpi.solve.newton_data import inner


@inner
def soft(x: float, by: float) -> float:
    """Soft threshold."""
    if x > by:
        return x - by
    if x < -by:
        return x + by
    return 0.0


@inner
def best_bias(total: float, m: float, cap: float, with_bias: bool, half: float) -> float:
    """Return the bias that minimises the model for fixed weights; total = E."""
    if not with_bias or m <= 0.0:
        return min(0.0, cap) if with_bias else 0.0
    return min(soft(total, half) / m, cap)


@inner
def model_value(
    u: NDArray[np.float64],
    e: NDArray[np.float64],
    b: float,
    n: int,
    n_active: int,
    m: float,
    half: float,
    half_ridge: float,
) -> float:
    """Return the model's value; active rows beyond the local ones have no features and the label -1."""
    squares = 0.0
    for r in range(n_active):
        squares += (e[r] - b) * (e[r] - b)
    norm, square = abs(b), 0.0
    for j in range(n):
        norm += abs(u[j])
        square += u[j] * u[j]
    return squares + (m - n_active) * (1.0 + b) * (1.0 + b) + 2.0 * half * norm + half_ridge * square
