"""Tuning: against proxml-train and proxml-predict on the same split, on one rank and on several."""

import csv
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import h5py
import numpy as np
import pytest
from conftest import model_content

from proxml_mpi.cli import data, predict, train, tune
from proxml_mpi.data.dataset import Dataset
from proxml_mpi.data.split import fold
from proxml_mpi.data.text_writer import write_text
from proxml_mpi.errors import SettingsError
from proxml_mpi.settings.train import TrainSettings
from proxml_mpi.settings.tune import METRICS, TuneSettings
from proxml_mpi.store.model_reader import read_header, read_labels

Run = Callable[..., CompletedProcess[str]]
Capture = pytest.CaptureFixture[str]
QUIET = ("--log-level", "error", "--threads", "1")
TFIDF = ("--weighting", "tfidf")


def tuned(capfd: Capture, path: Path, *options: object) -> Any:
    """The JSON that a tuning run prints."""
    capfd.readouterr()
    assert tune.main([str(path), *map(str, options), *QUIET, "--json"]) == 0
    return json.loads(capfd.readouterr().out)


def without_times(facts: dict[str, Any]) -> str:
    """Everything that must not depend on ranks or threads."""

    def clean(value: Any) -> Any:
        if isinstance(value, dict):
            left_out = ("seconds", "solver_seconds", "ranks", "threads", "train_with")
            return {name: clean(part) for name, part in value.items() if name not in left_out}
        return [clean(part) for part in value] if isinstance(value, list) else value

    return json.dumps(clean(facts))


def separately(tmp_path: Path, parts: Sequence[Path], *options: object) -> tuple[Any, Path]:
    """What proxml-train and proxml-predict give: metrics and model."""
    model, metrics = tmp_path / "separate.h5", tmp_path / "metrics.json"
    assert train.main([str(parts[0]), str(model), *map(str, options), *TFIDF, *QUIET, "--overwrite"]) == 0
    assert predict.main([str(model), str(parts[1]), "--metrics", str(metrics), *QUIET]) == 0
    return json.loads(metrics.read_text()), model


@pytest.fixture
def parts(small_files: tuple[Path, Path], tmp_path: Path) -> tuple[Path, Path]:
    """The split that tuning makes by itself, as files."""
    paths = tmp_path / "part.txt", tmp_path / "validation.txt"
    assert data.main(["split", str(small_files[0]), *map(str, paths), "--fraction", "0.25", "--seed", "4"]) == 0
    return paths


def test_one_lambda_is_training_and_prediction(
    small_files: tuple[Path, Path], parts: tuple[Path, Path], tmp_path: Path, capfd: Capture
) -> None:
    options = ("--lambda", 0.3, "--lambda-exponent", 0.4)
    facts = tuned(capfd, small_files[0], *options, *TFIDF, "--fraction", 0.25, "--seed", 4, "--metric", "PSP@3")
    expected, model = separately(tmp_path, parts, *options)
    point = facts["points"][0]
    assert all(f"{name}@1" in point["metrics"] for name in METRICS)
    assert point["metrics"] == expected["metrics"] and point["by_frequency"] == expected["by_frequency"]
    assert point["target"] == expected["metrics"]["PSP@3"] and point["n_weights"] == read_header(model).indptr[-1]


def test_a_path_ends_where_its_last_lambda_is(
    small_files: tuple[Path, Path], parts: tuple[Path, Path], tmp_path: Path, capfd: Capture
) -> None:
    options = ("--tolerance", 1e-7)
    split = ("--fraction", 0.25, "--seed", 4)
    facts = tuned(capfd, small_files[0], "--lambda", "0.2,1,5", *options, *split, *TFIDF)
    assert [point["lambda"] for point in facts["points"]] == [5, 1, 0.2]
    expected, _ = separately(tmp_path, parts, "--lambda", 0.2, *options)
    # Optima from other starts differ by their gaps, which may swap labels of almost equal score.
    for name, value in expected["metrics"].items():
        assert facts["points"][-1]["metrics"][name] == pytest.approx(value, abs=0.5), name
    cold = tuned(capfd, small_files[0], "--lambda", "0.2,1", *options, *split, *TFIDF, "--cold")
    assert cold["points"][-1]["metrics"] == expected["metrics"]


def test_ranks_and_threads_change_nothing(small_files: tuple[Path, Path], run: Run, tmp_path: Path) -> None:
    options = [
        "--lambda",
        "3,0.3",
        "--lambda-exponent",
        "0,0.4",
        "--folds",
        "2",
        *TFIDF,
        "--metric",
        "nDCG@4",
        "--json",
    ]
    command = ["proxml-tune", small_files[0], *options, "--rerank-by-propensity"]
    found = []
    for ranks, threads in ((None, 1), (2, 2)):
        done = run([*command, "--threads", threads], ranks=ranks)
        assert done.returncode == 0, done.stderr
        assert "exponent 0.4, lambda 0.3: nDCG@4" in done.stderr
        found.append(without_times(json.loads(done.stdout)))
    assert found[0] == found[1]


def test_folds_are_a_partition(small: tuple[Dataset, Dataset]) -> None:
    dataset = small[0]
    pairs = [fold(dataset, 3, number, seed=1) for number in range(3)]
    assert sum(part.n_instances for _, part in pairs) == dataset.n_instances
    assert all(rest.n_instances + part.n_instances == dataset.n_instances for rest, part in pairs)
    values = np.concatenate([part.features.values for _, part in pairs])
    assert np.array_equal(np.sort(values), np.sort(dataset.features.values))
    assert max(part.n_instances for _, part in pairs) - min(part.n_instances for _, part in pairs) <= 1
    with pytest.raises(SettingsError, match="--folds: found 361, expected 2 to 360"):
        fold(dataset, 361, 0, seed=1)


def test_cross_validation_is_the_mean_of_its_folds(
    small: tuple[Dataset, Dataset], small_files: tuple[Path, Path], tmp_path: Path, capfd: Capture
) -> None:
    facts = tuned(capfd, small_files[0], "--lambda", 0.5, "--folds", 2, "--seed", 1, *TFIDF, "--metric", "PSP@5")
    scores = []
    for number in range(2):
        paths = tmp_path / "rest.txt", tmp_path / "fold.txt"
        for path, part in zip(paths, fold(small[0], 2, number, seed=1), strict=True):
            write_text(path, part)
        scores.append(separately(tmp_path, paths, "--lambda", 0.5)[0]["metrics"]["PSP@5"])
    assert [row["metrics"]["PSP@5"] for row in facts["rows"]] == scores
    assert facts["best"]["target"] == sum(scores) / 2
    assert facts["best"]["standard_error"] == pytest.approx(abs(scores[0] - scores[1]) / 2)


def test_files_and_the_page(small_files: tuple[Path, Path], tmp_path: Path, capfd: Capture) -> None:
    pytest.importorskip("matplotlib")
    table, plot = tmp_path / "tune.csv", tmp_path / "tune.svg"
    options = ["--lambda", "5,0.5", "--metric", "coverage@5", "--csv", str(table), "--plot", str(plot), *TFIDF]
    assert tune.main([str(small_files[0]), *options, "--no-calibrate", *QUIET]) == 0
    out = capfd.readouterr().out
    best = next(line for line in out.splitlines() if line.startswith("best:"))
    assert best.startswith("best: --lambda 0.5 --lambda-exponent 0, coverage@5 ")
    assert "is the smallest that was tried: smaller ones may be better" in out
    assert f"train with: proxml-train {small_files[0]} model.h5 --lambda 0.5 --weighting tfidf" in out
    rows = list(csv.DictReader(table.read_text().splitlines()))
    assert [row["lambda"] for row in rows] == ["5.0", "0.5"] and {"P@1", "coverage@5 2-5", "n_weights"} <= set(rows[0])
    assert "<svg" in plot.read_text()


def test_the_final_model_is_that_of_training(
    small_files: tuple[Path, Path], run: Run, tmp_path: Path, capfd: Capture
) -> None:
    model, names = tmp_path / "best.h5", tmp_path / "names"
    names.write_text("\n".join(f"label {number}" for number in range(40)) + "\n")
    options = ["--lambda", "2,0.3", *TFIDF, "--model", model, "--label-names", names, "--no-bias", "--json"]
    done = run(["proxml-tune", small_files[0], *options, "--threads", 1], ranks=2)
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    with h5py.File(model) as file:
        assert file.attrs["lambda"] == facts["best"]["lambda"] and file.attrs["command_line"] == facts["train_with"]
    # The command that it prints gives the very same model, on another number of ranks.
    again = tmp_path / "again.h5"
    words = facts["train_with"].replace(str(model), str(again)).split()
    assert train.main([*words[1:], "--log-level", "error"]) == 0
    assert model_content(model) == model_content(again)
    block = read_labels(read_header(model), 0, 40)
    assert np.all(block.duality_gap <= 1e-3 * np.maximum(block.n_positives, 1))
    # A model that is there is not replaced, and nothing is tuned before that is said.
    assert tune.main([str(small_files[0]), "--model", str(model), *QUIET]) == 2
    assert "best.h5: exists already" in capfd.readouterr().err


def test_l2_and_dataset_files(small_files: tuple[Path, Path], tmp_path: Path, capfd: Capture) -> None:
    path = tmp_path / "train.h5"
    assert data.main(["convert", str(small_files[0]), str(path)]) == 0
    options = ("--penalty", "l2", "--lambda", "3,1", "--metric", "PSR@2", *TFIDF)
    text = tuned(capfd, small_files[0], *options)
    assert text["points"][0]["metrics"] == tuned(capfd, path, *options)["points"][0]["metrics"]


def test_ridges_are_tried_as_well(
    small_files: tuple[Path, Path], parts: tuple[Path, Path], tmp_path: Path, capfd: Capture
) -> None:
    table, plot = tmp_path / "tune.csv", tmp_path / "tune.svg"
    rule = ("--lambda", 0.3, "--lambda-exponent", 0.4)
    options = (*rule, "--ridge", "0,1.5,0", *TFIDF, "--fraction", 0.25, "--seed", 4, "--csv", table, "--plot", plot)
    facts = tuned(capfd, small_files[0], *options)
    assert [point["ridge"] for point in facts["points"]] == [0, 1.5]
    for point in facts["points"]:
        expected, model = separately(tmp_path, parts, *rule, "--ridge", point["ridge"])
        assert point["metrics"] == expected["metrics"] and point["n_weights"] == read_header(model).indptr[-1]
    rows = list(csv.DictReader(table.read_text().splitlines()))
    assert [row["ridge"] for row in rows] == ["0.0", "1.5"]
    assert tune.main([str(small_files[0]), "--lambda", "1", "--ridge", "2", *TFIDF, *QUIET]) == 0
    page = capfd.readouterr().out
    assert "best: --lambda 1 --lambda-exponent 0 --ridge 2, P@1 " in page and "--ridge 2 --weighting tfidf" in page


def test_a_stop_says_how_to_go_on(
    small_files: tuple[Path, Path], tmp_path: Path, capfd: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tmp_path / "model.h5"
    with monkeypatch.context() as patch:
        patch.setattr("proxml_mpi.stopping.StopSignals.wanted", lambda self: True)
        options = ["--lambda", "1", "--model", str(model), "--overwrite", *TFIDF, *QUIET]
        assert tune.main([str(small_files[0]), *options]) == 75
    command = capfd.readouterr().err.partition("which is now: proxml-train ")[2].split()
    assert "--resume" in command and "--overwrite" not in command and not model.exists()
    assert train.main(command) == 0 and model.exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--metric", "accuracy"], "--metric: found 'accuracy', expected NAME@K with a NAME of P, nDCG"),
        (["--metric", "P@0"], "--metric: found 'P@0'"),
        (["--lambda", "1,-1"], "--lambda: found -1.0, expected a finite number above 0"),
        (["--lambda", "1,x"], "found '1,x', expected numbers, as 1,0.3,0.1"),
        (["--lambda-exponent", "nan"], "--lambda-exponent: found nan, expected a finite number"),
        (["--folds", "1"], "--folds: found 1, expected a whole number, at least 2"),
        (["--fraction", "1"], "--fraction: found 1.0, expected a number between 0 and 1"),
        (["--prune", "0.1"], "--prune: found 0.1, expected to be given with --penalty l2"),
        (["--propensity-a", "1"], "--propensity-a: found 1.0, expected to be given together with --propensity-b"),
        (["--k", "0"], "--k: found 0, expected a whole number, at least 1"),
        (["--plot", "tune.txt"], "--plot: found 'tune.txt', expected a name that ends in .png, .svg or .pdf"),
        (["--overwrite"], "expected to be given with --model"),
    ],
)
def test_wrong_options(options: Sequence[str], message: str, capfd: Capture) -> None:
    with pytest.raises(SystemExit, match="2"):
        tune.main(["train.txt", *options])
    assert message in capfd.readouterr().err


def test_without_matplotlib_nothing_begins(
    small_files: tuple[Path, Path], capfd: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert tune.main([str(small_files[0]), "--plot", "tune.png", *QUIET]) == 2
    assert "--plot needs the Python package matplotlib: pip install 'proxml-mpi[plots]'" in capfd.readouterr().err


def test_without_options_the_default_of_training_is_among_what_is_tried() -> None:
    paths = {"train": Path("train.txt")}
    settings, default = TuneSettings(**paths), TrainSettings(**paths, model=Path("model.h5"))
    tried = [settings.training(value, exponent, ridge) for ridge, exponent in settings.paths for value in settings.path]
    rules = [(point.label_lambda, point.label_exponent, point.label_ridge) for point in tried]
    assert (default.label_lambda, default.label_exponent, default.label_ridge) in rules and len(rules) > 1
    # What is given alone leaves the others to the paper, as for proxml-train.
    assert TuneSettings(**paths, lambda_=(0.1,)).paths == ((0.0, 0.0),)
    assert TuneSettings(**paths, ridge=(1.5, 0.0)).paths == ((1.5, 0.0), (0.0, 0.0))
    assert TuneSettings(**paths, penalty="l2").paths == ((0.0, 0.0),)
    with pytest.raises(SettingsError, match="--ridge"):
        TuneSettings(**paths, ridge=())


def test_wrong_data(run: Run, tmp_path: Path, small_files: tuple[Path, Path], capfd: Capture) -> None:
    unlabelled = tmp_path / "unlabelled.txt"
    unlabelled.write_text("5 2 2\n" + " 0:1\n" * 5)
    done = run(["proxml-tune", unlabelled, "--threads", 1], ranks=2)
    assert done.returncode == 2 and "found no label in the instances to validate on" in done.stderr, done.stderr
    assert done.stderr.count("error:") == 1 and "Traceback" not in done.stderr
    assert tune.main([str(tmp_path / "no.txt"), *QUIET]) == 2
    assert "no.txt: cannot be read: no such file" in capfd.readouterr().err
    assert tune.main([str(small_files[0]), "--folds", "999", *QUIET]) == 2
    assert "--folds: found 999, expected 2 to 360" in capfd.readouterr().err
