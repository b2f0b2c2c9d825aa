"""The smallest eigenvalues of the normalised Laplacian of a connected label graph.

Every component of the graph adds one null vector: D^(1/2) 1 on its labels, self-loops or not, because degrees are the
sums of the rows that the Laplacian is made of. (A label that co-occurs with no other is a component by itself: its
self-loop is all of its degree, 1 - a_ll / d_l = 0.) So the graph's lambda_2 is 0 as soon as there are two components,
and within one component lambda_2 is the largest eigenvalue of S = D^(-1/2) A D^(-1/2), taken from 1, once the one known
eigenvector v is out of the way:

    lambda_2 = 1 - largest eigenvalue of S - 2 v v',    v = D^(1/2) 1 / |D^(1/2) 1|, whose own eigenvalue becomes -1.

Restarted Lanczos (ARPACK) finds the largest of them; products with S are all that it needs. Where it does not come to
an end, it is asked for less. A residual |S u - s u| means that an eigenvalue lies no further than that from s; s itself
is never above the largest one, so that lambda_2 is not larger than shown. Small graphs are solved whole.
"""

from typing import NamedTuple

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

from proxml_mpi.analysis.graph import Similarity, Vector
from proxml_mpi.errors import UserError

WHOLE = 1500  # labels up to which all eigenvalues are computed
ROUGH = (1e-4, 1e-2)  # residuals to be content with when the wanted one is not reached
MORE_VECTORS = 24  # beyond twice the wanted ones, that Lanczos keeps


class Spectrum(NamedTuple):
    """Eigenvalues of the Laplacian from lambda_2 on, ascending, all or the first of them."""

    eigenvalues: NDArray[np.float64]
    residuals: NDArray[np.float64]
    is_converged: bool


def find_spectrum(graph: Similarity, n_wanted: int, tolerance: float, max_restarts: int) -> Spectrum:
    """Find eigenvalues of a connected graph: all of a small one, n_wanted of a large one."""
    n_labels = len(graph.degrees)
    if n_labels <= WHOLE:
        return _whole(graph)
    null = np.sqrt(graph.degrees / graph.degrees.sum())

    def multiply(x: Vector) -> Vector:
        x = x.ravel()
        product: Vector = graph.multiply(x) - 2.0 * (null @ x) * null
        return product

    deflated = LinearOperator((n_labels, n_labels), matvec=multiply, dtype=np.float64)
    n_found = min(n_wanted, n_labels - 2)
    n_kept = min(2 * n_found + MORE_VECTORS, n_labels)
    start = np.random.default_rng(0).standard_normal(n_labels)
    for stage in (tolerance, *(rough for rough in ROUGH if rough > tolerance)):
        try:
            _, vectors = eigsh(deflated, n_found, which="LA", v0=start, ncv=n_kept, tol=stage, maxiter=max_restarts)
            return _judge(deflated, vectors, tolerance)
        except ArpackNoConvergence:
            continue
    raise UserError(f"no eigenvalue was found after {max_restarts} restarts: give more of them, --max-restarts")


def _judge(deflated: LinearOperator, vectors: NDArray[np.float64], tolerance: float) -> Spectrum:
    """Compute eigenvalues and residuals of unit vectors afresh, the smallest eigenvalue of the Laplacian first."""
    products = np.column_stack([deflated.matvec(vector) for vector in vectors.T])
    values = np.sum(vectors * products, axis=0)
    residuals = np.linalg.norm(products - values * vectors, axis=0)
    order = np.argsort(-values)
    return Spectrum(1.0 - values[order], residuals[order], bool(np.all(residuals <= tolerance)))


def _whole(graph: Similarity) -> Spectrum:
    """Compute all eigenvalues but that of the null vector, with residuals."""
    dense = np.column_stack([graph.multiply(unit) for unit in np.eye(len(graph.degrees))])
    values, vectors = scipy.linalg.eigh(0.5 * (dense + dense.T))
    residuals = np.linalg.norm(dense @ vectors - vectors * values, axis=0)
    return Spectrum(1.0 - values[-2::-1], residuals[-2::-1], is_converged=True)
