"""The field: every program on the same data, judged by the same evaluator: time, size, memory, quality.

    python tools/bench/field.py DATA --scratch DIR --peers-python PYTHON [--sets NAME ...] [--programs NAME ...]

DATA holds NAME/train.txt.xz and NAME/test.txt.xz. The peers need an interpreter of their own, since libpecos wants
numpy < 2: python -m venv peers; peers/bin/pip install libpecos omikuji napkinxc. LIBLINEAR comes with our extra
`compare`. Everything runs on one thread; times are processor times: of training without the start of a program (ours:
the stages that read, solve and store, less the same on three instances; peers: see peers.py), the least of up to 12
runs, as many as begin within forty seconds of training, for which all programs take turns, so that slow minutes of the
machine are everybody's; and the least of the runs within ten seconds, at least three, of the call that ranks all test
instances in memory. Programs that solve one label after the other for hours (LIBLINEAR, the authors'
algorithm) get --slow-seconds a data set, labels in random order: when these end first, the training time is
extrapolated and there is nothing to judge. What DIR has from an earlier run is used again. Ranking is plain for
everybody. Writes field.csv, field.md and, with the extra plots, field.png into tools/bench/results. With --programs,
which leaves all other programs out, --results names the tables, so that a part does not replace the whole; no plot.
Ours with one lambda for all labels (1, or the paper's 0.1) is run only when --programs asks for it.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np
import scipy.sparse
from authors import Authors
from field_report import SHOWN, TAIL, Row, rule, write_results
from numpy.typing import NDArray
from peers import PEERS, is_enough, least_seconds

import proxml_mpi
from proxml_mpi.analysis.liblinear import Liblinear
from proxml_mpi.data.dataset import Dataset
from proxml_mpi.data.text import read_text
from proxml_mpi.data.weighting import Weighting
from proxml_mpi.score.metrics import start_evaluation
from proxml_mpi.score.propensity import PRESETS, inverse_propensities
from proxml_mpi.solve.labels import label_penalties
from proxml_mpi.solve.problem import Outcome, Problem, make_problem

BIN = Path(sys.executable).parent
SETS = ("bibtex", "delicious", "eurlex-4.3k-d5000", "debian-depends")
K = 5
TURNS = 4
OURS = {
    "proxml-mpi": (),
    "proxml-mpi --ridge 0": ("--ridge", "0"),
    "proxml-mpi, DiSMEC": ("--penalty", "l2", "--prune", "0.01"),
    "proxml-mpi --lambda 1": ("--lambda", "1"),
    "proxml-mpi --lambda 0.1": ("--lambda", "0.1"),
}
ON_REQUEST = ("proxml-mpi --lambda 1", "proxml-mpi --lambda 0.1")
SLOW = ("LIBLINEAR -s 5, eps 0.01", "authors' algorithm")
PROGRAMS = (*(program for program in OURS if program not in ON_REQUEST), *SLOW, *PEERS)
SolveLabel = Callable[[NDArray[np.int32], float], tuple[NDArray[np.float64], float]]


def main() -> None:
    """Run all programs on all data sets and write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--scratch", type=Path, required=True)
    parser.add_argument("--peers-python", required=True)
    parser.add_argument("--sets", nargs="+", default=SETS)
    parser.add_argument("--programs", nargs="+", default=PROGRAMS, choices=(*PROGRAMS, *ON_REQUEST))
    parser.add_argument("--results", default="field", help="the name of the files that are written")
    parser.add_argument("--slow-seconds", type=float, default=120.0)
    parser.add_argument("--most-seconds", type=float, default=1200.0, help="a program that takes longer is left out")
    options = parser.parse_args()
    if set(options.programs) != set(PROGRAMS) and options.results == "field":
        parser.error("a part of the programs needs another name of --results than that of the whole")
    options.scratch.mkdir(parents=True, exist_ok=True)
    write_results([row for name in options.sets for row in rows_of(name, options)], options)


def rows_of(name: str, options: argparse.Namespace) -> list[Row]:
    """Return the rows of a data set, those of an earlier run if there are any."""
    path = options.scratch / f"rows-{name}.json"
    if not path.exists():
        path.write_text(json.dumps(compare(name, options)))
    rows: list[Row] = json.loads(path.read_text())
    return rows


def compare(name: str, options: argparse.Namespace) -> list[Row]:
    """Train and predict one data set with every program."""
    train_file = options.data / name / "train.txt.xz"
    train, test = read_text(train_file), read_text(options.data / name / "test.txt.xz")
    files = [save(options.scratch, f"{name}-{part}", data) for part, data in (("train", train), ("test", test))]
    late = take_turns(options, name, train_file, files)
    timely = [program for program in options.programs if program not in late]
    rows = [ours(options, name, program, train_file, test) for program in OURS if program in timely]
    rows += slow(options, train, test)
    rows += [theirs(options, peer, name, files) for peer in PEERS if peer in timely]
    rows += [not_done(options, program) for program in late]
    return judge(rows, name, train, test)


def take_turns(options: argparse.Namespace, name: str, train_file: Path, files: list[Path]) -> list[str]:
    """Train all programs as often as their times want, each a part of its runs at a time; return those too slow."""
    late: list[str] = []
    for turn in range(1, TURNS + 1):
        for program in (program for program in options.programs if program not in (*SLOW, *late)):
            try:
                if program in OURS:
                    train_ours(options, name, program, train_file, turn / TURNS)
                else:
                    run_peer(options, program, name, files, turn / TURNS)
            except subprocess.TimeoutExpired:
                late.append(program)
    return late


def judge(rows: list[Row], name: str, train: Dataset, test: Dataset) -> list[Row]:
    """Replace the lists of every row by what they are worth."""
    n_positives = np.diff(train.positives.indptr)
    weights = inverse_propensities(n_positives, train.n_instances, PRESETS["other"])
    for row in rows:
        row["data"] = name
        labels = row.pop("labels")
        if labels is not None:
            evaluation = start_evaluation([1, 3, 5], weights, n_positives)
            evaluation.update(labels, test.labels)
            row |= {key: round(value, 2) for key, value in evaluation.result().items()}
            tail = tail_psp(labels, test, weights, n_positives)
            row[TAIL] = "" if np.isnan(tail) else round(tail, 2)
        print({column: row.get(column) for column in ("data", *SHOWN)}, flush=True)
    return rows


def tail_psp(
    labels: NDArray[np.int32], test: Dataset, weights: NDArray[np.float64], n_positives: NDArray[np.int64]
) -> float:
    """Return PSP@5 in percent where only labels of 1 to 5 training positives count, in the lists and in the truth."""
    is_tail = (n_positives >= 1) & (n_positives <= 5)
    evaluation = start_evaluation([K], np.where(is_tail, weights, 0.0), n_positives)
    evaluation.update(labels, test.labels)
    return float(evaluation.result()[f"PSP@{K}"])


def places(options: argparse.Namespace, name: str, program: str) -> tuple[Path, Path, Path]:
    """Return where our model, the report of its training and the times of all trainings are."""
    stem = f"{name}-{program.replace(' ', '').replace(',', '-')}"
    model, report, record = (options.scratch / f"{stem}.{ending}" for ending in ("h5", "json", "seconds"))
    return model, report, record


def train_ours(options: argparse.Namespace, name: str, program: str, train_file: Path, share: float) -> list[float]:
    """Train that share of times, those of before included; return the least time on three instances, and on all.

    What three instances take is opening files and the like: no training.
    """
    model, report, record = places(options, name, program)
    tiny = options.scratch / "tiny.txt"
    tiny.write_text("3 2 2\n0 0:1\n1 1:1\n0,1 0:1 1:1\n")
    data = (
        converted(tiny, options.scratch / "tiny.h5"),
        converted(train_file, options.scratch / f"{name}.h5"),
    )
    words = ["--threads", 1, "--report", report, "--log-level", "warning", "--overwrite", *OURS[program]]

    def timed(path: Path) -> float:
        command = [str(word) for word in (BIN / "proxml-train", path, model, *words)]
        subprocess.run(command, check=True, timeout=options.most_seconds)
        stages: dict[str, float] = json.loads(report.read_text())["processor_seconds"]
        return sum(stages[stage] for stage in ("read", "solve", "store"))

    runs: list[list[float]] = json.loads(record.read_text()) if record.exists() else [[], []]
    while not is_enough(runs[1], share):
        if not runs[1]:
            timed(data[0])  # may compile
        for path, seconds in zip(data, runs, strict=True):
            seconds.append(timed(path))
        record.write_text(json.dumps(runs))
    return [min(seconds) for seconds in runs]


def ours(options: argparse.Namespace, name: str, program: str, train_file: Path, test: Dataset) -> Row:
    """Train, as far as that is not done, and time our ranking; weighting and checking instances are part of it."""
    start, whole = train_ours(options, name, program, train_file, 1.0)
    path, report, _ = places(options, name, program)
    model = proxml_mpi.load_model(path)
    at_limit = int(np.sum(model.certificates.outcome == Outcome.iteration_limit))
    shape = (test.n_instances, test.n_features)
    X = scipy.sparse.csr_array((test.features.values, test.features.indices, test.features.indptr), shape=shape)
    found = model.predict(X, K)
    facts = json.loads(report.read_text())
    solving = f"solving alone {facts['solver_seconds']:.1f} s"
    solving += f", labels at the limit: {at_limit}"
    return {
        "program": program,
        "version": f"proxml-mpi {proxml_mpi.__version__}, numba {numba.__version__}; {solving}",
        "training s": round(whole - start, 2),
        "ms/instance": milliseconds(lambda: model.predict(X, K), test),
        "model bytes": path.stat().st_size,
        "peak bytes": facts["peak_memory_bytes"],
        "labels": found.labels,
    }


def converted(data: Path, target: Path) -> Path:
    """Return the data set as a dataset file: the peers read arrays, and so do we."""
    if not target.exists():
        subprocess.run([BIN / "proxml-data", "convert", data, target], check=True)
    return target


def not_done(options: argparse.Namespace, program: str) -> Row:
    """Return the row of a program that took too long."""
    return {
        "program": program,
        "version": "",
        "training s": f"not done after {options.most_seconds:g} s",
        "labels": None,
    }


def milliseconds(predict: Callable[[], Any], test: Dataset) -> float:
    """Return the processor time of an instance, the least of some runs."""
    return round(1e3 * least_seconds(predict)[0] / test.n_instances, 4)


def slow(options: argparse.Namespace, train: Dataset, test: Dataset) -> list[Row]:
    """Run the programs that take one label after the other, at our lambdas."""
    if not set(SLOW) & set(options.programs):
        return []
    weighting = Weighting.fit(train, "none", normalize=True)
    problem = make_problem(*weighting.apply(train.features), train.n_features)
    shape = (test.n_instances, test.n_features)
    features = weighting.apply(test.features)
    X = scipy.sparse.csr_array((features.values, features.indices, features.indptr), shape=shape)
    liblinear, authors = Liblinear(problem), Authors(problem)
    authors.solve(np.zeros(0, np.int32), 1e9)  # compiles

    def ccd(positives: NDArray[np.int32], penalty: float) -> tuple[NDArray[np.float64], float]:
        return liblinear.solve(positives, penalty, 0.01)[:2]

    programs: dict[str, SolveLabel] = dict(zip(SLOW, (ccd, authors.solve), strict=True))
    return [
        {"program": name, "version": "made again here" if "authors" in name else "liblinear-official"}
        | one_by_one(solve, problem, train, X, test, options.slow_seconds)
        for name, solve in programs.items()
        if name in options.programs
    ]


def one_by_one(solve: SolveLabel, problem: Problem, train: Dataset, X: Any, test: Dataset, most_seconds: float) -> Row:
    """Solve labels in random order for so long; judge the model when all are done."""
    indptr, instances = train.positives
    n_positives = np.diff(indptr)
    penalties = label_penalties(n_positives, *rule(ridge=0.0)[:2])
    order = np.random.default_rng(0).permutation(np.flatnonzero(n_positives))
    columns, bias, n_done, began = {}, np.full(train.n_labels, -1.0), 0, time.process_time()
    for label in order:
        weights, bias[label] = solve(instances[indptr[label] : indptr[label + 1]], float(penalties[label]))
        columns[label] = scipy.sparse.csc_array(weights[:, None])
        n_done += 1
        if time.process_time() - began > most_seconds:
            break
    seconds = time.process_time() - began
    row: Row = {"training s": round(seconds, 1), "peak bytes": "", "labels": None}
    if n_done < len(order):
        share = f"extrapolated from {n_done:,} of {len(order):,} labels"
        return row | {"training s": round(seconds * len(order) / n_done), "ms/instance": share}
    empty = scipy.sparse.csc_array((train.n_features, 1))
    W = scipy.sparse.hstack([columns.get(label, empty) for label in range(train.n_labels)]).tocsc()

    def predict() -> NDArray[np.int32]:
        ranks = []
        for row in range(0, X.shape[0], 1000):  # all scores at once are gigabytes
            scores = (X[row : row + 1000] @ W).toarray() + bias
            ranks.append(np.argsort(-scores, axis=1, kind="stable")[:, :K])
        return np.concatenate(ranks).astype(np.int32)

    return row | {
        "ms/instance": milliseconds(predict, test),
        "model bytes": 8 * int(W.nnz),
        "labels": predict(),
    }


def run_peer(options: argparse.Namespace, peer: str, name: str, files: list[Path], share: float) -> tuple[Path, str]:
    """Train that share of times, and rank when it is all of them; return the peer's folder and what it printed."""
    folder = options.scratch / f"{peer.replace(' ', '-').replace(',', '')}-{name}"
    command = [options.peers_python, Path(__file__).parent / "peers.py", peer, *files, folder, K, share]
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, timeout=options.most_seconds)
    if done.returncode != 0:
        raise SystemExit(f"{peer} failed:\n{done.stderr[-2000:]}")
    return folder, done.stdout


def theirs(options: argparse.Namespace, peer: str, name: str, files: list[Path]) -> Row:
    """Train a peer in its own interpreter, as far as that is not done, and time its ranking."""
    folder, printed = run_peer(options, peer, name, files, 1.0)
    facts = json.loads(printed.splitlines()[-1])
    return {
        "program": peer,
        "version": facts["version"],
        "training s": round(facts["training_cpu_seconds"], 2),
        "ms/instance": round(facts["ms_per_instance"], 4),
        "model bytes": facts["model_bytes"],
        "peak bytes": facts["peak_bytes"],
        "labels": np.load(folder / "lists.npz")["labels"],
    }


def save(folder: Path, name: str, data: Dataset) -> Path:
    """Keep a data set, rows of unit length as for ours, as arrays that the peers' interpreter reads."""
    path = folder / f"{name}.npz"
    features = Weighting.fit(data, "none", normalize=True).apply(data.features)
    arrays: dict[str, Any] = {"indptr": features.indptr, "indices": features.indices, "values": features.values}
    lists: dict[str, Any] = {"label_indptr": data.labels.indptr, "label_indices": data.labels.indices}
    np.savez(path, **arrays, **lists, shape=np.array([data.n_features, data.n_labels]))
    return path


if __name__ == "__main__":
    main()
