"""The solutions of a run of neighbouring labels as arrays: what is stored and sent."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from proxml_mpi.solve.problem import Outcome, Solution, unsolvable


class Block(NamedTuple):
    """Solutions of labels first_label ... first_label + n_labels - 1; names are those of the model file."""

    first_label: int
    indptr: NDArray[np.int64]  # [n_labels + 1]
    indices: NDArray[np.int32]  # [n_weights], feature ids ascending within a label
    data: NDArray[np.float32]  # [n_weights]
    bias: NDArray[np.float32]  # [n_labels]
    n_positives: NDArray[np.int32]  # [n_labels]
    objective: NDArray[np.float64]  # [n_labels]
    duality_gap: NDArray[np.float64]  # [n_labels]
    iterations: NDArray[np.int32]  # [n_labels]
    lambda_: NDArray[np.float64]  # [n_labels]
    outcome: NDArray[np.uint8]  # [n_labels]
    seconds: NDArray[np.float32]  # [n_labels], processor time

    @property
    def n_labels(self) -> int:
        return len(self.bias)

    @property
    def end_label(self) -> int:
        return self.first_label + self.n_labels


def join_neighbours(blocks: Sequence[Block], most_weights: int = 1 << 22) -> list[Block]:
    """Return the same labels, ascending, in fewer blocks: neighbours are joined up to a number of weights."""
    runs: list[list[Block]] = []
    n_weights = 0
    for block in sorted(blocks, key=lambda block: block.first_label):
        n_weights += len(block.indices)
        if not runs or runs[-1][-1].end_label != block.first_label or n_weights > most_weights:
            runs.append([])
            n_weights = len(block.indices)
        runs[-1].append(block)
    return [_join(run) for run in runs]


def _join(run: list[Block]) -> Block:
    """Return neighbouring blocks as one."""
    begins = np.cumsum([0, *(len(block.indices) for block in run)])
    indptr = np.concatenate([[0], *(block.indptr[1:] + begin for block, begin in zip(run, begins, strict=False))])
    others = (np.concatenate(arrays) for arrays in zip(*(block[2:] for block in run), strict=True))
    return Block(run[0].first_label, indptr, *others)


def untrained_block(first_label: int, n_positives: NDArray[np.int64], penalties: NDArray[np.float64]) -> Block:
    """Return the block of labels that are left out of training."""
    solutions = [unsolvable(Outcome.not_trained)] * len(n_positives)
    return assemble_block(first_label, solutions, n_positives, penalties)


def assemble_block(
    first_label: int,
    solutions: Sequence[Solution],
    n_positives: NDArray[np.int64],
    penalties: NDArray[np.float64],
) -> Block:
    """Join the solutions of neighbouring labels, given in order, with their [n_labels] positives and lambdas."""
    n_labels = len(solutions)
    indptr = np.zeros(n_labels + 1, np.int64)
    np.cumsum([len(s.features) for s in solutions], out=indptr[1:])
    return Block(
        first_label,
        indptr,
        np.concatenate([np.empty(0, np.int32), *(s.features for s in solutions)]),
        np.concatenate([np.empty(0, np.float32), *(s.weights for s in solutions)]),
        np.array([s.bias for s in solutions], np.float32),
        n_positives.astype(np.int32),
        np.array([s.objective for s in solutions], np.float64),
        np.array([s.duality_gap for s in solutions], np.float64),
        np.array([s.iterations for s in solutions], np.int32),
        penalties,
        np.array([s.outcome for s in solutions], np.uint8),
        np.array([s.seconds for s in solutions], np.float32),
    )
