"""Touched instances: the positives, and all that share a feature with the weights; what is kept of them, by place."""

import numpy as np
from numpy.typing import NDArray

from proxml_mpi.solve.newton_data import PLACE, SCORE, SHIFT, SIGN, TOUCHED, NewtonProblem, Workspace, inner


@inner
def touch_positives(work: Workspace, positives: NDArray[np.int32]) -> int:
    """Give the positives the first places; return their number."""
    for k in range(len(positives)):
        take_place(work.instances[PLACE], work.instances[TOUCHED], work.rows, positives[k], 1.0, k + 1)
    return len(positives)


@inner
def touch_column(problem: NewtonProblem, work: Workspace, j: int, n_touched: int) -> int:
    """Give places to the negatives of column j that have none; return the new number of touched instances."""
    places, touched = work.instances[PLACE], work.instances[TOUCHED]
    for entry in range(problem.column_start[j], problem.column_start[j + 1]):
        i = problem.column_instance[entry]
        if places[i] == 0 and problem.negative[i]:
            n_touched += 1
            take_place(places, touched, work.rows, i, -1.0, n_touched)
    return n_touched


@inner
def take_place(
    places: NDArray[np.uint32],
    touched: NDArray[np.uint32],
    rows: NDArray[np.float64],
    i: int,
    sign: float,
    place: int,
) -> None:
    """Give instance i its place."""
    places[i] = place
    touched[place] = i
    rows[SIGN, place] = sign
    rows[SCORE, place] = 0.0
    rows[SHIFT, place] = 0.0


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
    for entry in range(problem.column_start[j], problem.column_start[j + 1]):
        i = problem.column_instance[entry]
        if places[i] == 0 and problem.negative[i]:
            n_touched += 1
            take_place(places, touched, work.rows, i, -1.0, n_touched)
        target[places[i]] += factor * problem.column_value[entry]
    return n_touched


@inner
def leave_places(work: Workspace, n_touched: int) -> None:
    """Forget the touched instances."""
    places, touched = work.instances[PLACE], work.instances[TOUCHED]
    for place in range(1, n_touched + 1):
        places[touched[place]] = 0
