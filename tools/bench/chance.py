"""How much of a difference between ours and a peer that draws lots is chance: the peer is trained several times.

    python tools/bench/chance.py DATA --scratch DIR --peers-python PYTHON [--sets NAME ...] [--runs N]

As field.py, whose table has one run of every program. Omikuji has no seed: its clusters differ from run to run. Ours
has no such chance, but the test instances are a draw as well: --bootstrap resamples them, ours and the peer's lists
together, and says how often the peer's mean would be ahead. Writes chance.md into tools/bench/results.
"""

import argparse
from pathlib import Path

import numpy as np
from field import RESULTS, SETS, K, Row, ours, save, table, theirs
from numpy.typing import NDArray

from proxml_mpi.data.dataset import Dataset
from proxml_mpi.data.text import read_text
from proxml_mpi.score.propensity import PRESETS, inverse_propensities

DEPTHS = (1, 3, 5)


def main() -> None:
    """Train, judge, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--scratch", type=Path, required=True)
    parser.add_argument("--peers-python", required=True)
    parser.add_argument("--sets", nargs="+", default=SETS[2:])
    parser.add_argument("--peers", nargs="+", default=["omikuji, Bonsai-like"])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--bootstrap", type=int, default=2000)
    parser.add_argument("--most-seconds", type=float, default=1200.0, help="a program that takes longer is left out")
    options = parser.parse_args()
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
    mine = gains(ours(options, name, "proxml-mpi", train_file, test)["labels"], train, test)
    metrics = tuple(f"{metric}@{k}" for metric in ("P", "PSP") for k in DEPTHS)
    rows: list[Row] = [{"program": "proxml-mpi"} | dict(zip(metrics, means(mine), strict=True))]
    for peer in options.peers:
        runs = []
        for run in range(options.runs):
            place = argparse.Namespace(**vars(options) | {"scratch": options.scratch / f"run-{run}"})
            place.scratch.mkdir(exist_ok=True)
            runs.append(gains(theirs(place, peer, name, files)["labels"], train, test))
        spread = np.array([means(run) for run in runs])
        cells = [f"{s.mean():.2f} ({s.min():.2f}-{s.max():.2f})" for s in spread.T]
        rows.append({"program": f"{peer}, {options.runs} runs"} | dict(zip(metrics, cells, strict=True)))
        ahead = [f"{share:.0f} %" for share in shares_ahead(mine, np.mean(runs, axis=0), options.bootstrap)]
        rows.append({"program": "ahead"} | dict(zip(metrics, ahead, strict=True)))
    return table(rows, ("program", *metrics))


def gains(labels: NDArray[np.int32], train: Dataset, test: Dataset) -> NDArray[np.float64]:
    """Return [6, 2, n_instances]: what the first 1, 3, 5 ranks of every instance gain, and the most they could.

    Metrics are ratios of sums over instances: first those of P, then those of PSP.
    """
    weights = inverse_propensities(np.diff(train.positives.indptr), train.n_instances, PRESETS["other"])
    indptr, truth = test.labels
    found = np.zeros((len(DEPTHS), 2, 2, test.n_instances))
    for i in range(test.n_instances):
        true = truth[indptr[i] : indptr[i + 1]]
        is_hit = np.isin(labels[i, :K], true)
        best = np.sort(weights[true])[::-1]
        for depth, k in enumerate(DEPTHS):
            found[depth, :, 0, i] = is_hit[:k].sum(), (weights[labels[i, :k]] * is_hit[:k]).sum()
            found[depth, :, 1, i] = k, best[:k].sum()
    return found.transpose(1, 0, 2, 3).reshape(2 * len(DEPTHS), 2, test.n_instances)


def means(found: NDArray[np.float64]) -> list[float]:
    """Return P and PSP at 1, 3, 5 in percent."""
    return [round(100.0 * gain.sum() / most.sum(), 2) for gain, most in found]


def shares_ahead(mine: NDArray[np.float64], other: NDArray[np.float64], n_samples: int) -> NDArray[np.float64]:
    """Return in how many percent of the resamplings of the instances the other gains more; both can gain as much."""
    generator, n_instances = np.random.default_rng(0), mine.shape[-1]
    difference = other[:, 0] - mine[:, 0]
    ahead = np.zeros(len(mine))
    for _ in range(n_samples):
        count = np.bincount(generator.integers(n_instances, size=n_instances), minlength=n_instances)
        ahead += difference @ count > 0.0
    return 100.0 * ahead / n_samples


if __name__ == "__main__":
    main()
