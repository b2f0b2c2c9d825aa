"""Many labels on several threads: a queue of labels, and one workspace a thread."""

import queue
import threading
import time
from collections.abc import Callable, Iterator
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


def label_penalties(n_positives: NDArray[np.int64], penalty: float, exponent: float) -> NDArray[np.float64]:
    """Return every label's own lambda: lambda x positives^exponent."""
    return penalty * np.maximum(n_positives, 1).astype(np.float64) ** exponent


def expected_costs(n_positives: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return how long labels will take, relative to each other, from their number of positives."""
    return np.where(n_positives > 0, np.maximum(n_positives, 1).astype(np.float64) ** 0.9, 0.01)


def solve_labels(
    solver: Solver,
    labels: NDArray[np.int64],
    positives: Callable[[int], NDArray[np.int32]],
    penalties: Callable[[int], float],
    n_threads: int,
    stop: NDArray[np.uint8],
    start: Callable[[int], Start] = lambda label: COLD,
) -> Iterator[Solved | None]:
    """Yield labels as they are solved, taken in the given order; None now and then, so that the caller can look around.

    Once `stop[0]` is non-zero no further label begins, and those in hand end as not trained.
    """
    tasks = iter(labels.tolist())
    lock = threading.Lock()
    finished: queue.SimpleQueue[Solved | BaseException | None] = queue.SimpleQueue()

    def solve_one(workspace: Any, label: int) -> Solution:
        instances = positives(label)
        if len(instances) == 0:
            return unsolvable(Outcome.no_positives)
        began = time.thread_time()
        solution = solver.solve(workspace, instances, penalties(label), start(label), stop)
        return solution._replace(seconds=time.thread_time() - began)

    def work() -> None:
        try:
            workspace = solver.workspace()
            while not stop[0]:
                with lock:
                    label = next(tasks, None)
                if label is None:
                    break
                finished.put((label, solve_one(workspace, label)))
            finished.put(None)
        except BaseException as error:
            finished.put(error)

    threads = [threading.Thread(target=work, name=f"solver-{t}", daemon=True) for t in range(n_threads)]
    for thread in threads:
        thread.start()
    yield from _drain(finished, n_threads)
    for thread in threads:
        thread.join()


def _drain(finished: "queue.SimpleQueue[Solved | BaseException | None]", n_threads: int) -> Iterator[Solved | None]:
    """Yield what threads put until each has said None; raise what they raise."""
    n_ended = 0
    while n_ended < n_threads:
        try:
            item = finished.get(timeout=0.2)
        except queue.Empty:
            yield None
            continue
        if isinstance(item, BaseException):
            raise item
        if item is None:
            n_ended += 1
        else:
            yield item
