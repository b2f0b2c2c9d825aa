"""One data set, one exponent: every label solved from the largest lambda down, and scored at each.

A rank keeps its labels for the whole path, so that what a label starts from is where the rank left it. A label's path
depends on no other label: results have the same bits whatever the ranks and threads.
"""

import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from proxml_mpi.data.dataset import Lists
from proxml_mpi.instances import Piece
from proxml_mpi.lists import merge_share, reduce_evaluation
from proxml_mpi.progress import Progress
from proxml_mpi.ranks.partition import partition, share_of
from proxml_mpi.ranks.tally import Tally
from proxml_mpi.ranks.world import World
from proxml_mpi.score.index import build_index, score_top_k
from proxml_mpi.score.metrics import Evaluation, start_evaluation
from proxml_mpi.score.propensity import Propensity, inverse_propensities, reorder_by_propensity
from proxml_mpi.settings.predict import PredictSettings
from proxml_mpi.solve.block import Block, assemble_block
from proxml_mpi.solve.labels import Solver, expected_costs, label_penalties, solve_labels
from proxml_mpi.solve.problem import COLD, Outcome, Problem, Solution, Start
from proxml_mpi.store.warm_start import Starts


class Fold(NamedTuple):
    """Training instances and the instances to validate on, in the memory that the ranks of a node share."""

    problem: Problem
    positives: Lists  # by label
    validation: Piece

    @property
    def n_instances(self) -> int:
        return len(self.problem.row_start) - 1

    @property
    def n_features(self) -> int:
        return len(self.problem.column_start) - 1


class Scored(NamedTuple):
    """What one lambda gives."""

    lambda_: float
    evaluation: Evaluation  # of all ranks
    n_weights: int
    n_uncertified: int  # labels that met the iteration limit
    solver_seconds: float  # processor time of all ranks
    seconds: float  # of the clock


def follow_path(
    world: World,
    fold: Fold,
    solver: Solver,
    path: tuple[float, ...],
    exponent: float,
    scoring: tuple[PredictSettings, Propensity],
    n_threads: int,
    what: str,
    is_cold: bool = False,
) -> Iterator[Scored]:
    """Yield what every lambda of the path gives, in turn. Collective: every rank goes through all of them.

    what: stands before the progress; is_cold: every lambda starts from nothing.
    """
    block = None
    for value in path:
        began = time.monotonic()
        penalties = label_penalties(_counts(fold), value, exponent)
        before = None if is_cold else block
        block = _solve(world, fold, solver, penalties, before, n_threads, f"{what}, lambda {value:g}")
        evaluation = _score(world, fold, block, *scoring, n_threads)
        n_uncertified = np.count_nonzero(block.outcome == Outcome.iteration_limit)
        yield Scored(
            value,
            evaluation,
            world.total(len(block.indices)),
            world.total(int(n_uncertified)),
            world.total(float(block.seconds.sum())),
            world.largest(time.monotonic() - began),
        )


def _counts(fold: Fold) -> Any:
    return np.diff(fold.positives.indptr)


def _solve(
    world: World,
    fold: Fold,
    solver: Solver,
    penalties: Any,
    before: Block | None,
    n_threads: int,
    what: str,
) -> Block:
    """Solve this rank's labels, each from where it was before. Collective."""
    n_positives, (indptr, instances) = _counts(fold), fold.positives
    costs = expected_costs(n_positives, np.ones(len(n_positives)))  # for all lambdas the same ranges
    bounds = partition(costs, world.size)
    first, end = int(bounds[world.rank]), int(bounds[world.rank + 1])
    labels = first + np.argsort(-costs[first:end], kind="stable")
    starts = None if before is None else Starts(before.indptr, before.indices, before.data, before.bias)

    def start(label: int) -> Start:
        return COLD if starts is None else starts.of(label - first)

    tally = Tally(world)
    progress = Progress(what, "labels", len(n_positives), speaks=world.is_first)
    found: dict[int, Solution] = {}
    solved = solve_labels(
        solver,
        labels,
        lambda label: instances[indptr[label] : indptr[label + 1]],
        lambda label: float(penalties[label]),
        n_threads,
        np.zeros(1, np.uint8),
        start,
    )
    for together in solved:
        found.update(together)
        tally.add(len(together))
        progress.show(tally.listen())
    tally.leave()
    while world.is_first and not tally.all_left:
        time.sleep(0.02)
        progress.show(tally.listen())
    progress.close()
    tally.close()
    mine = slice(first, end)
    return assemble_block(first, [found[label] for label in range(first, end)], n_positives[mine], penalties[mine])


def _score(
    world: World, fold: Fold, block: Block, settings: PredictSettings, propensity: Propensity, n_threads: int
) -> Evaluation:
    """Rank the labels of all ranks for the validation instances and evaluate the lists. Collective."""
    n_positives, piece = _counts(fold), fold.validation
    inverse = inverse_propensities(n_positives, fold.n_instances, propensity)
    evaluation = start_evaluation(settings.k, inverse, n_positives)
    weights = (block.indptr, block.indices, block.data, block.bias)
    calibrated_by = block.n_positives if settings.calibrate else None
    index = build_index(*weights, fold.n_features, block.first_label, calibrated_by)
    n_rows = len(piece.indptr) - 1
    for first in range(0, n_rows, settings.instances_per_round):
        end = min(first + settings.instances_per_round, n_rows)
        rows = (piece.indptr[first : end + 1], piece.indices, piece.values)
        top = merge_share(world, score_top_k(index, rows, settings.top_k, n_threads))
        reordered = reorder_by_propensity(top, inverse).labels if settings.rerank_by_propensity else None
        mine_first, mine_end = (first + bound for bound in share_of(end - first, world.size, world.rank))
        truth = (piece.label_indptr[mine_first : mine_end + 1], piece.label_indices)
        evaluation.update(top.labels, truth, reordered)
    reduce_evaluation(world, evaluation)
    return evaluation
