"""The labels of a model by outcome, positives, weights and gap."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proxml_mpi.data.figure import drawing
from proxml_mpi.data.statistics import bars, histogram
from proxml_mpi.solve.block import Block
from proxml_mpi.solve.problem import Outcome

TITLES = {
    "labels_by_outcome": "labels by outcome",
    "labels_by_positives": "labels by positives",
    "labels_by_weights": "labels by weights",
    "labels_by_gap": "labels by duality gap / positives",
}
SMALLEST_POWER = -12


def histograms(block: Block) -> dict[str, dict[str, int]]:
    """Count the labels; weights and gaps are those of solved ones."""
    is_solved = np.isin(block.outcome, (Outcome.converged, Outcome.iteration_limit))
    gaps = block.duality_gap[is_solved] / np.maximum(block.n_positives[is_solved], 1)
    outcomes = np.bincount(block.outcome, minlength=len(Outcome)).tolist()
    return {
        "labels_by_outcome": {outcome.name.replace("_", " "): outcomes[outcome] for outcome in Outcome},
        "labels_by_positives": histogram(block.n_positives.astype(np.int64)),
        "labels_by_weights": histogram(np.diff(block.indptr)[is_solved]),
        "labels_by_gap": by_power_of_ten(gaps),
    }


def by_power_of_ten(values: NDArray[np.float64]) -> dict[str, int]:
    """Count numbers up to every power of ten, from the smallest power that has any to the largest."""
    if len(values) == 0:
        return {}
    powers = np.ceil(np.log10(np.maximum(values, 10.0**SMALLEST_POWER))).astype(np.int64)
    low, high = int(powers.min()), int(powers.max())
    counts = np.bincount(powers - low, minlength=high - low + 1).tolist()
    return {f"up to 1e{power}": counts[power - low] for power in range(low, high + 1)}


def page(counts: dict[str, dict[str, int]]) -> str:
    """Return the histograms as text."""
    return "\n\n".join("\n".join(bars(TITLES[kind], bins)) for kind, bins in counts.items() if bins)


def draw(path: Path, counts: dict[str, dict[str, int]]) -> None:
    """Draw the histograms into a file, whose name tells the kind of picture."""
    with drawing(path, 11, 7, "--histogram") as figure:
        for axes, (kind, bins) in zip(figure.subplots(2, 2).flat, counts.items(), strict=True):
            _draw(axes, TITLES[kind], bins)


def _draw(axes: Any, title: str, bins: dict[str, int]) -> None:
    axes.barh(list(bins), list(bins.values()))
    axes.invert_yaxis()
    axes.set_title(title)
    axes.grid(visible=True, axis="x", alpha=0.3)
