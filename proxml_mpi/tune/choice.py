"""From a row for every fold and lambda to a point for every lambda, and the best of them."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from proxml_mpi.settings.tune import TuneSettings

Row = dict[str, Any]


def summarize(settings: TuneSettings, rows: Sequence[Row]) -> list[Row]:
    """Return a point for every ridge, exponent and lambda: means over the folds, and the standard error of the target.

    Metrics that a fold cannot give (nothing to divide by) are left out of its mean; nan when no fold gives any.
    """
    points = []
    for ridge, exponent in settings.paths:
        for value in settings.path:
            place = {"ridge": ridge, "lambda_exponent": exponent, "lambda": value}
            folds = [row for row in rows if place.items() <= row.items()]
            targets = [row["metrics"][settings.metric] for row in folds]
            points.append(
                {
                    **place,
                    "target": _mean(targets),
                    "standard_error": float(np.std(targets, ddof=1) / np.sqrt(len(folds))) if len(folds) > 1 else None,
                    "metrics": _means([row["metrics"] for row in folds]),
                    "by_frequency": {
                        name: _means([row["by_frequency"][name] for row in folds]) for name in folds[0]["by_frequency"]
                    },
                    **{
                        name: _mean([row[name] for row in folds])
                        for name in ("n_weights", "n_uncertified", "solver_seconds", "seconds")
                    },
                }
            )
    return points


def choose(points: Sequence[Row]) -> Row:
    """Return the point with the largest target: among equals the first, which has the larger lambda."""
    return max(points, key=lambda point: float(point["target"]))


def edges(settings: TuneSettings, best: Row) -> list[str]:
    """Say where the best point lies at the end of what was tried."""
    found = []
    axes = (("lambda", settings.path), ("lambda-exponent", settings.exponents), ("ridge", settings.ridges))
    for name, tried in axes:
        value, low, high = best[name.replace("-", "_")], min(tried), max(tried)
        is_edge = value in (low, high) and not (name == "ridge" and value == 0)  # there is no smaller ridge
        if len(tried) > 1 and is_edge:
            side = "smallest" if value == low else "largest"
            found.append(
                f"the best --{name}, {value:g}, is the {side} that was tried: "
                f"{'smaller' if value == low else 'larger'} ones may be better"
            )
    return found


def _means(dictionaries: Sequence[dict[str, float]]) -> dict[str, float]:
    return {name: _mean([values[name] for values in dictionaries]) for name in dictionaries[0]}


def _mean(values: Sequence[float]) -> float:
    """Return the mean of the numbers among the values; one value stays as it is, to the last bit."""
    known = [value for value in values if not np.isnan(value)]
    return float(sum(known)) / len(known) if known else float("nan")
