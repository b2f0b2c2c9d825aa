"""Many labels on several threads: a queue of labels, and one workspace a thread."""

import itertools
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from proxml_mpi.solve.problem import COLD, Outcome, Request, Solution, Start, unsolvable


class Solver(Protocol):
    """A function from arrays to a solution record, with the workspace that it wants."""

    def workspace(self) -> Any:
        """Return what one thread needs, to be used for one label after the other."""

    def solve(
        self, workspace: Any, positives: NDArray[np.int32], penalty: float, start: Start, stop: NDArray[np.uint8]
    ) -> Solution:
        """Solve one label; `stop[0]` turning non-zero abandons it."""

    def solve_together(
        self, workspace: Any, requests: Sequence[Request], stop: NDArray[np.uint8]
    ) -> Sequence[Solution]:
        """Solve labels, timing each; `stop[0]` turning non-zero abandons them."""


Solved = tuple[int, Solution]  # a label and its solution
# A thread gets together, and hands over together, what it solves within this time: every handover has its price.
SECONDS_TOGETHER, MOST_TOGETHER = 0.03, 256
N_TWINS, MOST_POSITIVES = 16384, 16  # solutions that are kept for twins, and up to how many positives
Key = tuple[bytes, float]


class _Twins:
    """The last solutions of rare labels: labels with the same positives and lambda have the same solution, to the bit.

    Many rare labels have such twins, most of them nearby: everything that only one document cites, say.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._solutions: dict[Key, Solution] = {}

    def find(self, key: Key) -> Solution | None:
        """Return the solution of a twin, if one is known: it took no time."""
        with self._lock:
            known = self._solutions.get(key)
        return known and known._replace(seconds=0.0)

    def keep(self, key: Key, solution: Solution) -> None:
        """Keep a solution for twins to come; forget the oldest."""
        with self._lock:
            self._solutions[key] = solution
            if len(self._solutions) > N_TWINS:
                del self._solutions[next(iter(self._solutions))]


def _key(request: Request) -> Key | None:
    """Return what twins have in common; None for labels that are not to be looked up."""
    is_rare = len(request.positives) <= MOST_POSITIVES
    return (request.positives.tobytes(), request.penalty) if is_rare and request.start is COLD else None


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

    Labels are drawn in the caller's thread, in their order, as many ahead as threads take until they hand over twice.
    Once `stop[0]` is non-zero no further label begins, and those in hand end as not trained.
    """
    waiting: queue.SimpleQueue[list[int] | None] = queue.SimpleQueue()
    finished: queue.SimpleQueue[tuple[list[Solved], float] | BaseException | None] = queue.SimpleQueue()
    twins = _Twins()

    def solve_together(workspace: Any, together: list[int]) -> list[Solved]:
        solved: list[Solved] = []
        waits: dict[Key | int, list[int]] = {}  # labels by what they have in common, the first of them to be solved
        requests = []
        for label in together:
            request = Request(positives(label), penalties(label), start(label))
            key = _key(request)
            if len(request.positives) == 0:
                solved.append((label, unsolvable(Outcome.no_positives)))
            elif key is not None and (known := twins.find(key)) is not None:
                solved.append((label, known))
            elif key in waits:
                waits[key].append(label)
            else:
                waits[label if key is None else key] = [label]
                requests.append(request)
        solutions = solver.solve_together(workspace, requests, stop) if requests else []
        for (common, (label, *others)), solution in zip(waits.items(), solutions, strict=True):
            solved.append((label, solution))
            solved += [(other, solution._replace(seconds=0.0)) for other in others]
            if isinstance(common, tuple) and solution.outcome != Outcome.not_trained:
                twins.keep(common, solution)
        return solved

    def work() -> None:
        try:
            workspace = solver.workspace()
            while (together := waiting.get()) is not None and not stop[0]:
                began = time.monotonic()
                solved = solve_together(workspace, together)
                finished.put((solved, time.monotonic() - began))
            finished.put(None)
        except BaseException as error:
            finished.put(error)

    threads = [threading.Thread(target=work, name=f"solver-{t}", daemon=True) for t in range(n_threads)]
    for thread in threads:
        thread.start()
    source, n_ahead, n_together, n_working, is_open = iter(labels), 0, 1, n_threads, True
    while n_working > 0:
        while is_open and (n_ahead < 2 * n_together * n_threads or stop[0]):
            together = [] if stop[0] else list(itertools.islice(source, n_together))
            is_open = len(together) > 0
            n_ahead += len(together)
            for _ in range(1 if is_open else n_threads):
                waiting.put(together or None)
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
            solved, seconds = item
            n_ahead -= len(solved)
            n_together = min(max(1, int(len(solved) * SECONDS_TOGETHER / max(seconds, 1e-9))), MOST_TOGETHER)
            yield solved
    for thread in threads:
        thread.join()
