"""Many labels on several threads: a queue of labels, and one workspace a thread."""

import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from proxml_mpi.solve.problem import COLD, Outcome, Solution, Start, unsolvable


class Solver(Protocol):
    """A function from arrays to a solution record, with the workspace that it wants."""

    def workspace(self) -> Any:
        """Return what one thread needs, to be used for one label after the other."""

    def solve(
        self, workspace: Any, positives: NDArray[np.int32], penalty: float, start: Start, stop: NDArray[np.uint8]
    ) -> Solution:
        """Solve one label; `stop[0]` turning non-zero abandons it."""


Solved = tuple[int, Solution]  # a label and its solution
SECONDS_TOGETHER = 0.01  # a thread hands over together what it solves within this time: every handover has its price
N_TWINS, MOST_POSITIVES = 16384, 16  # solutions that are kept for twins, and up to how many positives


class _Twins:
    """The last solutions of rare labels: labels with the same positives and lambda have the same solution, to the bit.

    Many rare labels have such twins, most of them nearby: everything that only one document cites, say.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._solutions: dict[tuple[bytes, float], Solution] = {}

    def find(self, positives: NDArray[np.int32], penalty: float) -> Solution | None:
        """Return the solution of a twin, if one is known."""
        with self._lock:
            return self._solutions.get((positives.tobytes(), penalty)) if len(positives) <= MOST_POSITIVES else None

    def keep(self, positives: NDArray[np.int32], penalty: float, solution: Solution) -> None:
        """Keep a solution for twins to come; forget the oldest."""
        if len(positives) > MOST_POSITIVES or solution.outcome == Outcome.not_trained:
            return
        with self._lock:
            self._solutions[positives.tobytes(), penalty] = solution
            if len(self._solutions) > N_TWINS:
                del self._solutions[next(iter(self._solutions))]


def label_penalties(n_positives: NDArray[np.int64], penalty: float, exponent: float) -> NDArray[np.float64]:
    """Return every label's own lambda: lambda x positives^exponent.

    The last bit of numpy's power of arrays changes with its version, and would change models: one number at a time.
    """
    counts, place = np.unique(np.maximum(n_positives, 1).astype(np.float64), return_inverse=True)
    powers = np.array([count ** np.float64(exponent) for count in counts], np.float64)
    return penalty * powers[place]


def expected_costs(n_positives: NDArray[np.int64], penalties: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return how long labels will take, relative to each other; a larger lambda leaves less to be solved.

    The exponents fit what the labels of eurlex-4.3k-d5000 and debian-depends took at two rules for lambda.
    """
    costs = np.maximum(n_positives, 1).astype(np.float64) ** 0.85 / np.maximum(penalties, 1e-12) ** 0.4
    return np.where(n_positives > 0, costs, 0.01 * costs.min(initial=np.inf))


def solve_labels(
    solver: Solver,
    labels: Iterable[int],
    positives: Callable[[int], NDArray[np.int32]],
    penalties: Callable[[int], float],
    n_threads: int,
    stop: NDArray[np.uint8],
    start: Callable[[int], Start] = lambda label: COLD,
) -> Iterator[list[Solved]]:
    """Yield labels as they are solved, a few together; none at all now and then, so that the caller can look around.

    Labels are drawn in the caller's thread, in their order, as many ahead as threads will take until they hand over.
    Once `stop[0]` is non-zero no further label begins, and those in hand end as not trained.
    """
    waiting: queue.SimpleQueue[int | None] = queue.SimpleQueue()
    finished: queue.SimpleQueue[list[Solved] | BaseException | None] = queue.SimpleQueue()
    twins = _Twins()

    def solve_one(workspace: Any, label: int) -> Solution:
        instances = positives(label)
        if len(instances) == 0:
            return unsolvable(Outcome.no_positives)
        began, penalty, begin_with = time.thread_time(), penalties(label), start(label)
        solution = twins.find(instances, penalty) if begin_with is COLD else None
        if solution is None:
            solution = solver.solve(workspace, instances, penalty, begin_with, stop)
            if begin_with is COLD:
                twins.keep(instances, penalty, solution)
        return solution._replace(seconds=time.thread_time() - began)

    def work() -> None:
        try:
            workspace = solver.workspace()
            solved, began = [], time.monotonic()
            while (label := waiting.get()) is not None and not stop[0]:
                solved.append((label, solve_one(workspace, label)))
                if waiting.empty() or time.monotonic() > began + SECONDS_TOGETHER:
                    finished.put(solved)
                    solved, began = [], time.monotonic()
            finished.put(solved)
            finished.put(None)
        except BaseException as error:
            finished.put(error)

    threads = [threading.Thread(target=work, name=f"solver-{t}", daemon=True) for t in range(n_threads)]
    for thread in threads:
        thread.start()
    source, n_ahead, n_together, n_working, is_open = iter(labels), 0, 1, n_threads, True
    while n_working > 0:
        while is_open and (n_ahead < 2 * n_together * n_threads or stop[0]):
            label = None if stop[0] else next(source, None)
            is_open = label is not None
            n_ahead += is_open
            for _ in range(1 if is_open else n_threads):
                waiting.put(label)
        try:
            item = finished.get(timeout=0.2)
        except queue.Empty:
            yield []
            continue
        if isinstance(item, BaseException):
            raise item
        if item is None:
            n_working -= 1
        else:
            n_together = max(1, len(item))
            n_ahead -= len(item)
            yield item
    for thread in threads:
        thread.join()
