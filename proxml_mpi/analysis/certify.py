"""LIBLINEAR against certified optima: draw labels, solve them by both, measure both by one objective."""

import time
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from proxml_mpi.analysis.liblinear import BYTES_PER_ENTRY, OWN_LIMIT, Liblinear, import_liblinear, import_scikit
from proxml_mpi.data.dataset import Lists
from proxml_mpi.errors import DataError
from proxml_mpi.loading import Loaded, load
from proxml_mpi.progress import Progress, Stages
from proxml_mpi.ranks.exchange import collect_rows
from proxml_mpi.ranks.memory import check_memory
from proxml_mpi.ranks.shared import share
from proxml_mpi.ranks.world import World
from proxml_mpi.settings.certify import CertifySettings
from proxml_mpi.settings.train import TrainSettings
from proxml_mpi.solve.labels import Solver, label_penalties
from proxml_mpi.solve.objective import certify
from proxml_mpi.solve.problem import COLD, Outcome, Problem
from proxml_mpi.solve.solvers import Plan, compile_solver, make_solver, sum_negatives

OURS = (
    "label",
    "positives",
    "lambda",
    "objective",
    "bound",
    "iterations",
    "is_certified",
    "weights",
    "seconds",
)
THEIRS = (
    "objective",
    "above_at_least",  # the optimum, by our objective
    "above_at_most",  # by our bound
    "iterations",
    "is_capped",
    "returns",
    "weights",
    "violated_zeros",  # weights of 0 that ought not to be
    "violation_of_zeros",  # the largest, in units of lambda
    "violation_of_others",
    "seconds",
)
ROUNDING = 1e-6  # of lambda: a violation below is none


class Run(NamedTuple):
    """One way to call LIBLINEAR."""

    eps: float
    max_iterations: int

    @property
    def name(self) -> str:
        return f"liblinear_{self.eps:g}_{self.max_iterations}"


class Look(NamedTuple):
    """Anybody's weights, seen by the plain kernels over all instances and features."""

    objective: float
    n_violated_zeros: int
    violation_of_zeros: float
    violation_of_others: float


def runs_of(settings: CertifySettings) -> list[Run]:
    """Return all ways to call LIBLINEAR, the tightest last."""
    limits, tolerances = sorted(set(settings.max_iterations)), sorted(set(settings.eps), reverse=True)
    return [Run(eps, limit) for limit in limits for eps in tolerances]


def columns(runs: list[Run]) -> list[str]:
    """Return the names of the columns of a label's row."""
    return [*OURS, *(f"{run.name}_{name}" for run in runs for name in THEIRS)]


def compare(settings: CertifySettings, world: World) -> tuple[NDArray[np.float64] | None, Loaded]:
    """Solve the drawn labels by both; rank 0 gets [n_drawn, columns], labels ascending. Collective."""
    stages = Stages()
    with world.together():
        import_liblinear()
        if any(limit != OWN_LIMIT for limit in settings.max_iterations):
            import_scikit()
    with stages.stage("read") as said:
        # LIBLINEAR's generator and its clock are those of the process: one thread a rank.
        loaded = load(_training(settings), world, 1)
        check_memory(world, {}, {"LIBLINEAR": BYTES_PER_ENTRY * len(loaded.problem.row_feature)}, is_exact=True)
        said.append(f"{loaded.facts.n_instances:,} instances, {loaded.facts.n_labels:,} labels")

    with stages.stage("compile") as said:
        with world.first_of_node_first():
            compile_solver("newton")
        said.append("method newton")

    with stages.stage("solve") as said:
        with world.together():
            labels = draw(loaded.positives, loaded.facts.n_instances, settings)
        rows = collect_rows(world, _solve_share(settings, world, loaded, labels))
        said.append(f"{len(labels):,} labels, {len(runs_of(settings))} times each by LIBLINEAR")
    return (None if rows is None else rows[np.argsort(rows[:, 0])]), loaded


def _training(settings: CertifySettings) -> TrainSettings:
    """Return the settings under which the data would be read for training."""
    return TrainSettings(
        train=settings.train,
        model=settings.train,
        format=settings.format,
        weighting=settings.weighting,
        normalize=settings.normalize,
    )


def draw(positives: Lists, n_instances: int, settings: CertifySettings) -> NDArray[np.int64]:
    """Draw labels by seed, uniformly among those with positives and negatives; ascending."""
    n_positives = np.diff(positives.indptr)
    candidates = np.flatnonzero((n_positives > 0) & (n_positives < n_instances))
    if len(candidates) == 0:
        raise DataError(settings.train, "found no label with positives and negatives, expected one or more")
    chosen = np.random.default_rng(settings.seed).permutation(candidates)[: settings.labels or len(candidates)]
    return np.sort(chosen)


def _solve_share(
    settings: CertifySettings, world: World, loaded: Loaded, labels: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Solve this rank's labels, dealt out by positives. Collective."""
    negatives = share(world, sum_negatives(loaded.problem) if world.is_first else None)
    plan = Plan("newton", settings.tolerance, 500, settings.bias)
    contest = Contest(loaded.problem, make_solver(plan, loaded.problem, negatives), settings)
    n_positives = np.diff(loaded.positives.indptr)
    penalties = label_penalties(n_positives, settings.lambda_, settings.lambda_exponent)
    mine = labels[np.argsort(-n_positives[labels], kind="stable")][world.rank :: world.size]
    progress = Progress("certify", "labels of rank 0", len(mine), speaks=world.is_first)
    rows = np.empty((len(mine), len(columns(contest.runs))))
    for at, label in enumerate(mine.tolist()):
        of_label = loaded.positives.indices[loaded.positives.indptr[label] : loaded.positives.indptr[label + 1]]
        rows[at] = contest.row(label, of_label, float(penalties[label]))
        progress.show(at + 1)
    progress.close()
    return rows


class Contest:
    """Both solvers on one data set, and one objective to judge them by."""

    def __init__(self, problem: Problem, solver: Solver, settings: CertifySettings) -> None:
        self.problem, self.solver, self.has_bias = problem, solver, settings.bias
        self.runs = runs_of(settings)
        self.peer = Liblinear(problem, settings.bias)
        self.workspace = solver.workspace()
        n_instances, n_features = len(problem.row_start) - 1, len(problem.column_start) - 1
        self.scores, self.gradient = np.zeros(n_instances), np.zeros(n_features)
        self.is_positive = np.zeros(n_instances, np.uint8)

    def row(self, label: int, positives: NDArray[np.int32], penalty: float) -> list[float]:
        """Solve one label by all; return its row, as `columns` names it."""
        began = time.thread_time()
        found = self.solver.solve(self.workspace, positives, penalty, COLD, np.zeros(1, np.uint8))
        seconds = time.thread_time() - began
        weights = np.zeros(len(self.gradient))
        weights[found.features] = found.weights
        objective = self.look(positives, penalty, weights, found.bias).objective
        bound = found.objective - found.duality_gap
        is_certified = found.outcome == Outcome.converged
        row = [label, len(positives), penalty, objective, bound, found.iterations, is_certified, len(found.features)]
        row.append(seconds)
        for run in self.runs:
            theirs = self.peer.solve(positives, penalty, run.eps, run.max_iterations)
            look = self.look(positives, penalty, theirs.weights, theirs.bias)
            row += [look.objective, max(0.0, look.objective - objective), max(0.0, look.objective - bound)]
            row += [theirs.iterations, theirs.iterations >= run.max_iterations]
            row.append(np.nan if theirs.n_returns is None else theirs.n_returns)
            row += [int(np.count_nonzero(theirs.weights)), *look[1:], theirs.seconds]
        return row

    def look(self, positives: NDArray[np.int32], penalty: float, weights: NDArray[np.float64], bias: float) -> Look:
        """Compute objective and violations of optimality of anybody's weights, float64 [n_features]."""
        self.is_positive[positives] = 1
        arrays = (self.is_positive, penalty, self.has_bias, self.scores, self.gradient)
        objective, _ = certify(self.problem, weights, bias, *arrays)
        self.is_positive[positives] = 0
        is_zero = weights == 0
        excess = np.abs(self.gradient[is_zero]) / penalty - 1.0
        others = np.abs(self.gradient[~is_zero] / penalty + np.sign(weights[~is_zero]))
        n_violated = int(np.count_nonzero(excess > ROUNDING))
        return Look(objective, n_violated, float(excess.max(initial=0.0)), float(others.max(initial=0.0)))
