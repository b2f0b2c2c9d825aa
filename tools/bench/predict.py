"""Prediction at ten million labels: what one rank of 1,024, 256 and 64 would do with its share of them, synthetic.

    python tools/bench/predict.py

One thread, processor time. Prediction on real data, against other programs: field.py. Writes predict.md into
tools/bench/results.
"""

import sys
import time
from pathlib import Path
from typing import Any

import numba
import numpy as np
from field import table

from proxml_mpi.score.index import Index, build_index, score_top_k

RESULTS = Path(__file__).parent / "results"
K = 5


def main() -> None:
    """Simulate and write."""
    found = simulate_ten_million_labels()
    text = [
        "# Ten million labels: one rank's share at 1,024, 256 and 64 ranks, synthetic",
        "",
        "    python tools/bench/predict.py",
        "",
        f"Python {sys.version.split()[0]}, numpy {np.__version__}, numba {numba.__version__}; one thread.",
        "",
        *table(found, tuple(found[0])),
    ]
    (RESULTS / "predict.md").write_text("\n".join(text) + "\n", encoding="utf-8")


def simulate_ten_million_labels() -> list[dict[str, Any]]:
    """Score with one rank's share of 10 million labels at 256 ranks, and with parts and multiples of it."""
    found = []
    for n_labels in (10_000_000 // 1024, 10_000_000 // 256, 10_000_000 // 64):
        index, rows = synthetic(n_labels, 2_000_000, 12, 20_000, 80)
        score_top_k(index, rows, K)
        began = time.process_time()
        score_top_k(index, rows, K)
        seconds = time.process_time() - began
        touched = np.diff(index.indptr)[rows[1]].sum() / 20_000
        found.append(
            {
                "labels of the rank": n_labels,
                "weights": len(index.weights),
                "index bytes": sum(array.nbytes for array in index),
                "touched weights/instance": round(float(touched), 1),
                "us/instance": round(1e6 * seconds / 20_000, 2),
                "ns/touched weight": round(1e9 * seconds / 20_000 / touched, 2),
            }
        )
        print(found[-1], flush=True)
    return found


def synthetic(n_labels: int, n_features: int, n_weights: int, n_instances: int, n_present: int) -> tuple[Index, Any]:
    """Make a sparse model and instances over features of Zipf frequencies."""
    random = np.random.default_rng(0)
    steps = np.cumsum(1 / (np.arange(n_features) + 20.0))

    def rows(n_rows: int, width: int) -> tuple[Any, Any]:
        ids = np.searchsorted(steps, random.random((n_rows, width)) * steps[-1]).astype(np.int32)
        ids.sort(axis=1)
        kept = np.diff(ids, axis=1, prepend=-1) > 0
        return np.concatenate([[0], np.cumsum(kept.sum(axis=1))]), ids[kept]

    indptr, indices = rows(n_labels, n_weights)
    bias = (-1 + 0.1 * random.normal(size=n_labels)).astype(np.float32)
    weights = random.normal(size=len(indices)).astype(np.float32)
    index = build_index(indptr, indices, weights, bias, n_features, 0)
    present = rows(n_instances, n_present)
    return index, (*present, random.random(len(present[1])).astype(np.float32))


if __name__ == "__main__":
    main()
