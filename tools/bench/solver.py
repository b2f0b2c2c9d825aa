"""Our solver beside LIBLINEAR -s 5 and the paper's Algorithm 1: the same labels, the same lambda, one thread, one run.

    python tools/bench/solver.py ../shared/data --sets bibtex eurlex-4.3k-d5000 debian-depends

Labels are drawn by seed, as many from each stratum of positives, and weighted to the whole set of labels. Those of a
stratum are solved in a row, as in training, first by ours, then by LIBLINEAR; before that ours has solved the last one
once, so that its code and its memory are there. Seconds are processor time. Suboptimality is measured against our dual
bound, per positive. The work ratio is the number of matrix entries that our solver read, over the entries of the
support's columns and of the active rows at the optimum.
Writes RESULT-SET.csv, .png and .md into tools/bench/results.
"""

import argparse
import itertools
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from solver_report import STRATA, exponent, plot, plot_growth, report, strata, write_csv

from proxml_mpi.analysis.liblinear import Liblinear
from proxml_mpi.data.dataset import Dataset, Lists
from proxml_mpi.data.split import select
from proxml_mpi.data.text import read_text
from proxml_mpi.data.weighting import Weighting
from proxml_mpi.kernel_cache import choose_cache
from proxml_mpi.solve import newton
from proxml_mpi.solve.forward_backward import ForwardBackward
from proxml_mpi.solve.labels import label_penalties
from proxml_mpi.solve.objective import certify
from proxml_mpi.solve.problem import COLD, Outcome, Problem, Request, Solution, make_problem

RESULTS = Path(__file__).parent / "results"
COUNTS = ("bibtex", "delicious")  # their values are counts: tf-idf; the others are weighted already
RUN_ON = np.zeros(1, np.uint8)


class Task(NamedTuple):
    """One label to solve."""

    label: int
    positives: NDArray[np.int32]
    penalty: float
    weight: float  # how many labels of the whole set it stands for


class Ours:
    """Our solver with the facts that the bench wants of a label."""

    def __init__(self, problem: Problem, tolerance: float) -> None:
        self.problem, self.tolerance = problem, tolerance
        self.prepared = newton.prepare(problem)
        self.workspace = newton.workspace(self.prepared)
        self.scores, self.gradient = np.zeros(len(problem.row_start) - 1), np.zeros(len(problem.column_start) - 1)

    def solve(self, tasks: Sequence[Task]) -> list[dict[str, Any]]:
        """Solve labels in a row, and return the facts of each; what the call takes beyond its labels is everybody's."""
        began = time.thread_time()
        row = newton.solve_requests(
            self.prepared,
            self.workspace,
            [Request(task.positives, task.penalty) for task in tasks],
            [self.tolerance * len(task.positives) for task in tasks],
            500,
            True,
            RUN_ON,
            [0.0] * len(tasks),
        )
        solutions = newton.solutions(row)
        rest = (time.thread_time() - began - row.numbers[:, 3].sum()) / max(1, len(tasks))
        return [
            self._facts(task, solution._replace(seconds=solution.seconds + rest), int(counts[2]))
            for task, solution, counts in zip(tasks, solutions, row.counts, strict=True)
        ]

    def _facts(self, task: Task, found: Solution, n_read: int) -> dict[str, Any]:
        return {
            "ours_seconds": found.seconds,
            "ours_objective": found.objective,
            "ours_gap_per_positive": found.duality_gap / len(task.positives),
            "dual_bound": found.objective - found.duality_gap,
            "support": len(found.features),
            "bias": found.bias,
            "iterations": found.iterations,
            "outcome": Outcome(found.outcome).name,
            "work_ratio": n_read / self._least_work(task, found.features, found.weights, found.bias),
        }

    def objective(self, task: Task, weights: NDArray[np.float64], bias: float) -> float:
        """Compute the objective of anybody's weights, over all instances."""
        is_positive = np.zeros(len(self.scores), np.uint8)
        is_positive[task.positives] = 1
        arrays = (self.scores, self.gradient)
        return float(certify(self.problem, weights, bias, is_positive, task.penalty, True, *arrays)[0])

    def _least_work(self, task: Task, features: Any, weights: Any, bias: float) -> int:
        """Count the entries of the support's columns and of the active rows that are no untouched negatives."""
        dense = np.zeros(len(self.gradient))
        dense[features] = weights
        self.objective(task, dense, bias)
        y = np.full(len(self.scores), -1.0)
        y[task.positives] = 1.0
        active = (1.0 - y * self.scores > 0) & ((self.scores != bias) | (y > 0))
        rows = np.diff(self.problem.row_start)[active].sum()
        return max(1, int(rows + np.diff(self.problem.column_start)[features].sum()))


def main() -> None:
    """Run the bench on each data set."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="folder with SET/train.txt.xz")
    parser.add_argument("--sets", nargs="+", default=["bibtex", "eurlex-4.3k-d5000", "debian-depends"])
    parser.add_argument("--labels", type=int, default=120, help="labels to draw")
    parser.add_argument("--most-positives", type=int, default=1 << 30, help="of the labels to draw")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--lambda", type=float, default=0.1, dest="penalty")
    parser.add_argument("--lambda-exponent", type=float, default=0.0)
    parser.add_argument("--tolerance", type=float, default=1e-3)
    parser.add_argument("--eps", type=float, nargs="*", default=[0.1, 0.01, 0.0001], help="of LIBLINEAR")
    parser.add_argument("--forward-backward", type=int, default=0, metavar="N", help="labels for Algorithm 1 too")
    parser.add_argument("--iterations", type=int, default=3000, help="of Algorithm 1, at most")
    parser.add_argument("--growth", action="store_true", help="time at 25, 50 and 100 %% of the instances too")
    parser.add_argument("--result", default="solver", help="begins the names of the files: RESULT-SET.md")
    arguments = parser.parse_args()
    choose_cache()  # as commands do: never time the kernels of before an edit
    RESULTS.mkdir(exist_ok=True)
    for name in arguments.sets:
        bench(name, arguments)


def bench(name: str, arguments: argparse.Namespace) -> None:
    """Time all solvers on one data set and write what came out."""
    dataset = read_text(next(arguments.data.glob(f"{name}/train.txt*")))
    problem = weighted_problem(dataset, name)
    tasks = draw(dataset.positives, arguments)
    ours = Ours(problem, arguments.tolerance)
    ours.solve(tasks[-1:])
    peer = Liblinear(problem)
    rows: list[dict[str, Any]] = []
    for _, group in itertools.groupby(tasks, key=lambda task: task.weight):
        stratum = list(group)
        for task, facts in zip(stratum, ours.solve(stratum), strict=True):
            row = {"label": task.label, "positives": len(task.positives), "weight": task.weight} | facts
            for eps in arguments.eps:
                found = peer.solve(task.positives, task.penalty, eps)
                objective = ours.objective(task, found.weights, found.bias)
                row[f"liblinear_{eps:g}_seconds"] = found.seconds
                row[f"liblinear_{eps:g}_suboptimality"] = (objective - row["dual_bound"]) / len(task.positives)
            rows.append(row)
            print(f"{name}: {len(rows)} of {len(tasks)} labels", end="\r", file=sys.stderr, flush=True)
    if arguments.forward_backward:
        run_forward_backward(problem, tasks, rows, arguments)
    write_csv(RESULTS / f"{arguments.result}-{name}.csv", rows)
    plot(RESULTS / f"{arguments.result}-{name}.png", name, rows, arguments)
    lines = report(name, rows, arguments)
    if arguments.growth:
        lines += growth(name, dataset, arguments)
    text = "\n".join(lines) + "\n"
    (RESULTS / f"{arguments.result}-{name}.md").write_text(text)
    print(text)


def weighted_problem(dataset: Dataset, name: str) -> Problem:
    """Weight a data set as users would."""
    weighting = Weighting.fit(dataset, "tfidf" if name in COUNTS else "none", normalize=True)
    return make_problem(*weighting.apply(dataset.features), dataset.n_features)


def draw(positives: Lists, arguments: argparse.Namespace) -> list[Task]:
    """Draw as many labels from each stratum of positives, by seed."""
    n_positives = np.diff(positives.indptr)
    penalties = label_penalties(n_positives, arguments.penalty, arguments.lambda_exponent)
    stratum = np.searchsorted(STRATA, n_positives, side="right")
    stratum[n_positives > arguments.most_positives] = 0
    filled = [s for s in range(1, len(STRATA) + 1) if np.any(stratum == s)]
    generator = np.random.default_rng(arguments.seed)
    tasks = []
    for s in filled:
        members = np.flatnonzero(stratum == s)
        chosen = np.sort(generator.permutation(members)[: -(-arguments.labels // len(filled))])
        for label in chosen.tolist():
            of_label = positives.indices[positives.indptr[label] : positives.indptr[label + 1]]
            tasks.append(Task(label, of_label, float(penalties[label]), len(members) / len(chosen)))
    return tasks


def run_forward_backward(
    problem: Problem, tasks: list[Task], rows: list[dict[str, Any]], arguments: argparse.Namespace
) -> None:
    """Run Algorithm 1 on some of the labels, as far as its iterations go."""
    solver = ForwardBackward(problem, arguments.tolerance, arguments.iterations, has_bias=True)
    workspace = solver.workspace()
    for place in np.linspace(0, len(tasks) - 1, arguments.forward_backward).astype(int):
        began = time.thread_time()
        found = solver.solve(workspace, tasks[place].positives, tasks[place].penalty, COLD, RUN_ON)
        suboptimality = (found.objective - rows[place]["dual_bound"]) / len(tasks[place].positives)
        rows[place]["forward_backward_seconds"] = time.thread_time() - began
        rows[place]["forward_backward_outcome"] = Outcome(found.outcome).name
        rows[place]["forward_backward_suboptimality"] = suboptimality


def growth(name: str, dataset: Dataset, arguments: argparse.Namespace) -> list[str]:
    """Time the same labels on parts of the instances, positives thinned out alike; return the fitted exponents."""
    generator = np.random.default_rng(arguments.seed)
    order = generator.permutation(dataset.n_instances)
    labels = [task.label for task in draw(dataset.positives, arguments)]
    n_whole = np.diff(dataset.positives.indptr)
    seconds = {}
    for percent in (25, 50, 100):
        part = select(dataset, np.sort(order[: dataset.n_instances * percent // 100]))
        ours = Ours(weighted_problem(part, name), arguments.tolerance)
        n_positives = np.diff(part.positives.indptr)
        penalties = label_penalties(n_positives, arguments.penalty, arguments.lambda_exponent)
        indptr, instances = part.positives
        tasks = [Task(x, instances[indptr[x] : indptr[x + 1]], float(penalties[x]), 1.0) for x in labels]
        tasks = [task for task in tasks if len(task.positives)]
        ours.solve(tasks[-1:])
        for task, facts in zip(tasks, ours.solve(tasks), strict=True):
            seconds[percent, task.label] = facts["ours_seconds"]
    found = {}
    for low, high, stratum in strata():
        members = [x for x in labels if low <= n_whole[x] < high and (25, x) in seconds and (50, x) in seconds]
        if members:
            found[stratum] = [1e3 * np.mean([seconds[percent, x] for x in members]) for percent in (25, 50, 100)]
    plot_growth(RESULTS / f"growth-{name}.png", name, found)
    lines = ["| positives | ms at 25 % | 50 % | 100 % of the instances | exponent |", "|---|---|---|---|---|"]
    for stratum, means in found.items():
        lines.append(f"| {stratum} | " + " | ".join(f"{m:.2f}" for m in means) + f" | {exponent(means):.2f} |")
    return [*lines, ""]


if __name__ == "__main__":
    main()
