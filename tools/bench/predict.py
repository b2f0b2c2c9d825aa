"""Prediction against the trees, and at ten million labels.

    python tools/bench/predict.py DATA --scratch DIR --peers-python PYTHON [--sets NAME ...]

Programs, interpreter and scratch are those of field.py, whose models are used when DIR has them. One thread, processor
time: the least of the runs within ten seconds, at least three, of the call that ranks all test instances in memory. Ten
million labels are synthetic: what one rank of 1,024, 256 and 64 would do with its share of them. Writes predict.md into
tools/bench/results.
"""

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import numba
import numpy as np
from field import judge, ours, save, theirs
from field_report import table

from proxml_mpi.data.text import read_text
from proxml_mpi.score.index import Index, build_index, score_top_k

RESULTS = Path(__file__).parent / "results"
SETS = ("eurlex-4.3k-d5000", "debian-depends")
OURS = ("proxml-mpi", "proxml-mpi --ridge 0")
TREES = ("PECOS XR-Linear", "omikuji, Parabel-like", "omikuji, Bonsai-like", "napkinXC PLT")
COLUMNS = ("data", "program", "ms/instance", "times ours", "model bytes", "P@1", "P@5", "PSP@1", "PSP@5")
K = 5


def main() -> None:
    """Compare, simulate and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--scratch", type=Path, required=True)
    parser.add_argument("--peers-python", required=True)
    parser.add_argument("--sets", nargs="+", default=SETS)
    options = parser.parse_args()
    options.most_seconds = None
    options.scratch.mkdir(parents=True, exist_ok=True)
    rows = [row for name in options.sets for row in compare(name, options)]
    simulated = simulate_ten_million_labels()
    text = [
        "# Prediction",
        "",
        "    python tools/bench/predict.py ../shared/data --scratch DIR --peers-python peers/bin/python",
        "",
        f"Python {sys.version.split()[0]}, numpy {np.__version__}, numba {numba.__version__}; one thread.",
        "",
        *table(rows, COLUMNS),
        "",
        "## Ten million labels: one rank's share at 1,024, 256 and 64 ranks, synthetic",
        "",
        *table(simulated, tuple(simulated[0])),
    ]
    (RESULTS / "predict.md").write_text("\n".join(text) + "\n", encoding="utf-8")


def compare(name: str, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Time our prediction and the trees'."""
    train_file = options.data / name / "train.txt.xz"
    train, test = read_text(train_file), read_text(options.data / name / "test.txt.xz")
    files = [save(options.scratch, f"{name}-{part}", data) for part, data in (("train", train), ("test", test))]
    rows = [ours(options, name, program, train_file, test) for program in OURS]
    rows = judge(rows + [theirs(options, peer, name, files) for peer in TREES], name, train, test)
    for row in rows:
        row["times ours"] = round(row["ms/instance"] / rows[0]["ms/instance"], 1)
    return rows


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
