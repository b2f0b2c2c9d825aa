"""Robustness in facts, and every number of them as a row."""

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proxml_mpi.analysis.margins import FACTS
from proxml_mpi.analysis.robustness import Found, Measured
from proxml_mpi.analysis.robustness_words import findings
from proxml_mpi.analysis.theorem import Checked
from proxml_mpi.files import replace_text
from proxml_mpi.score.metrics import BIN_ENDS, FREQUENCY_BINS
from proxml_mpi.settings.robustness import RobustnessSettings

Rows = NDArray[np.float64]


def robustness_facts(found: Found, settings: RobustnessSettings) -> dict[str, Any]:
    """Return the facts, ready for JSON, from what rank 0 has."""
    first = found.models[0].header
    facts = {
        "test": str(settings.test),
        "n_instances": found.n_instances,
        "n_labels": first.n_labels,
        "n_features": first.n_features,
        "seed": settings.seed,
        "k": sorted(set(settings.k)),
        "theorem": _theorem(found.models[0].theorem),
        "overlap": None if found.overlap is None else _overlap(found.overlap, first.n_positives),
        "models": [_model(model, settings, found.n_instances) for model in found.models],
    }
    return facts | {"findings": findings(facts)}


def _theorem(rows: Rows | None) -> dict[str, Any] | None:
    """Return how far both sides of the theorem are apart, relative to the right one, on the labels that it is about."""
    if rows is None or len(rows) == 0:
        return None
    column = dict(zip(Checked._fields, rows.T, strict=True))
    is_meant = column["is_separable"] == 0
    by_programs = np.abs(column["few_found"] - column["few_predicted"]) / column["few_predicted"]
    by_moving = np.abs(column["attained"] - column["predicted"]) / column["predicted"]
    return {
        "n_labels": len(rows),
        "n_separable": int(np.count_nonzero(~is_meant)),
        "budget": [float(column["budget"].min()), float(column["budget"].max())],
        "largest_difference_by_linear_programs": float(by_programs[is_meant].max(initial=0.0)),
        "largest_difference_by_moving_one_instance": float(by_moving[is_meant].max(initial=0.0)),
        "n_separable_below": int(np.count_nonzero((column["few_found"] < column["few_predicted"])[~is_meant])),
        "labels": [Checked(*row)._asdict() | {"label": int(row[0])} for row in rows.tolist()],
    }


def _overlap(rows: Rows, n_positives: NDArray[np.int32]) -> dict[str, Any]:
    """Return, by frequency of the labels, the share of test positives' features that training positives have."""
    bins = {}
    for name, is_in in _bins(n_positives):
        n_pairs, share_sum, n_distinct, n_known = rows[is_in].sum(axis=0)
        if n_pairs:
            bins[name] = {
                "n_labels": int(np.count_nonzero(rows[is_in, 0])),
                "n_pairs": int(n_pairs),
                "share_of_features": share_sum / n_pairs,
                "share_of_vocabulary": n_known / max(n_distinct, 1),
            }
    return bins


def _bins(n_positives: NDArray[np.int32]) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    in_bin = np.searchsorted(BIN_ENDS, n_positives)
    return ((name, in_bin == place) for place, name in enumerate(FREQUENCY_BINS))


def _model(model: Measured, settings: RobustnessSettings, n_instances: int) -> dict[str, Any]:
    header, attributes = model.header, model.header.attributes
    n_weights = int(header.indptr[-1])
    return {
        "model": str(header.path),
        "penalty": str(attributes.get("penalty", "")),
        "lambda": float(attributes.get("lambda", np.nan)),
        "lambda_exponent": float(attributes.get("lambda_exponent", np.nan)),
        "ridge": float(attributes["ridge"]),
        "prune": float(attributes.get("prune", np.nan)),
        "n_weights": n_weights,
        "weights_per_label": n_weights / max(int(np.count_nonzero(np.diff(header.indptr))), 1),
        "model_bytes": header.path.stat().st_size,
        "budgets": [] if model.errors is None else _budgets(model.errors, header.n_positives, settings, n_instances),
        "curves": [
            {"kind": c.change.kind, "fraction": c.change.fraction, "metrics": c.metrics, "by_frequency": c.by_frequency}
            for c in model.curves
        ],
    }


def _budgets(
    errors: Rows, n_positives: NDArray[np.int32], settings: RobustnessSettings, n_instances: int
) -> list[dict[str, Any]]:
    """Return the worst-case errors for every budget, overall and by frequency of the labels."""
    found = []
    for place, budget in enumerate(settings.budgets):
        everywhere = np.ones(len(errors), bool)
        found.append(
            {"budget": budget}
            | _worst(errors, place, settings, everywhere, n_instances)
            | {
                "by_frequency": {
                    name: _worst(errors, place, settings, is_in, n_instances)
                    for name, is_in in _bins(n_positives)
                    if is_in.any()
                }
            }
        )
    return found


def _worst(
    errors: Rows, place: int, settings: RobustnessSettings, is_in: NDArray[np.bool_], n_instances: int
) -> dict[str, float]:
    """Return the worst case of some labels under one budget; the margin is that of positives of labels that speak."""
    rows = errors[is_in]
    n_true, score_sum, norm, is_silent = rows[:, : len(FACTS)].T
    missed, hit = rows[:, len(FACTS) + place].sum(), rows[:, len(FACTS) + len(settings.budgets) + place].sum()
    n_spoken = n_true[is_silent == 0].sum()
    margin = (score_sum - settings.budgets[place] * n_true * norm)[is_silent == 0].sum()
    return {
        "hamming_loss": 100.0 * (missed + hit) / (n_instances * max(len(rows), 1)),
        "found": 100.0 * (1.0 - missed / n_true.sum()) if n_true.sum() else np.nan,
        "false_per_instance": hit / n_instances,
        "margin_of_positives": margin / n_spoken if n_spoken else np.nan,
        "mean_norm": norm[norm > 0].mean() if np.any(norm > 0) else 0.0,
    }


def write_rows(path: Path, facts: dict[str, Any]) -> None:
    """Write every number to a file, one a row."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("model", "analysis", "level", "positives", "quantity", "value"))
    for number, model in enumerate(facts["models"], start=1):
        for worst in model["budgets"]:
            for name, values in {"all": worst, **worst["by_frequency"]}.items():
                numbers = {key: v for key, v in values.items() if key not in ("budget", "by_frequency")}
                writer.writerows((number, "budget", worst["budget"], name, *item) for item in numbers.items())
        for curve in model["curves"]:
            for name, values in {"all": curve["metrics"], **curve["by_frequency"]}.items():
                writer.writerows((number, curve["kind"], curve["fraction"], name, *item) for item in values.items())
    for name, values in (facts["overlap"] or {}).items():
        writer.writerows(("", "overlap", "", name, *item) for item in values.items())
    for checked in (facts["theorem"] or {"labels": []})["labels"]:
        writer.writerows((1, "theorem", checked["label"], "", *item) for item in checked.items())
    replace_text(path, text.getvalue())
