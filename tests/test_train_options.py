"""The options that change what is solved: the L2 penalty, sampled negatives, warm starts."""

from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import h5py
import numpy as np
import pytest

from proxml_mpi.cli.options import parse
from proxml_mpi.data.dataset import Dataset
from proxml_mpi.data.split import select
from proxml_mpi.errors import ModelError
from proxml_mpi.settings.train import TrainSettings
from proxml_mpi.solve.problem import COLD, Outcome, make_problem
from proxml_mpi.solve.solvers import Plan, make_solver, sum_negatives
from proxml_mpi.store.warm_start import read_starts

Run = Callable[..., CompletedProcess[str]]
RUN_ON = np.zeros(1, np.uint8)


def train(run: Run, data: Path, model: Path, *options: object) -> dict[str, np.ndarray]:
    done = run(["proxml-train", data, model, "--weighting", "tfidf", *options])
    assert done.returncode == 0, done.stderr
    with h5py.File(model) as file:
        labels = {name: file["labels"][name][:] for name in file["labels"]}
        return labels | {"weights": file["weights/data"][:], "attributes": dict(file.attrs)}


@pytest.fixture(scope="module")
def models(run: Run, small_files: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("options")
    train(run, small_files[0], folder / "l1.h5", "--lambda", "0.5")
    return folder


def test_l2_is_dense_until_it_is_pruned(run: Run, small_files: tuple[Path, Path], tmp_path: Path) -> None:
    full = train(run, small_files[0], tmp_path / "full.h5", "--penalty", "l2", "--prune", "0")
    pruned = train(run, small_files[0], tmp_path / "pruned.h5", "--penalty", "l2")
    assert full["attributes"]["penalty"] == "l2" and full["attributes"]["lambda"] == 1.0
    assert pruned["attributes"]["prune"] == 0.01 and np.abs(pruned["weights"]).min() >= 0.01
    assert np.array_equal(full["objective"], pruned["objective"]) and len(pruned["weights"]) < len(full["weights"])
    solved = full["outcome"] != Outcome.no_positives
    assert np.all(full["outcome"][solved] == Outcome.converged)
    assert np.all(full["duality_gap"][solved] <= 1e-3 * full["n_positives"][solved])


def test_a_warm_start_at_the_optimum_needs_next_to_nothing(
    run: Run, models: Path, small_files: tuple[Path, Path], tmp_path: Path
) -> None:
    cold = train(run, small_files[0], tmp_path / "cold.h5", "--lambda", "0.5")
    warm = train(run, small_files[0], tmp_path / "warm.h5", "--lambda", "0.5", "--warm-start", models / "l1.h5")
    assert warm["iterations"].sum() <= 0.1 * cold["iterations"].sum()
    assert warm["objective"] == pytest.approx(cold["objective"], rel=1e-3)
    assert "warm_start" in warm["attributes"] and "warm_start" not in cold["attributes"]


def test_a_warm_start_must_have_the_same_features(models: Path) -> None:
    starts, _ = read_starts(models / "l1.h5", 300)
    assert len(starts.of(0).features) > 0 and starts.of(4000) == COLD
    with pytest.raises(ModelError, match="found 300 features, expected 301"):
        read_starts(models / "l1.h5", 301)


def test_sampled_negatives_are_the_problem_of_those_instances(small: tuple[Dataset, Dataset]) -> None:
    dataset, _ = small
    problem = make_problem(*dataset.features, dataset.n_features)
    plan = Plan("newton", 1e-6, 500, has_bias=True)
    sums = sum_negatives(problem, 0.4, seed=3)
    assert 0.25 < sums.negative.mean() < 0.55
    sampled = make_solver(plan, problem, sums)
    for label in range(5):
        positives = dataset.positives.indices[dataset.positives.indptr[label] : dataset.positives.indptr[label + 1]]
        found = sampled.solve(sampled.workspace(), positives, 0.3, COLD, RUN_ON)
        kept = np.union1d(np.flatnonzero(sums.negative), positives)
        part = select(dataset, kept)
        whole = make_solver(plan, make_problem(*part.features, part.n_features))
        among = np.searchsorted(kept, positives).astype(np.int32)
        expected = whole.solve(whole.workspace(), among, 0.3, COLD, RUN_ON)
        assert found.objective == pytest.approx(expected.objective, abs=2e-6 * len(positives))


def test_sampling_is_said_in_the_file(run: Run, small_files: tuple[Path, Path], tmp_path: Path) -> None:
    found = train(run, small_files[0], tmp_path / "sampled.h5", "--negatives", "0.5", "--seed", "7")
    assert found["attributes"]["certificate_of"] == "sampled negatives" and found["attributes"]["seed"] == 7


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--negatives 0", "--negatives: found 0.0, expected a share above 0 and at most 1"),
        ("--negatives 0.5 --solver forward-backward", "only the L1 solver newton samples negatives"),
        ("--penalty l2 --solver forward-backward", "--solver: found 'forward-backward', expected newton"),
        ("--prune 0.1", "--prune: found 0.1, expected to be given with --penalty l2"),
        ("--penalty l2 --prune -1", "--prune: found -1.0"),
    ],
)
def test_options_that_do_not_go_together(options: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(TrainSettings, "proxml-train", "", ["a", "b", *options.split()])
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, (0.07, 0.3, 3.0)),
        ({"ridge": 0.0}, (0.3, 0.2, 0.0)),
        ({"ridge": 0.7}, (0.07, 0.3, 0.7)),
        ({"lambda_": 0.2}, (0.2, 0.0, 0.0)),
        ({"lambda_exponent": 0.4}, (0.1, 0.4, 0.0)),
        ({"lambda_": 0.2, "lambda_exponent": 0.4, "ridge": 2.0}, (0.2, 0.4, 2.0)),
        ({"penalty": "l2"}, (1.0, 0.0, 0.0)),
    ],
)
def test_what_is_not_given(options: dict[str, Any], expected: tuple[float, float, float]) -> None:
    settings = TrainSettings(train=Path("train.txt"), model=Path("model.h5"), **options)
    assert (settings.label_lambda, settings.label_exponent, settings.label_ridge) == expected
    attributes = settings.model_attributes()
    assert (attributes["lambda"], attributes["lambda_exponent"], attributes["ridge"]) == expected
