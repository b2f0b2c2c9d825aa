"""Training and prediction against the peers: processor time, bytes of the model, quality; and ten million labels.

    python tools/bench/predict.py DATA --scratch DIR [--peers-python PYTHON] [--sets NAME ...] [OPTION OF TRAIN ...]

DATA holds NAME/train.txt.xz and NAME/test.txt.xz. Models are trained here, ours with the further options given, unless
DIR keeps them from an earlier run. The peers need an interpreter of their own, since libpecos wants numpy < 2:
python -m venv peers; peers/bin/pip install libpecos omikuji napkinxc. Everything runs on one thread; times are
processor times: of training, and the least of three runs of the call that ranks all test instances in memory. All
metrics are those of our evaluator.
"""

import argparse
import csv
import json
import resource
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import h5py
import numba
import numpy as np
import scipy.sparse
from peers import PEERS, REPEATS

import proxml_mpi
from proxml_mpi.data.dataset import Dataset
from proxml_mpi.data.text import read_text
from proxml_mpi.score.index import Index, build_index, score_top_k
from proxml_mpi.score.metrics import start_evaluation
from proxml_mpi.score.propensity import PRESETS, inverse_propensities
from proxml_mpi.solve.problem import Outcome

RESULTS = Path(__file__).parent / "results"
SETS = ("eurlex-4.3k-d5000", "debian-depends")
K = 5
COLUMNS = (
    "data",
    "program",
    "version",
    "training s",
    "ms/instance",
    "times ours",
    "model bytes",
    "P@1",
    "P@5",
    "PSP@1",
    "PSP@5",
)


def main() -> None:
    """Run what is asked for and write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--scratch", type=Path, required=True)
    parser.add_argument("--peers-python")
    parser.add_argument("--sets", nargs="+", default=SETS)
    options, options.training = parser.parse_known_args()
    rows = [row for name in options.sets for row in compare(name, options)]
    write_results(rows, simulate_ten_million_labels(), options)


def compare(name: str, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Train and predict one data set, we and every peer."""
    train_file = options.data / name / "train.txt.xz"
    train, test = read_text(train_file), read_text(options.data / name / "test.txt.xz")
    n_positives = np.diff(train.positives.indptr)
    rows = [{"program": "proxml-mpi, exact", **ours(options, name, train_file, test)}]
    if options.peers_python:
        files = [save(options.scratch, f"{name}-{part}", data) for part, data in (("train", train), ("test", test))]
        rows += [theirs(options, peer, name, files) for peer in PEERS]
    for row in rows:
        weights = inverse_propensities(n_positives, train.n_instances, PRESETS["other"])
        evaluation = start_evaluation([1, K], weights, n_positives)
        evaluation.update(row.pop("labels"), test.labels)
        row |= {key: round(value, 2) for key, value in evaluation.result().items()}
        row["data"], row["times ours"] = name, round(row["ms/instance"] / rows[0]["ms/instance"], 1)
        print({column: row[column] for column in COLUMNS}, flush=True)
    return rows


def ours(options: argparse.Namespace, name: str, train_file: Path, test: Dataset) -> dict[str, Any]:
    """Train, unless the model is there, and time our ranking; the weighting and checking of instances is part of it."""
    path, record = options.scratch / f"{name}.h5", options.scratch / f"{name}.seconds"
    if not path.exists():
        options.scratch.mkdir(parents=True, exist_ok=True)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [Path(sys.executable).parent / "proxml-train", train_file, path, "--threads", "1", *options.training]
        subprocess.run([str(word) for word in command], check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        record.write_text(str(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime))
    model = proxml_mpi.load_model(path)
    at_limit = int(np.sum(model.certificates.outcome == Outcome.iteration_limit))
    shape = (test.n_instances, test.n_features)
    X = scipy.sparse.csr_array((test.features.values, test.features.indices, test.features.indptr), shape=shape)
    found = model.predict(X, K)
    seconds = []
    for _ in range(REPEATS):
        began = time.process_time()
        found = model.predict(X, K)
        seconds.append(time.process_time() - began)
    return {
        "version": f"proxml-mpi {proxml_mpi.__version__}, numba {numba.__version__}; labels at the limit: {at_limit}",
        "training s": round(float(record.read_text()), 1),
        "ms/instance": round(1e3 * min(seconds) / test.n_instances, 5),
        "model bytes": path.stat().st_size,
        "labels": found.labels,
    }


def theirs(options: argparse.Namespace, peer: str, name: str, files: list[Path]) -> dict[str, Any]:
    """Train and time a peer in its own interpreter."""
    folder = options.scratch / f"{peer.replace(' ', '-').replace(',', '')}-{name}"
    command = [options.peers_python, Path(__file__).parent / "peers.py", peer, *files, folder, K]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{peer} failed:\n{done.stderr[-2000:]}")
    facts = json.loads(done.stdout.splitlines()[-1])
    return {
        "program": peer,
        "version": facts["version"],
        "training s": facts["training_cpu_seconds"],
        "ms/instance": round(facts["ms_per_instance"], 5),
        "model bytes": facts["model_bytes"],
        "labels": np.load(folder / "lists.npz")["labels"],
    }


def save(folder: Path, name: str, data: Dataset) -> Path:
    """Keep a data set as arrays that the peers' interpreter reads."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.npz"
    arrays = {"indptr": data.features.indptr, "indices": data.features.indices, "values": data.features.values}
    lists = {"label_indptr": data.labels.indptr, "label_indices": data.labels.indices}
    np.savez(path, **arrays, **lists, shape=np.array([data.n_features, data.n_labels]))
    return path


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


def write_results(rows: list[dict[str, Any]], simulated: list[dict[str, Any]], options: argparse.Namespace) -> None:
    """Write both tables as Markdown, the comparison as CSV too."""
    RESULTS.mkdir(exist_ok=True)
    with (RESULTS / "predict.csv").open("w", newline="") as stream:
        writer = csv.DictWriter(stream, COLUMNS, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    versions = f"Python {sys.version.split()[0]}, numpy {np.__version__}, h5py {h5py.__version__}"
    text = [
        "# Training and prediction: ours and the peers, one thread",
        "",
        f"    python tools/bench/predict.py ../shared/data {shlex.join(['--sets', *options.sets, *options.training])}",
        "",
        f"{versions}; processor time: of training, and the least of {REPEATS} runs of the call that ranks all test "
        "instances in memory.",
        "",
        *table(rows, COLUMNS),
        "",
        "## Ten million labels: one rank's share at 1,024, 256 and 64 ranks, synthetic",
        "",
        *table(simulated, tuple(simulated[0])),
    ]
    (RESULTS / "predict.md").write_text("\n".join(text) + "\n")


def table(rows: list[dict[str, Any]], columns: tuple[str, ...]) -> list[str]:
    """Return a Markdown table."""
    lines = [columns, ["---"] * len(columns), *([row[column] for column in columns] for row in rows)]
    return ["| " + " | ".join(f"{v:,}" if isinstance(v, int) else str(v) for v in line) + " |" for line in lines]


if __name__ == "__main__":
    main()
