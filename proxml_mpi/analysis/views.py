"""One label, or one feature, of a model."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proxml_mpi.analysis.words import naming
from proxml_mpi.errors import SettingsError
from proxml_mpi.solve.problem import Outcome
from proxml_mpi.store.model_reader import LABELS_AT_ONCE, ModelHeader, read_labels
from proxml_mpi.store.names import Names


def find_id(option: str, wanted: str, n_ids: int, names: Sequence[str] | None) -> int:
    """Return the id that a text means: a whole number in range is an id, anything else a name."""
    if wanted.isdecimal() and int(wanted) < n_ids:
        return int(wanted)
    found = [number for number, name in enumerate(names or ()) if name == wanted]
    if len(found) == 1:
        return found[0]
    if found:
        raise SettingsError(option, wanted, f"an id: {len(found)} have this name, {', '.join(map(str, found[:5]))}")
    known = "or a name" if names else "(the model has no names)"
    raise SettingsError(option, wanted, f"an id from 0 to {n_ids - 1} {known}")


def label_facts(header: ModelHeader, names: Names, label: int, top: int) -> dict[str, Any]:
    """Return a label's certificate and its largest weights."""
    block = read_labels(header, label, label + 1)
    n_positives = int(block.n_positives[0])
    return {
        "label": label,
        "name": names.labels[label] if names.labels else None,
        "n_positives": n_positives,
        "outcome": Outcome(block.outcome[0]).name,
        "objective": float(block.objective[0]),
        "duality_gap": float(block.duality_gap[0]),
        "gap_per_positive": float(block.duality_gap[0]) / max(n_positives, 1),
        "lambda": float(block.lambda_[0]),
        "ridge": float(header.attributes["ridge"]),
        "iterations": int(block.iterations[0]),
        "seconds": float(block.seconds[0]),
        "bias": float(block.bias[0]),
        "n_weights": len(block.indices),
        "features": [
            {
                "feature": int(block.indices[at]),
                "name": names.features[block.indices[at]] if names.features else None,
                "weight": float(block.data[at]),
            }
            for at in largest(block.data, top)
        ],
    }


def label_page(facts: dict[str, Any]) -> str:
    """Return a label's facts for people."""
    ridge = f", ridge {facts['ridge']:g} x lambda" if facts["ridge"] else ""
    return "\n".join(
        [
            f"label {naming(facts['label'], facts['name'])}",
            f"{facts['n_positives']:,} positives, {facts['outcome'].replace('_', ' ')} "
            f"after {facts['iterations']} iterations, {facts['seconds']:.4f} s",
            f"lambda {facts['lambda']:g}{ridge}, objective {facts['objective']:.6g}, "
            f"duality gap {facts['duality_gap']:.1e} ({facts['gap_per_positive']:.1e} per positive)",
            f"bias {facts['bias']:.4f}, {facts['n_weights']:,} weights, the {len(facts['features'])} largest:",
            *(f"{row['weight']:>10.4f}  {naming(row['feature'], row['name'])}" for row in facts["features"]),
        ]
    )


def feature_facts(header: ModelHeader, names: Names, feature: int, top: int) -> dict[str, Any]:
    """Return the labels in which a feature weighs most; labels are read some at a time."""
    labels: list[NDArray[np.int64]] = []
    weights: list[NDArray[np.float32]] = []
    for first in range(0, header.n_labels, LABELS_AT_ONCE):
        block = read_labels(header, first, min(first + LABELS_AT_ONCE, header.n_labels))
        entries = np.flatnonzero(block.indices == feature)
        labels.append(first + np.searchsorted(block.indptr, entries, side="right") - 1)
        weights.append(block.data[entries])
    label_of, weight_of = np.concatenate(labels), np.concatenate(weights)
    return {
        "feature": feature,
        "name": names.features[feature] if names.features else None,
        "idf": None if header.idf is None else float(header.idf[feature]),
        "n_instances": None if header.feature_counts is None else int(header.feature_counts[feature]),
        "n_labels": len(label_of),
        "labels": [
            {
                "label": int(label_of[at]),
                "name": names.labels[label_of[at]] if names.labels else None,
                "weight": float(weight_of[at]),
                "n_positives": int(header.n_positives[label_of[at]]),
            }
            for at in largest(weight_of, top)
        ],
    }


def feature_page(facts: dict[str, Any]) -> str:
    """Return a feature's facts for people."""
    idf = "" if facts["idf"] is None else f"idf {facts['idf']:.4f}, "
    seen = "" if facts["n_instances"] is None else f"in {facts['n_instances']:,} training instances, "
    return "\n".join(
        [
            f"feature {naming(facts['feature'], facts['name'])}",
            f"{seen}{idf}a weight in {facts['n_labels']:,} labels, the {len(facts['labels'])} largest:",
            *(
                f"{row['weight']:>10.4f}  {naming(row['label'], row['name'])} ({row['n_positives']:,} positives)"
                for row in facts["labels"]
            ),
        ]
    )


def largest(weights: NDArray[np.float32], top: int) -> NDArray[np.int64]:
    """Return the places of the largest weights by size, the first ones among equals."""
    return np.argsort(-np.abs(weights), kind="stable")[:top]
