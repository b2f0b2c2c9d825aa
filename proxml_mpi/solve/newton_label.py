"""One label: exact, with a certificate, at a cost that depends on the instances sharing the label's features.

An outer iteration computes the certificate on the full problem, chooses columns (the support and the features that
violate most) and rows (the instances that violate or nearly so), solves that local problem by a few Newton models,
takes the step as far as the full objective falls, and lets the bias settle on the full objective.
"""

import numpy as np
from numpy.typing import NDArray

from proxml_mpi.solve.newton_certificate import certify
from proxml_mpi.solve.newton_data import (
    FEATURE,
    SUPPORT,
    WEIGHT,
    NewtonProblem,
    U,
    Workspace,
    allocating,
    inner,
)
from proxml_mpi.solve.newton_gather import gather_matrix
from proxml_mpi.solve.newton_gradient import clear_gradient
from proxml_mpi.solve.newton_guess import FREQUENT, guess
from proxml_mpi.solve.newton_local import solve_local
from proxml_mpi.solve.newton_score import (
    FLOAT_ERROR,
    is_near_enough,
    leave_small,
    round_weights,
    score_all,
    score_near,
    spread,
)
from proxml_mpi.solve.newton_select import (
    choose_all_rows,
    choose_columns,
    choose_near_rows,
    choose_violating_rows,
    clear_local,
)
from proxml_mpi.solve.newton_step import WIDTH, advance, list_near, list_support, next_width, settle_bias
from proxml_mpi.solve.newton_touch import leave_places, touch_all, touch_positives
from proxml_mpi.solve.problem import Outcome

CONVERGED, ITERATION_LIMIT = int(Outcome.converged), int(Outcome.iteration_limit)
NO_POSITIVES, NOT_TRAINED = int(Outcome.no_positives), int(Outcome.not_trained)
# Of the local problem, relative to the violation that it is to remove: and for rare labels without a ridge, whose local
# problems cost less than the entries that an iteration more would read.
ACCURACY, RARE_ACCURACY = 0.25, 0.1
# Positives, without and with a ridge; other labels begin with all rows of their first columns, since what a step
# violates is not known, and leave a local problem after two models of many sweeps rather than four of few. Those with a
# guess know the rows, and need one model: from there on the full objective, searched along its step, is as good.
RARE, RARE_WITH_RIDGE = 64, 32
# Where the bias begins; that of very rare labels ends closer to -1, and at a large lambda that of all rare ones.
FIRST_BIAS, CLOSER_BIAS = -2.0, -1.6
VERY_RARE = 4  # positives
LARGE = 0.75  # lambda, in units of the largest value of a feature
LONG = 6  # iterations; labels that take more lack instances, and look for them more widely
HARD = 8  # iterations; labels that take more keep every row that they have learned, and solve better
VERY_HARD = 24  # iterations; flat models of labels that take more are minimised directly, large ones too
MUCH = 0.5  # entries that a step reads, per instance; a label that reads more has all instances in order from then on
MOST_MODELS, MOST_SWEEPS = 8, 20  # of a local problem, of a model
LARGE_SUPPORT = 256  # weights
Found = tuple[int, float, float, float, int, int, int]


@allocating
def solve_label(
    problem: NewtonProblem,
    work: Workspace,
    positives: NDArray[np.int32],
    penalty: float,
    ridge: float,
    gap_tolerance: float,
    max_iterations: int,
    with_bias: bool,
    start_features: NDArray[np.int32],
    start_weights: NDArray[np.float32],
    start_bias: float,
    stop: NDArray[np.uint8],
) -> Found:
    """Solve one label; return the number of weights, bias, objective, gap, iterations, outcome, entries read.

    The weights stay in the workspace, their features under SUPPORT in no order: take_weights copies and clears them.
    """
    if len(positives) == 0:
        return 0, 0.0, 0.0, 0.0, 0, NO_POSITIVES, 0
    n_candidates = problem.n_negative
    for i in positives:
        if problem.negative[i]:
            n_candidates -= 1
    n_touched, n_spread, in_order = touch_positives(work, positives), 0, False
    n_all = n_candidates + len(positives)
    is_rare = len(positives) <= (RARE_WITH_RIDGE if ridge > 0.0 else RARE)
    has_guess = not is_rare and with_bias and len(start_features) == 0 and len(problem.least_squares) > 0
    has_guess = has_guess and FREQUENT * len(positives) >= n_all
    n_models, n_sweeps = (4, 6) if is_rare else (1 if has_guess else 2, MOST_SWEEPS)
    local = work.local
    is_closer = len(positives) <= VERY_RARE or (is_rare and penalty >= LARGE * problem.largest_value)
    b = (CLOSER_BIAS if is_closer else FIRST_BIAS) if with_bias else 0.0
    n_support, n_columns, n_read = 0, 0, 0
    weight, u, feature = work.columns[WEIGHT], work.columns[U], work.features[FEATURE]
    if len(start_features) > 0:
        b = start_bias if with_bias else 0.0
        for k in range(len(start_features)):
            work.features[SUPPORT, n_support] = start_features[k]
            weight[start_features[k]] = start_weights[k]
            n_support += start_weights[k] != 0.0
        n_touched, n_read = score_all(problem, work, n_support, n_touched, in_order)
    n_near, n_learned = list_near(work, positives, n_touched, b), 0
    room = 0.0  # by how much an instance that is not near can move before it violates
    if has_guess:
        b, n_near, n_support, n_read, room = guess(problem, work, positives, penalty, ridge)
        n_touched, n_columns, in_order = n_all, len(problem.least_squares), True
    best_dual, objective, gap = 0.0, np.inf, np.inf
    usual_accuracy = RARE_ACCURACY if is_rare and ridge == 0.0 else ACCURACY
    is_rounded, is_stale, accuracy, width = n_support == 0, False, usual_accuracy, WIDTH
    outcome, iteration = ITERATION_LIMIT, 0
    may_estimate = is_rare and problem.n_negative == len(problem.negative)
    while True:
        counts = (n_touched, n_near, n_support, n_all - n_touched)
        # Rounding spoils the dual bound a little, and the one of before holds as well.
        enough = best_dual + gap_tolerance if is_rounded else -np.inf
        objective, dual, bias_gradient, n_met, read, is_whole = certify(
            problem, work, counts, b, penalty, ridge, with_bias, enough, may_estimate and iteration < HARD
        )
        n_read += read
        is_last = iteration >= max_iterations or stop[0] != 0
        if not is_whole and (objective - dual <= gap_tolerance or is_last):
            clear_gradient(work, n_met)
            may_estimate = False
            continue
        if is_whole:
            best_dual = max(best_dual, dual)
        gap = max(0.0, objective - best_dual)  # below 0 only by rounding
        if stop[0]:
            outcome = NOT_TRAINED
        elif gap <= gap_tolerance and is_rounded:
            outcome = CONVERGED
        finished = outcome != ITERATION_LIMIT or (iteration >= max_iterations and is_rounded)
        if finished:
            clear_gradient(work, n_met)
            break
        if gap <= gap_tolerance or iteration >= max_iterations:
            # The float32 weights are what is returned: go there, whatever the objective, and certify those.
            clear_gradient(work, n_met)
            is_stale = b <= -1.0 and is_near_enough(problem, work, n_support, n_near, b, room)
            n_support = round_weights(work, n_support)
            b = float(np.float32(b))
            if is_stale:
                read = score_near(problem, work, n_near)
            else:
                n_touched, read = score_all(problem, work, n_support, n_touched, in_order)
                n_near = list_near(work, positives, n_touched, b)
            n_read += read
            is_rounded = True
            continue
        if is_stale:
            n_touched, read = score_all(problem, work, n_support, n_touched, in_order)
            n_near, is_stale = list_near(work, positives, n_touched, b), False
            n_read += read
        if not in_order and n_spread > MUCH * n_all and problem.n_negative == len(problem.negative):
            n_touched, in_order = touch_all(work, positives, n_touched, n_near, n_learned), True
        iteration += 1
        common = 2.0 * max(0.0, 1.0 + b)
        n_new = count_new(len(positives), n_support, n_columns, ridge)
        n_columns, worst = choose_columns(problem, work, n_support, n_met, common, penalty, ridge, n_new)
        clear_gradient(work, n_met)
        if with_bias:
            sign_term = penalty if b > 0.0 else -penalty
            worst = max(worst, abs(bias_gradient - sign_term) if b != 0.0 else abs(bias_gradient) - penalty)
        is_open = accuracy < usual_accuracy or b > -1.0 or (b == -1.0 and bias_gradient > -penalty)
        cap, n_group = np.inf, 0
        if not is_open:
            cap = max(b, min(-1.0, b + 0.3))
        if is_open or (iteration == 1 and not is_rare and not has_guess):
            n_touched, read = choose_all_rows(problem, work, n_touched, n_columns)
            n_rows = n_touched
            n_read += read
        elif has_guess and iteration <= HARD:
            # One model, and no other rows take part in it: what the step meets of the learned ones it learns again.
            n_rows, n_learned = choose_violating_rows(work, n_near, b), 0
        else:
            n_first = n_columns if is_rare else 0  # frequent labels know rows enough
            n_rows, n_touched = choose_near_rows(problem, work, n_near, n_learned, n_first, n_touched)
        if is_open:
            n_group = n_all - n_rows
        local, read = gather_matrix(problem, work, local, n_rows, n_columns)
        n_read += read
        for c in range(n_columns):
            u[c] = weight[feature[c]]
        last = last_violation(work, n_support, n_columns, b, worst, ridge, gap_tolerance)
        # Rows that enter or leave end a model's use before it is minimised; labels that take long need it better.
        is_hard, patience = iteration > HARD, max(1, iteration - 20)
        new_b = solve_local(
            work,
            local,
            n_rows,
            n_columns,
            b,
            cap,
            float(n_group),
            with_bias,
            penalty,
            ridge,
            min(accuracy * worst, last),
            patience * MOST_SWEEPS if is_hard else n_sweeps,
            MOST_MODELS if is_hard else n_models,
            iteration > VERY_HARD,
            accuracy < usual_accuracy,
        )
        # Steps that cannot be the last one need not be exact; on frequent or hard labels that costs more than it saves.
        is_rough = is_rare and not is_hard and last == np.inf
        if is_rough:
            leave_small(problem, work, n_columns)
        # Where many instances violate a little, all without features above all, the bias alone must not be rounded yet.
        is_rounding = (
            not is_rough
            and not is_open
            and iteration < 30
            and gap_tolerance >= 1e-5 * len(positives)
            and rounding_loss(work, n_columns, n_near, b) <= 0.5 * gap_tolerance
        )
        n_touched, read = spread(problem, work, n_columns, n_touched, in_order, is_rounding)
        n_spread = read
        n_read += read
        step = advance(
            work,
            positives,
            n_columns,
            n_touched,
            n_all - n_touched,
            b,
            new_b,
            penalty,
            ridge,
            n_near,
            n_learned,
            width,
            is_hard,
        )
        n_near, n_learned, b = step.n_near, step.n_learned, step.bias
        if with_bias:
            b = settle_bias(work, n_near, n_all - n_touched, b, penalty, step.margin)
        if is_rounding:
            b = float(np.float32(b))
        room = step.margin - abs(b - step.bias)
        if iteration >= LONG:
            width = next_width(width, n_near, step.n_violating)
        n_support = list_support(work, n_columns)
        clear_local(work, n_rows, n_columns)
        is_rounded = is_rounding and step.length == 1.0
        # A step that leads nowhere lacked rows or accuracy: take all rows, and solve better, until one does.
        accuracy = usual_accuracy if step.length > 0.01 else 0.3 * accuracy
    leave_places(problem, work, positives, n_touched)
    return n_support, b, objective, gap, iteration, outcome, n_read


@inner
def count_new(n_positives: int, n_support: int, n_columns: int, ridge: float) -> int:
    """Return how many violating features join the support in the next local problem; n_columns had the last one.

    Every new column is read whole: rare labels begin with few, and supports double, or triple when nearly all columns
    have been of use. A ridge wants more weights; without one, large supports grow half as fast, since they would become
    much larger than they end.
    """
    few = 8 if ridge > 0.0 else 4
    growth = 2 if n_support > 0.92 * n_columns else 1
    new = growth * n_support
    if ridge == 0.0 and n_support > LARGE_SUPPORT:
        new //= 2
    return max(new, min(few + n_positives, 4 * few), n_positives // 8)


@inner
def last_violation(
    work: Workspace, n_support: int, n_columns: int, b: float, worst: float, ridge: float, gap_tolerance: float
) -> float:
    """Return what suffices for the certificate when one local problem can lead there from worst, else infinity.

    A violation eps costs the dual bound eps (|w|_1 + |b|), or with a ridge eps^2 / (2 mu) for each feature at most.
    """
    norm = abs(b)
    for k in range(n_support):
        norm += abs(work.columns[WEIGHT, work.features[SUPPORT, k]])
    enough, reach = gap_tolerance / max(norm, 1e-12), 100.0
    with_ridge = np.sqrt(2.0 * ridge * gap_tolerance / (n_columns + 1))
    if with_ridge > enough:
        enough, reach = with_ridge, 10.0
    return 0.5 * enough if worst <= reach * enough else np.inf


@inner
def rounding_loss(work: Workspace, n_columns: int, n_near: int, b: float) -> float:
    """Return what the dual bound may lose when the bias is rounded to float32: all near instances move together.

    Their sum is the gradient of the bias, and a violation eps of it costs eps (|w|_1 + |b|).
    """
    norm = abs(b)
    for c in range(n_columns):
        norm += abs(work.columns[U, c])
    return 2.0 * n_near * FLOAT_ERROR * abs(b) * norm


@inner
def take_weights(work: Workspace, features: NDArray[np.int32], weights: NDArray[np.float32]) -> None:
    """Copy the weights, features ascending, and clear them; there is room for all of the support."""
    support, weight = work.features[SUPPORT], work.columns[WEIGHT]
    sort(support, len(features))
    for k in range(len(features)):
        j = support[k]
        features[k] = j
        weights[k] = weight[j]
        weight[j] = 0.0


@inner
def sort(values: NDArray[np.uint32], n: int) -> None:
    """Sort the first n values by Shell's method, with Knuth's gaps: few lines, and fast for what a label has."""
    gap = 1
    while 3 * gap < n:
        gap = 3 * gap + 1
    while gap > 0:
        for k in range(gap, n):
            value, at = values[k], k
            while at >= gap and values[at - gap] > value:
                values[at] = values[at - gap]
                at -= gap
            values[at] = value
        gap //= 3
