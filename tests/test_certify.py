"""LIBLINEAR against certified optima: the numbers against dense numpy, one rank against two."""

import csv
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import numpy as np
import pytest
from conftest import dense

from proxml_mpi.analysis.liblinear import Liblinear, read_log
from proxml_mpi.cli import analyze
from proxml_mpi.data.dataset import Dataset
from proxml_mpi.data.weighting import Weighting
from proxml_mpi.solve.problem import Problem, make_problem

Run = Callable[..., CompletedProcess[str]]
Capture = pytest.CaptureFixture[str]
QUIET = ("--log-level", "error")


def problem_of(dataset: Dataset) -> tuple[Problem, np.ndarray]:
    """The problem as training sees it, and its features as a dense matrix."""
    features = Weighting.fit(dataset, "none", normalize=True).apply(dataset.features)
    return make_problem(*features, dataset.n_features), dense(features, dataset.n_features)


def signs(dataset: Dataset, label: int) -> np.ndarray:
    y = np.full(dataset.n_instances, -1.0)
    y[dataset.positives.indices[slice(*dataset.positives.indptr[label : label + 2])]] = 1.0
    return y


def objective(X: np.ndarray, y: np.ndarray, w: np.ndarray, b: float, penalty: float) -> float:
    return float(penalty * (np.abs(w).sum() + abs(b)) + (np.maximum(0, 1 - y * (X @ w + b)) ** 2).sum())


def read_rows(path: Path) -> list[dict[str, float]]:
    with path.open() as file:
        return [{name: float(value or "nan") for name, value in row.items()} for row in csv.DictReader(file)]


def test_the_log_of_liblinear() -> None:
    assert read_log("..*.*\noptimization finished, #iter = 47\nObjective value = 1.0\n* * *") == (47, 2)
    with pytest.raises(RuntimeError, match="expected the number of its iterations"):
        read_log("....")


@pytest.mark.parametrize("has_bias", [True, False])
def test_liblinear_is_measured_in_our_objective(small: tuple[Dataset, Dataset], has_bias: bool) -> None:
    pytest.importorskip("liblinear")
    problem, X = problem_of(small[0])
    peer = Liblinear(problem, has_bias)
    for label in (0, 3):
        y = signs(small[0], label)
        found = peer.solve(np.flatnonzero(y > 0).astype(np.int32), 0.2, 1e-3)
        said = "".join(peer._said)
        # LIBLINEAR prints |w|_1 + C loss: our objective is lambda times that.
        printed = float(said.split("Objective value = ")[1].split()[0])
        assert np.isclose(objective(X, y, found.weights, found.bias, 0.2), 0.2 * printed, rtol=1e-5)
        assert 0 < found.iterations < 1000 and found.n_returns is not None and (has_bias or found.bias == 0)


def test_liblinear_does_not_remember(small: tuple[Dataset, Dataset]) -> None:
    pytest.importorskip("liblinear")
    peer = Liblinear(problem_of(small[0])[0])
    one, two = (np.flatnonzero(signs(small[0], label) > 0).astype(np.int32) for label in (0, 3))
    first = peer.solve(one, 0.1, 0.1)
    peer.solve(two, 0.1, 0.01)
    again = peer.solve(one, 0.1, 0.1)
    assert np.array_equal(first.weights, again.weights) and first[1:4] == again[1:4]


def test_scikits_copy_with_another_limit(small: tuple[Dataset, Dataset]) -> None:
    pytest.importorskip("liblinear")
    pytest.importorskip("sklearn")
    problem, X = problem_of(small[0])
    y = signs(small[0], 3)
    positives = np.flatnonzero(y > 0).astype(np.int32)
    peer = Liblinear(problem)
    values = []
    for limit in (3, 1000, 100_000):
        found = peer.solve(positives, 0.1, 1e-6, limit)
        values.append(objective(X, y, found.weights, found.bias, 0.1))
        assert found.iterations <= limit and (limit != 3 or found.iterations == 3)
    assert values[2] <= values[0] and values[2] <= values[1] * (1 + 1e-9)


def test_rows_against_dense_numpy(
    small: tuple[Dataset, Dataset], small_files: tuple[Path, Path], tmp_path: Path
) -> None:
    pytest.importorskip("liblinear")
    table = tmp_path / "rows.csv"
    options = [
        "--labels",
        "6",
        "--lambda",
        "0.3",
        "--lambda-exponent",
        "0.4",
        "--eps",
        "0.1,0.001",
        "--csv",
        str(table),
    ]
    assert analyze.main(["certify", str(small_files[0]), *options, *QUIET]) == 0
    problem, X = problem_of(small[0])
    peer = Liblinear(problem)
    rows = read_rows(table)
    assert len(rows) == 6 and [row["label"] for row in rows] == sorted(row["label"] for row in rows)
    for row in rows:
        y = signs(small[0], int(row["label"]))
        penalty = 0.3 * (y > 0).sum() ** 0.4
        assert row["positives"] == (y > 0).sum() and np.isclose(row["lambda"], penalty)
        assert row["is_certified"] == 1 and row["objective"] - row["bound"] <= 1.01e-6 * row["positives"]
        for eps in (0.1, 0.001):
            name = f"liblinear_{eps:g}_1000"
            found = peer.solve(np.flatnonzero(y > 0).astype(np.int32), penalty, eps)
            value = objective(X, y, found.weights, found.bias, penalty)
            assert np.isclose(row[f"{name}_objective"], value, rtol=1e-9)
            assert row[f"{name}_iterations"] == found.iterations
            # No weights are below the bound, and the distance from the optimum is enclosed.
            assert value >= row["bound"] - 1e-9
            assert np.isclose(row[f"{name}_above_at_most"], value - row["bound"], atol=1e-9)
            assert np.isclose(row[f"{name}_above_at_least"], max(0, value - row["objective"]), atol=1e-9)
            gradient = -2 * X.T @ (y * np.maximum(0, 1 - y * (X @ found.weights + found.bias))) / penalty
            zeros = found.weights == 0
            assert row[f"{name}_violated_zeros"] == np.count_nonzero(np.abs(gradient[zeros]) > 1 + 1e-6)
            rest = np.abs(gradient + np.sign(found.weights))[~zeros].max(initial=0)
            assert np.isclose(row[f"{name}_violation_of_others"], rest, atol=1e-7)


def without_seconds(facts: Any) -> Any:
    """Facts without times, and without what is said of them."""
    if isinstance(facts, dict):
        return {k: without_seconds(v) for k, v in facts.items() if "seconds" not in k and k != "findings"}
    return [without_seconds(part) for part in facts] if isinstance(facts, list) else facts


def test_ranks_change_nothing(run: Run, small_files: tuple[Path, Path], tmp_path: Path, capfd: Capture) -> None:
    pytest.importorskip("liblinear")
    options = ["certify", str(small_files[0]), "--labels", "7", "--eps", "0.01", "--json", *QUIET]
    assert analyze.main([*options, "--csv", str(tmp_path / "one.csv")]) == 0
    one = json.loads(capfd.readouterr().out)
    done = run(["proxml-analyze", *options, "--csv", tmp_path / "two.csv"], ranks=2)
    assert done.returncode == 0, done.stderr
    assert without_seconds(json.loads(done.stdout)) == without_seconds(one)
    rows = [[without_seconds(row) for row in read_rows(tmp_path / f"{name}.csv")] for name in ("one", "two")]
    assert rows[0] == rows[1] and len(rows[0]) == 7
    assert one["n_drawn"] == 7 and one["runs"][0]["n_below_bound"] == 0


def test_all_labels_and_the_cap(small_files: tuple[Path, Path], capfd: Capture) -> None:
    pytest.importorskip("liblinear")
    pytest.importorskip("sklearn")
    options = ["--labels", "0", "--eps", "1e-4", "--max-iterations", "2,1000", *QUIET]
    assert analyze.main(["certify", str(small_files[0]), *options, "--json"]) == 0
    facts = json.loads(capfd.readouterr().out)
    capped, free = facts["runs"]
    assert facts["n_drawn"] == 40 and capped["n_capped"] == 40 and capped["n_capped_without_return"] is None
    assert capped["above_at_least"]["mean"] > free["above_at_least"]["mean"] and capped["n_ours_lower"] == 40
    assert sum(counts["n_labels"] for counts in free["by_frequency"].values()) == 40
    assert "the cap ended 100.0% of the labels" in facts["findings"]
    assert analyze.main(["certify", str(small_files[0]), "--labels", "3", *QUIET]) == 0
    out = capfd.readouterr().out
    assert "3 labels (seed 0), lambda 0.1 = 1 / C" in out and "Findings: our objective is the lower one on" in out


def test_plot(small_files: tuple[Path, Path], tmp_path: Path) -> None:
    pytest.importorskip("liblinear")
    pytest.importorskip("matplotlib")
    picture = tmp_path / "scatter.png"
    options = ["--labels", "3", "--eps", "0.1,0.01", "--plot", str(picture), *QUIET]
    assert analyze.main(["certify", str(small_files[0]), *options]) == 0
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--labels", "-1"], "--labels: found -1, expected a whole number, at least 0"),
        (["--eps", "0.1,1"], "--eps: found 1.0, expected numbers between 0 and 1"),
        (["--eps", "a"], "found 'a', expected numbers"),
        (["--max-iterations", "0"], "--max-iterations: found 0, expected whole numbers, at least 1"),
        (["--lambda", "0"], "--lambda: found 0.0, expected a finite number above 0"),
    ],
)
def test_wrong_options(options: Sequence[str], message: str, capfd: Capture) -> None:
    with pytest.raises(SystemExit, match="2"):
        analyze.main(["certify", "train.txt", *options])
    assert message in capfd.readouterr().err


def test_mistakes_are_one_message(small_files: tuple[Path, Path], tmp_path: Path, capfd: Capture) -> None:
    pytest.importorskip("liblinear")
    (tmp_path / "empty.txt").write_text("2 1 1\n 0:1\n 0:1\n")
    for arguments, message in (
        ([tmp_path / "empty.txt"], "empty.txt: found no label with positives and negatives, expected one or more"),
        ([small_files[0], "--csv", tmp_path / "no" / "x.csv"], "does not exist"),
        ([tmp_path / "no.txt"], "no.txt"),
    ):
        assert analyze.main(["certify", *map(str, arguments), *QUIET]) == 2
        assert message in capfd.readouterr().err


def test_a_missing_package_is_named(
    small_files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, capfd: Capture
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert analyze.main(["certify", str(small_files[0]), "--plot", "x.png", *QUIET]) == 2
    assert "--plot needs the Python package matplotlib: pip install 'proxml-mpi[plots]'" in capfd.readouterr().err
    monkeypatch.setitem(sys.modules, "liblinear.liblinear", None)
    assert analyze.main(["certify", str(small_files[0]), *QUIET]) == 2
    assert (
        "certify needs the Python package liblinear-official: pip install 'proxml-mpi[compare]'"
        in capfd.readouterr().err
    )
