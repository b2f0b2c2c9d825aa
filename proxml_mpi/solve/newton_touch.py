"""Touched instances: the positives, and all that share a feature with the weights; what is kept of them, by place.

Free places hold what a new negative begins with: the sign -1, and a score and a shift of 0. Whether an instance is new
would be guessed wrongly too often: it is written into the next free place in any case, which only a new one takes.
"""

import numpy as np
from numpy.typing import NDArray

from proxml_mpi.solve.newton_data import PLACE, SCORE, SIGN, TOUCHED, NewtonProblem, Workspace, inner


@inner
def touch_positives(work: Workspace, positives: NDArray[np.int32]) -> int:
    """Give the positives the first places; return their number."""
    for k in range(len(positives)):
        work.instances[PLACE, positives[k]] = k + 1
        work.instances[TOUCHED, k + 1] = positives[k]
        work.rows[SIGN, k + 1] = 1.0
    return len(positives)


@inner
def touch_column(problem: NewtonProblem, work: Workspace, j: int, n_touched: int) -> int:
    """Give places to the negatives of column j that have none; return the new number of touched instances."""
    places, touched = work.instances[PLACE], work.instances[TOUCHED]
    free = np.uint32(n_touched + 1)
    for entry in range(problem.column_start[j], problem.column_start[j + 1]):
        i = problem.column_instance[entry]
        is_new = np.uint32(places[i] == 0) & problem.negative[i]
        touched[free] = i
        places[i] = free if is_new else places[i]
        free += is_new
    return int(free) - 1


@inner
def scatter(problem: NewtonProblem, work: Workspace, j: int, factor: float, target: NDArray[np.float64]) -> None:
    """Add factor times column j, all of whose instances are touched, to target, by place."""
    places = work.instances[PLACE]
    for entry in range(problem.column_start[j], problem.column_start[j + 1]):
        target[places[problem.column_instance[entry]]] += factor * problem.column_value[entry]


@inner
def touch_and_scatter(
    problem: NewtonProblem, work: Workspace, j: int, factor: float, target: NDArray[np.float64], n_touched: int
) -> int:
    """Do both in one pass over column j; return the new number of touched instances."""
    places, touched = work.instances[PLACE], work.instances[TOUCHED]
    free = np.uint32(n_touched + 1)
    for entry in range(problem.column_start[j], problem.column_start[j + 1]):
        i = problem.column_instance[entry]
        is_new = np.uint32(places[i] == 0) & problem.negative[i]
        touched[free] = i
        place = free if is_new else places[i]
        places[i] = place
        free += is_new
        target[place] += factor * problem.column_value[entry]
    return int(free) - 1


@inner
def leave_places(work: Workspace, n_touched: int) -> None:
    """Forget the touched instances."""
    places, touched, sign, score = work.instances[PLACE], work.instances[TOUCHED], work.rows[SIGN], work.rows[SCORE]
    for place in range(1, n_touched + 1):
        places[touched[place]] = 0
        sign[place] = -1.0
        score[place] = 0.0
