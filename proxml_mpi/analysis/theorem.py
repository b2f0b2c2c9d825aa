"""The paper's theorem, checked by numbers: for given weights, the worst hinge loss over perturbed instances

    max over d_1 ... d_N with sum_i |d_i|_inf <= B of sum_i max(0, 1 - y_i (w.(x_i - d_i) + b))

equals sum_i max(0, 1 - y_i (w.x_i + b)) + B |w|_1, provided that some instance is not beyond its margin. Two roads that
know nothing of |w|_1 lead to the left side: linear programs, one for every set of instances that can have a loss, whose
best value is the exact maximum; and a perturbation of one instance, applied to its features, its score taken anew.
Where all instances are beyond their margins, the worst case is smaller than the right side says.
"""

from itertools import product
from typing import Any, NamedTuple

import numpy as np
import scipy.optimize
import scipy.sparse
from numpy.typing import NDArray

Vector = NDArray[np.float64]

N_INSTANCES = 3  # in the linear programs: there are 2^n - 1 of them
EXACT: Any = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}  # the least that HiGHS takes


class Checked(NamedTuple):
    """Both sides for one label: on all instances by a perturbation, on the worst few by linear programs."""

    label: int
    budget: float
    hinge: float  # of all instances, unperturbed
    predicted: float  # hinge + budget |w|_1
    attained: float  # by moving the features of one instance
    few_predicted: float  # the same for the worst few instances alone
    few_found: float  # by linear programs
    is_separable: bool  # all instances beyond their margins: the theorem says nothing


def check_label(label: int, X: scipy.sparse.csr_array, y: Vector, w: Vector, b: float, budget: float) -> Checked:
    """Compare both sides for one label; X [n_instances, n_weights]: the features that have weights, y +1 or -1."""
    violation = 1.0 - y * (X @ w + b)
    norm = float(np.abs(w).sum())
    few = np.argsort(-violation, kind="stable")[:N_INSTANCES]
    worst = int(few[0])
    hinge, few_hinge = (float(np.maximum(v, 0.0).sum()) for v in (violation, violation[few]))
    # Spend the whole budget on one instance, every feature moved against its weight.
    moved = X[[worst]].toarray()[0] - budget * y[worst] * np.sign(w)
    after = violation.copy()
    after[worst] = 1.0 - y[worst] * (moved @ w + b)
    attained = float(np.maximum(after, 0.0).sum())
    found = worst_by_programs(X[few].toarray(), y[few], w, b, budget)
    predicted = (hinge + budget * norm, attained, few_hinge + budget * norm, found)
    return Checked(label, budget, hinge, *predicted, is_separable=bool(violation[worst] < 0))


def worst_by_programs(X: Vector, y: Vector, w: Vector, b: float, budget: float) -> float:
    """Return the exact worst loss of a few instances: the best over all sets S of max over d of sum over S of (...)."""
    n_instances, n_weights = X.shape
    violation = 1.0 - y * (X @ w + b)
    identity = scipy.sparse.identity(n_instances * n_weights)
    # |d_ij| <= t_i, sum_i t_i <= budget; the unknowns are d, row by row, then t.
    radius = scipy.sparse.kron(scipy.sparse.identity(n_instances), np.ones((n_weights, 1)))
    total = scipy.sparse.csr_array(np.repeat([[0.0, 1.0]], [n_instances * n_weights, n_instances], axis=1))
    rows = [scipy.sparse.hstack([identity, -radius]), scipy.sparse.hstack([-identity, -radius]), total]
    constraints: Any = scipy.sparse.csr_array(scipy.sparse.vstack(rows))
    limits = np.concatenate([np.zeros(2 * n_instances * n_weights), [budget]])
    bounds = [(None, None)] * (n_instances * n_weights) + [(0, None)] * n_instances
    worst = 0.0
    for chosen in product((False, True), repeat=n_instances):
        if not any(chosen):
            continue
        gain = np.concatenate(
            [np.where(chosen, y, 0.0).repeat(n_weights) * np.tile(w, n_instances), np.zeros(n_instances)]
        )
        found = scipy.optimize.linprog(-gain, constraints, limits, bounds=bounds, method="highs", options=EXACT)
        if not found.success:
            raise RuntimeError(f"a linear program of {n_instances} x {n_weights} unknowns: {found.message}")
        worst = max(worst, float(violation[list(chosen)].sum()) - float(found.fun or 0.0))
    return worst
