"""A data set of Amazon-670K's size through the whole pipeline: what is trained here, and what all of it would take.

    proxml-data synthesize train.h5 --test test.h5 --test-fraction 0.05 --instances 516262 --features 135909 \\
        --labels 670091 --labels-per-instance 5.45 --features-per-instance 75
    proxml-train train.h5 part.h5 --weighting tfidf --threads 1 --num-labels 67010 --report part.json
    python tools/bench/fullsize.py part.h5 part.json test.h5

The labels of synthetic data come in no order, so that the first tenth is a random sample. Its processor seconds,
by frequency, times the labels of each frequency, are the time of all; the computed run on 256 ranks is that of
scaling.py, every trained label standing for as many as the sample leaves out. For prediction the trained labels are
repeated under new ids until there are as many as in the data. Writes fullsize.md into tools/bench/results.
"""

import argparse
import json
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from field_report import table
from scaling import Labels, Machine, compute

from proxml_mpi.data.weighting import Weighting
from proxml_mpi.score.index import build_index, score_top_k
from proxml_mpi.solve.labels import expected_costs
from proxml_mpi.solve.problem import Outcome
from proxml_mpi.store.model_reader import read_header, read_labels
from proxml_mpi.store.sources import read_dataset

RESULTS = Path(__file__).parent / "results"
EDGES = [1, 2, 3, 5, 9, 17, 65, 257, 1025, 1 << 30]
NETWORK, DISK = 1e9, 1e8  # bytes a second, cautious
ROW_BYTES = 75 * 16.0  # of an instance's features, both ways
N_SCORED = 2000  # instances


def main() -> None:
    """Read, extrapolate, predict, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("report", type=Path)
    parser.add_argument("test", type=Path)
    options = parser.parse_args()
    facts = json.loads(options.report.read_text())
    with h5py.File(options.model) as file:
        labels = {name: file[f"labels/{name}"][:] for name in ("n_positives", "seconds", "outcome", "lambda")}
        n_weights = np.diff(file["weights/indptr"][:])
    n_positives = labels["n_positives"].astype(np.int64)
    trained = labels["outcome"] == Outcome.converged
    copies = round(np.count_nonzero(n_positives) / np.count_nonzero(trained))
    rows, total, weights = extrapolate(n_positives, trained, labels["seconds"], n_weights)
    seconds = np.tile(labels["seconds"][trained].astype(np.float64), copies)
    costs = np.tile(expected_costs(n_positives, labels["lambda"])[trained], copies)
    model_bytes = 8.0 * weights + 60.0 * len(n_positives)
    machine = Machine(ROW_BYTES * facts["n_instances"], model_bytes, NETWORK, DISK)
    point = compute(Labels(seconds, costs), machine, 256, 64)
    predicted = predict(options, trained, copies)
    limit = int(np.count_nonzero(labels["outcome"] == Outcome.iteration_limit))
    text = [
        "# Full size: a synthetic data set like Amazon-670K",
        "",
        *("    " + line.strip() for line in (__doc__ or "").split("\n\n")[1].splitlines()),
        "",
        f"{facts['n_instances']:,} instances, {facts['n_features']:,} features, {facts['n_labels']:,} labels; "
        f"{np.count_nonzero(trained):,} of them trained and certified here, {limit} at the iteration limit "
        f"({facts['solver_seconds']:,.0f} processor seconds, one thread).",
        "",
        *table(rows, tuple(rows[0])),
        "",
        "| | |",
        "| --- | --- |",
        f"| all labels, processor time | {total / 3600:.2f} h |",
        f"| on 2 cores | {total / 7200:.2f} h |",
        f"| on 256 ranks, 4 nodes, all stages after reading | {point.seconds:.1f} s, efficiency of the solve stage "
        f"{100 * point.helping:.0f} % |",
        f"| peak memory of the one rank here, data included | {facts['peak_memory_bytes'] / 1e6:,.0f} MB |",
        f"| model of all labels | about {model_bytes / 1e6:,.0f} MB, {weights:,.0f} weights |",
        *(f"| {key} | {value} |" for key, value in predicted.items()),
    ]
    (RESULTS / "fullsize.md").write_text("\n".join(text) + "\n", encoding="utf-8")
    print("\n".join(text))


def extrapolate(n_positives: Any, trained: Any, seconds: Any, n_weights: Any) -> tuple[list[dict[str, Any]], Any, Any]:
    """Return a table by frequency, the seconds of all labels, and their weights."""
    rows, total, weights = [], 0.0, 0.0
    for low, high in pairwise(EDGES):
        of_bin = (n_positives >= low) & (n_positives < high)
        sample = of_bin & trained
        n_labels, n_sample = int(of_bin.sum()), int(sample.sum())
        if n_sample == 0:
            continue
        mean, size = float(seconds[sample].mean()), float(n_weights[sample].mean())
        total, weights = total + n_labels * mean, weights + n_labels * size
        rows.append(
            {
                "positives": f"{low} to {high - 1}" if high < EDGES[-1] else f"{low} and more",
                "labels": n_labels,
                "trained here": n_sample,
                "ms a label": round(1e3 * mean, 2),
                "weights a label": round(size, 1),
                "all of them, s": round(n_labels * mean, 1),
            }
        )
    return rows, total, weights


def predict(options: argparse.Namespace, trained: Any, copies: int) -> dict[str, str]:
    """Rank as many labels as the data have, the trained ones repeated, for the first test instances."""
    header = read_header(options.model)
    end = int(np.flatnonzero(trained)[-1]) + 1
    block = read_labels(header, 0, end)
    n_weights = len(block.indices)
    indptr = np.concatenate([[0], *(block.indptr[1:] + copy * n_weights for copy in range(copies))])
    tiled = [np.tile(array, copies) for array in (block.indices, block.data, block.bias)]
    began = time.process_time()
    index = build_index(indptr, *tiled, header.n_features, 0)
    building = time.process_time() - began
    weighting = Weighting(header.attributes["weighting"], bool(header.attributes["normalize"]), header.idf)
    test = weighting.apply(read_dataset(options.test).features, str(options.test))
    last = int(test.indptr[N_SCORED])
    rows = type(test)(test.indptr[: N_SCORED + 1], test.indices[:last], test.values[:last])
    score_top_k(index, rows, 5)
    began = time.process_time()
    score_top_k(index, rows, 5)
    spent = time.process_time() - began
    return {
        f"prediction over {copies * end:,} labels, {copies * n_weights:,} weights": f"{1e3 * spent / N_SCORED:.2f} ms "
        "an instance",
        "index of all weights": f"{sum(a.nbytes for a in index) / 1e6:,.0f} MB, built in {building:.1f} s",
    }


if __name__ == "__main__":
    main()
