"""What a data set looks like: the row of the paper's Table 1, and how long the tails of labels and features are."""

from typing import Any

import numpy as np

from proxml_mpi.data.dataset import Dataset, Int64

TAIL = 5  # a label with fewer positives than so many is in the tail


def describe(dataset: Dataset) -> dict[str, Any]:
    """Return the facts of a data set, ready for JSON."""
    positives, frequencies = label_counts(dataset), feature_counts(dataset)
    labels_of, features_of = np.diff(dataset.labels.indptr), np.diff(dataset.features.indptr)
    return {
        "n_instances": dataset.n_instances,
        "n_features": dataset.n_features,
        "n_labels": dataset.n_labels,
        "positives_per_label": float(positives.mean()),
        "labels_per_instance": float(labels_of.mean()),
        "features_per_instance": float(features_of.mean()),
        "n_entries": len(dataset.features.indices),
        "n_pairs": len(dataset.labels.indices),
        "labels_seen": int(np.count_nonzero(positives)),
        "labels_with_one_positive": int(np.count_nonzero(positives == 1)),
        "tail_below_positives": TAIL,
        "tail_share_of_labels": float(np.mean(positives < TAIL)),
        "tail_share_of_pairs": float(positives[positives < TAIL].sum() / max(1, positives.sum())),
        "features_seen": int(np.count_nonzero(frequencies)),
        "instances_without_labels": int(np.count_nonzero(labels_of == 0)),
        "instances_without_features": int(np.count_nonzero(features_of == 0)),
        "labels_by_positives": histogram(positives),
        "features_by_instances": histogram(frequencies),
        "data_digest": dataset.digest,
    }


def label_counts(dataset: Dataset) -> Int64:
    """Count the positives of every label."""
    return np.bincount(dataset.labels.indices, minlength=dataset.n_labels).astype(np.int64)


def feature_counts(dataset: Dataset) -> Int64:
    """Count the instances of every feature."""
    return np.bincount(dataset.features.indices, minlength=dataset.n_features).astype(np.int64)


def histogram(counts: Int64) -> dict[str, int]:
    """Count the counts: none, one, then up to every power of two."""
    largest = int(counts.max(initial=0))
    ends = [0, *(2**power for power in range(largest.bit_length() + 1))]
    bins = np.bincount(np.searchsorted(ends, counts), minlength=len(ends)).tolist()
    names = [str(end) if end <= 2 else f"{ends[place - 1] + 1}-{end}" for place, end in enumerate(ends)]
    return {name: number for name, end, number in zip(names, ends, bins, strict=True) if number or end <= largest}


def table(facts: dict[str, Any]) -> str:
    """Return the facts for people."""
    head = ("N", "D", "L", "positives per label", "labels per instance", "features per instance")
    row = (
        *(f"{facts[name]:,}" for name in ("n_instances", "n_features", "n_labels")),
        *(f"{facts[name]:,.2f}" for name in ("positives_per_label", "labels_per_instance", "features_per_instance")),
    )
    widths = [max(len(a), len(b)) for a, b in zip(head, row, strict=True)]
    lines = ["  ".join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True)) for cells in (head, row)]
    lines += [
        "",
        f"{facts['labels_seen']:,} labels have positives, {facts['labels_with_one_positive']:,} just one; the tail "
        f"(below {facts['tail_below_positives']} positives) is {facts['tail_share_of_labels']:.1%} of the labels and "
        f"{facts['tail_share_of_pairs']:.1%} of the positives",
        f"{facts['features_seen']:,} features occur; {facts['instances_without_labels']:,} instances have no label, "
        f"{facts['instances_without_features']:,} no feature",
        "",
        *bars("labels by positives", facts["labels_by_positives"]),
        "",
        *bars("features by instances", facts["features_by_instances"]),
        "",
        f"digest {facts['data_digest']}",
    ]
    return "\n".join(lines)


def bars(title: str, counts: dict[str, int]) -> list[str]:
    """Return a histogram as lines of text."""
    largest = max(counts.values())
    bars = {name: "#" * round(40 * number / largest) for name, number in counts.items()}
    return [title, *(f"{name:>17}  {number:>11,}  {bars[name]}".rstrip() for name, number in counts.items())]
