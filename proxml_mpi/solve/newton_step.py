"""Take the step that the local problem proposes, as far as the full objective falls."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from proxml_mpi.solve.newton_data import (
    BLOCK,
    CHANGE,
    FEATURE,
    LEARNED,
    NEAR,
    OLD,
    PLACE,
    ROW,
    SCORE,
    SHIFT,
    SIGN,
    SLOPE,
    SUPPORT,
    TOUCHED,
    VIOLATION,
    WEIGHT,
    U,
    Workspace,
    inner,
)
from proxml_mpi.solve.newton_search import search

# An instance is near, and joins the next local problem, when its v lies above minus a margin: a width, or as much of
# the largest move of the last step, if that is less.
WIDTH, WIDEST = 0.05, 1.0
FEW_NEAR, MANY_NEAR = 3.0, 6.0  # near instances, for each that violates
ROUNDING = 1e-5  # the least margin: more than the rounding of the bias to float32 moves an instance


class Step(NamedTuple):
    """What a step leads to."""

    length: float  # the part that was taken, at most 1
    bias: float
    margin: float
    n_near: int
    n_learned: int
    n_violating: int  # of the near instances


@inner
def list_near(work: Workspace, positives: NDArray[np.int32], n_touched: int, b: float) -> int:
    """List the touched instances whose v lies above minus the least width; return their number. All shifts are 0."""
    near, sign, score, shift = work.instances[NEAR], work.rows[SIGN], work.rows[SCORE], work.rows[SHIFT]
    places, n_near = work.instances[PLACE], 0
    for i in positives:
        place = places[i]
        near[n_near] = place
        n_near += 1.0 - (score[place] + b) > -WIDTH
    for first in range(1, n_touched + 1, BLOCK):
        block = slice(first, first + BLOCK)
        if has_near(score[block], shift[block], b, 0.0, WIDTH):
            for place in range(first, min(first + BLOCK, n_touched + 1)):
                near[n_near] = place
                n_near += (1.0 + (score[place] + b) > -WIDTH) & (sign[place] < 0.0)
    return n_near


@inner
def advance(
    work: Workspace,
    positives: NDArray[np.int32],
    n_columns: int,
    n_touched: int,
    n_untouched: int,
    b: float,
    new_b: float,
    penalty: float,
    ridge: float,
    n_near: int,
    n_learned: int,
    width: float,
    is_hard: bool,
) -> Step:
    """Search along the step on all instances, and take it.

    Negatives outside the local problem that the full step would violate are learned for the next one; those of before
    stay when the full step is not taken whole, but would bring them near; or wherever it brings them, on a hard label.
    """
    sign, score, shift = work.rows[SIGN], work.rows[SCORE], work.rows[SHIFT]
    violation, slopes = work.rows[VIOLATION], work.rows[SLOPE]
    places, near, learned = work.instances[PLACE], work.instances[NEAR], work.instances[LEARNED]
    u, change, old, weight = work.columns[U], work.columns[CHANGE], work.columns[OLD], work.columns[WEIGHT]
    step = new_b - b
    largest = 0.0
    for position in range(n_near):
        largest = max(largest, abs(shift[near[position]] + step))
    margin = max(ROUNDING, width * min(1.0, largest))
    n_lines, n_known, n_close = 0, n_learned, 0
    for i in positives:
        place = places[i]
        v, slope = 1.0 - (score[place] + b), -(shift[place] + step)
        near[n_close] = place
        n_close += max(v, v + slope) > -margin
        violation[n_lines] = v
        slopes[n_lines] = slope
        n_lines += max(v, v + slope) > 0.0
    for first in range(1, n_touched + 1, BLOCK):
        block = slice(first, first + BLOCK)
        if not has_near(score[block], shift[block], b, step, margin):
            continue
        for place in range(first, min(first + BLOCK, n_touched + 1)):
            v, slope = 1.0 + (score[place] + b), shift[place] + step
            is_negative = sign[place] < 0.0
            near[n_close] = place
            n_close += (max(v, v + slope) > -margin) & is_negative
            violation[n_lines] = v
            slopes[n_lines] = slope
            n_lines += (max(v, v + slope) > 0.0) & is_negative
    for position in range(n_close):
        place = near[position]
        after = 1.0 - sign[place] * (score[place] + b + shift[place] + step)
        learned[n_learned] = place
        n_learned += (after > 0.0) & (work.instances[ROW, work.instances[TOUCHED, place]] == 0)
    for c in range(n_columns):
        old[c] = weight[work.features[FEATURE, c]]
    old[n_columns], change[n_columns] = b, step
    group = (float(n_untouched), 1.0 + b, step)
    t = search((violation, slopes, n_lines), (old, change, n_columns + 1), group, penalty, ridge)
    n_kept = 0
    for position in range(n_learned):
        place = learned[position]
        after = 1.0 - sign[place] * (score[place] + b + shift[place] + step)
        if position >= n_known or (t < 1.0 and (is_hard or after > -margin)):
            learned[n_kept] = place
            n_kept += 1
    b = new_b if t == 1.0 else b + t * step
    move(score[1 : n_touched + 1], shift[1 : n_touched + 1], t)
    # What is near now was so before the step, or would be after the whole of it.
    margin, n_near, n_violating = max(ROUNDING, width * min(1.0, t * largest)), 0, 0
    for position in range(n_close):
        place = near[position]
        v = 1.0 - sign[place] * (score[place] + b)
        near[n_near] = place
        n_near += v > -margin
        n_violating += v > 0.0
    for c in range(n_columns):
        weight[work.features[FEATURE, c]] = u[c] if t == 1.0 else old[c] + t * change[c]
    return Step(t, b, margin, n_near, n_kept, n_violating)


@inner
def next_width(width: float, n_near: int, n_violating: int) -> float:
    """Return the next width, by what this one brought: few instances that are near cost little, and save iterations."""
    if n_near < FEW_NEAR * n_violating:
        return min(WIDEST, 4.0 * width)
    if n_near > MANY_NEAR * n_violating:
        return max(WIDTH, 0.5 * width)
    return width


@inner
def has_near(score: NDArray[np.float64], shift: NDArray[np.float64], b: float, step: float, margin: float) -> bool:
    """Tell whether some of the block would violate or nearly so as negatives, before or after the step: all at once."""
    count = 0
    for k in range(BLOCK):
        v = 1.0 + (score[k] + b)
        after = v + (shift[k] + step)
        count += (v > -margin) | (after > -margin)
    return count > 0


@inner
def move(score: NDArray[np.float64], shift: NDArray[np.float64], t: float) -> None:
    """Add the shifts, t of them, to the scores, and clear them."""
    for k in range(len(score)):
        score[k] += t * shift[k]
        shift[k] = 0.0


@inner
def settle_bias(work: Workspace, n_near: int, n_untouched: int, b: float, penalty: float, margin: float) -> float:
    """Return the bias that minimises the full objective for these weights, less than margin away.

    No other instance than the near ones violates on the way, nor when the bias is rounded afterwards. A bias of at most
    -1 stays there, so that instances without features stay silent. What the local problem did not know of moves the
    bias most, and a gradient of the bias beyond lambda would spoil the dual bound.
    """
    near, sign, score = work.instances[NEAR], work.rows[SIGN], work.rows[SCORE]
    violation, slopes, old, change = work.rows[VIOLATION], work.rows[SLOPE], work.columns[OLD], work.columns[CHANGE]
    slope = 2.0 * n_untouched * max(0.0, 1.0 + b) + (penalty if b > 0.0 else -penalty)
    for position in range(n_near):
        y = sign[near[position]]
        violation[position] = 1.0 - y * (score[near[position]] + b)
        slope -= 2.0 * y * max(0.0, violation[position])
    step = -0.9 * margin if slope > 0.0 else 0.9 * margin
    if b <= -1.0:
        step = min(step, -1.0 - b)
    for position in range(n_near):
        slopes[position] = -sign[near[position]] * step
    old[0], change[0] = b, step
    t = search((violation, slopes, n_near), (old, change, 1), (float(n_untouched), 1.0 + b, step), penalty, 0.0)
    return b + t * step


@inner
def list_support(work: Workspace, n_columns: int) -> int:
    """List the non-zero weights after a step, all of local columns; return their number."""
    support, n_support = work.features[SUPPORT], 0
    for c in range(n_columns):
        j = work.features[FEATURE, c]
        support[n_support] = j
        n_support += work.columns[WEIGHT, j] != 0.0
    return n_support
