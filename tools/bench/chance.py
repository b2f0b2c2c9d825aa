"""How much of a difference between ours and a peer that draws lots is chance: the peer is trained several times.

    python tools/bench/chance.py DATA --scratch DIR --peers-python PYTHON [--sets NAME ...] [--runs N]

As field.py, whose table has one run of every program. Omikuji has no seed: its clusters differ from run to run. Ours
has no such chance, but the test instances are a draw as well: --bootstrap resamples them, ours and the peer's lists
together, and says how often the peer's mean would be ahead. Writes chance.md into tools/bench/results.
"""

import argparse
from pathlib import Path

import numpy as np
from field import SETS, ours, save, theirs
from field_report import RESULTS, Row, table
from numpy.typing import NDArray

from proxml_mpi.data.text import read_text
from proxml_mpi.score.metric_kernels import GAIN, HITS, LOW_SCALE
from proxml_mpi.score.metrics import Evaluation, start_evaluation
from proxml_mpi.score.propensity import PRESETS, inverse_propensities

DEPTHS = (1, 3, 5)
COVERAGE = "coverage@5"
METRICS = (*(f"{name}@{k}" for name in ("P", "PSP") for k in DEPTHS), COVERAGE)
PEER = "omikuji, Bonsai-like"


def main() -> None:
    """Train, judge, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--scratch", type=Path, required=True)
    parser.add_argument("--peers-python", required=True)
    parser.add_argument("--sets", nargs="+", default=SETS[2:])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--bootstrap", type=int, default=2000)
    options = parser.parse_args(namespace=argparse.Namespace(most_seconds=None))
    text = [
        "# How much is chance: peers that draw lots, trained several times",
        "",
        "    python tools/bench/chance.py ../shared/data --scratch DIR --peers-python peers/bin/python "
        f"--runs {options.runs} --bootstrap {options.bootstrap} --sets {' '.join(options.sets)}",
        "",
        "Mean of the runs, least and largest in brackets. `ahead`: in how many percent of the resamplings of the test "
        "instances the mean of the peer's runs lies above ours.",
    ]
    for name in options.sets:
        text += ["", f"## {name}", "", *lines_of(name, options)]
    (RESULTS / "chance.md").write_text("\n".join(text) + "\n", encoding="utf-8")
    print("\n".join(text))


def lines_of(name: str, options: argparse.Namespace) -> list[str]:
    """Return the table of a data set."""
    options.scratch.mkdir(parents=True, exist_ok=True)
    train_file = options.data / name / "train.txt.xz"
    train, test = read_text(train_file), read_text(options.data / name / "test.txt.xz")
    files = [save(options.scratch, f"{name}-{part}", data) for part, data in (("train", train), ("test", test))]
    weights = inverse_propensities(np.diff(train.positives.indptr), train.n_instances, PRESETS["other"])

    def judge(row: Row) -> Evaluation:
        evaluation = start_evaluation(DEPTHS, weights, np.diff(train.positives.indptr), options.bootstrap)
        evaluation.update(row["labels"], test.labels)
        return evaluation

    mine, runs = judge(ours(options, name, "proxml-mpi", train_file, test)), []
    for run in range(options.runs):
        place = argparse.Namespace(**vars(options) | {"scratch": options.scratch / f"run-{run}"})
        place.scratch.mkdir(exist_ok=True)
        runs.append(judge(theirs(place, PEER, name, files)))
    found = [run.result() for run in runs]
    spread = {metric: [each[metric] for each in found] for metric in METRICS}
    ahead = {
        "P": np.mean([gains(run, HITS) for run in runs], axis=0) > gains(mine, HITS),
        "PSP": np.mean([gains(run, GAIN) for run in runs], axis=0) > gains(mine, GAIN),
    }
    rows: list[Row] = [
        {"program": "proxml-mpi"} | {metric: f"{mine.result()[metric]:.2f}" for metric in METRICS},
        {"program": f"{PEER}, {options.runs} runs"}
        | {metric: f"{np.mean(s):.2f} ({min(s):.2f}-{max(s):.2f})" for metric, s in spread.items()},
        {"program": "ahead", COVERAGE: ""}
        | {f"{name}@{k}": f"{100 * a[:, j].mean():.0f} %" for name, a in ahead.items() for j, k in enumerate(DEPTHS)},
    ]
    return table(rows, ("program", *METRICS))


def gains(evaluation: Evaluation, field: int) -> NDArray[np.float64]:
    """Return the sums [n_replicates, n_k] of a field: the same instances count in the replicates of all programs."""
    assert evaluation.bootstrap is not None
    sums = evaluation.bootstrap.sums[:, field]
    return sums[..., 0] + sums[..., 1] / LOW_SCALE


if __name__ == "__main__":
    main()
