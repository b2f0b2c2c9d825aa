"""Touched instances: the positives, and all that share a feature with the weights; what is kept of them, by place.

Free places hold what a new negative begins with: the sign -1, and a score and a shift of 0. Instances that may not
serve as negatives have the place after the last, unless they are positives. Once a label reads more than it is worth to
look places up for, all instances are touched, in order: instance i has the place i + 1.
"""

import numpy as np
from numpy.typing import NDArray

from proxml_mpi.solve.newton_data import (
    LEARNED,
    NEAR,
    PLACE,
    SCORE,
    SHIFT,
    SIGN,
    TOUCHED,
    NewtonProblem,
    Workspace,
    inner,
)

NONE, UNIT = np.uint32(0), np.uint32(1)
PART = 8  # when an eighth of all instances is touched, clearing all places in order is faster than those one by one


@inner
def touch_positives(work: Workspace, positives: NDArray[np.int32]) -> int:
    """Give the positives the first places; return their number."""
    for k in range(len(positives)):
        work.instances[PLACE, positives[k]] = k + 1
        work.instances[TOUCHED, k + 1] = positives[k]
        work.rows[SIGN, k + 1] = 1.0
    return len(positives)


@inner
def touch(work: Workspace, i: int, n_touched: int) -> int:
    """Give instance i a place if it has none; return the new number of touched instances."""
    if work.instances[PLACE, i] == 0:
        n_touched += 1
        work.instances[PLACE, i] = n_touched
        work.instances[TOUCHED, n_touched] = i
    return n_touched


@inner
def touch_column(problem: NewtonProblem, work: Workspace, j: int, n_touched: int) -> int:
    """Give places to the instances of column j that have none; return the new number of touched instances."""
    places, touched = work.instances[PLACE], work.instances[TOUCHED]
    free = np.uint32(n_touched + 1)
    for entry in range(problem.column_start[j], problem.column_start[j + 1]):
        i = problem.column_instance[entry]
        if places[i] == 0:
            places[i] = free
            touched[free] = i
            free += UNIT
    return int(free) - 1


@inner
def touch_all(work: Workspace, positives: NDArray[np.int32], n_touched: int, n_near: int, n_learned: int) -> int:
    """Touch every instance, in order, and move what is kept of the touched ones there; return the number of all.

    All shifts are zero, and are so again afterwards; all instances may serve as negatives.
    """
    places, touched, sign, score = work.instances[PLACE], work.instances[TOUCHED], work.rows[SIGN], work.rows[SCORE]
    near, learned, shift = work.instances[NEAR], work.instances[LEARNED], work.rows[SHIFT]
    n_instances = len(touched) - 2
    for position in range(n_near):
        near[position] = touched[near[position]] + UNIT
    for position in range(n_learned):
        learned[position] = touched[learned[position]] + UNIT
    for place in range(1, n_touched + 1):
        shift[touched[place] + UNIT] = score[place]
    for place in range(1, n_instances + 1):
        score[place] = shift[place]
        shift[place] = 0.0
    for k in range(len(positives)):
        sign[k + 1] = -1.0
    for i in positives:
        sign[i + 1] = 1.0
    for i in range(n_instances):
        touched[i + 1] = i
        places[i] = i + 1
    return n_instances


@inner
def scatter_in_order(problem: NewtonProblem, j: int, factor: float, target: NDArray[np.float64]) -> None:
    """Add factor times column j to target, by place, when all instances are touched, in order."""
    for entry in range(problem.column_start[j], problem.column_start[j + 1]):
        target[problem.column_instance[entry] + UNIT] += factor * problem.column_value[entry]


@inner
def scatter_new(
    problem: NewtonProblem, work: Workspace, j: int, factor: float, target: NDArray[np.float64], n_touched: int
) -> int:
    """Touch the instances of column j and add factor times it to target, by place; return the new number of touched.

    Without a branch, which would be guessed wrongly too often; there is room for one beyond the last.
    """
    places, touched = work.instances[PLACE], work.instances[TOUCHED]
    free = np.uint32(n_touched + 1)
    for entry in range(problem.column_start[j], problem.column_start[j + 1]):
        i = problem.column_instance[entry]
        is_new = places[i] == 0
        place = free if is_new else places[i]
        touched[free] = i
        places[i] = place
        free += UNIT if is_new else NONE
        target[place] += factor * problem.column_value[entry]
    return int(free) - 1


@inner
def scatter(problem: NewtonProblem, work: Workspace, j: int, factor: float, target: NDArray[np.float64]) -> None:
    """Add factor times column j, all of whose instances are touched, to target, by place."""
    places = work.instances[PLACE]
    for entry in range(problem.column_start[j], problem.column_start[j + 1]):
        target[places[problem.column_instance[entry]]] += factor * problem.column_value[entry]


@inner
def leave_places(problem: NewtonProblem, work: Workspace, positives: NDArray[np.int32], n_touched: int) -> None:
    """Forget the touched instances."""
    places, touched, sign, score = work.instances[PLACE], work.instances[TOUCHED], work.rows[SIGN], work.rows[SCORE]
    n_instances = len(problem.negative)
    for i in positives:
        sign[places[i]] = -1.0
    for place in range(1, n_touched + 1):
        score[place] = 0.0
    if problem.n_negative == n_instances and PART * n_touched > n_instances:
        for i in range(n_instances):
            places[i] = 0
    else:
        for place in range(1, n_touched + 1):
            places[touched[place]] = 0
    for i in positives:
        if not problem.negative[i]:
            places[i] = n_instances + 1
