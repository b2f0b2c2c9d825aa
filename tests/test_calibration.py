"""Calibration of scores: the formula against dense numpy, the command against Python, both forms of a model."""

import json
import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest
from conftest import calibrated, dense

import proxml_mpi
from proxml_mpi.cli import inspect, predict, train
from proxml_mpi.data.dataset import Dataset
from proxml_mpi.score.calibration import calibrate

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def model(small_files: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("calibration") / "model.h5"
    assert train.main([str(small_files[0]), str(path), "--weighting", "tfidf", "--log-level", "error"]) == 0
    return path


def test_calibration_is_the_formula() -> None:
    n_positives = np.array([0, 1, 1, 2, 50, 100_000], np.int32)
    bias = np.array([-np.inf, -1.5, 0.25, -2, -1, -3], np.float32)
    weights = np.outer([0, 1.5, 0.25, 4, 9, 30], [0.6, -0.8])  # none; shorter than 1, and longer
    factors, biases = calibrate(bias, n_positives, np.linalg.norm(weights, axis=1))
    expected = calibrated(np.stack([bias, bias + 1]).astype(np.float64), n_positives, weights)
    np.testing.assert_allclose(biases, expected[0], rtol=1e-6)
    np.testing.assert_allclose(factors[1:], expected[1, 1:] - expected[0, 1:], rtol=1e-6)
    assert biases[0] == -np.inf


def test_a_label_whose_weights_all_but_vanish_is_not_lifted_above_the_others() -> None:
    bias, n_positives = np.array([-0.97, -1.3], np.float32), np.array([400, 400], np.int32)
    factors, biases = calibrate(bias, n_positives, np.array([1e-6, 5.0]))
    assert factors.max() < 2 and biases[0] < -0.9  # divided by |w| alone it would be of the order of 1e4


def test_a_range_of_labels_is_calibrated_as_all_of_them_are() -> None:
    random = np.random.default_rng(0)
    n_positives = random.zipf(1.5, 1000).clip(0, 10_000).astype(np.int32)
    labels = (random.normal(-1.3, 0.2, 1000).astype(np.float32), n_positives, random.uniform(0, 10, 1000))
    whole = calibrate(*labels)
    for first, end in ((0, 1), (3, 20), (500, 1000)):
        part = calibrate(*(array[first:end] for array in labels))
        for mine, all_of_them in zip(part, whole, strict=True):
            assert mine.tobytes() == all_of_them[first:end].tobytes()


def test_scores_are_those_of_dense_arithmetic(model: Path, small: tuple[Dataset, Dataset]) -> None:
    X = dense(small[1].features, small[1].n_features)
    plain = proxml_mpi.load_model(model, calibrate=False)
    found = proxml_mpi.load_model(model)
    assert (found.weights != plain.weights).nnz == 0 and np.array_equal(found.bias, plain.bias)
    scores = plain.decision_function(X).astype(np.float64)
    expected = calibrated(scores, found.certificates.n_positives, plain.weights.toarray())
    is_usable = np.isfinite(found.bias)
    np.testing.assert_allclose(found.decision_function(X)[:, is_usable], expected[:, is_usable], rtol=1e-5, atol=1e-5)
    top = found.predict(X)
    assert np.take_along_axis(found.decision_function(X), top.labels, axis=1).tobytes() == top.scores.tobytes()


def test_a_stored_index_changes_no_bit(model: Path, small: tuple[Dataset, Dataset], tmp_path: Path) -> None:
    X = dense(small[1].features, small[1].n_features)
    indexed = tmp_path / "indexed.h5"
    shutil.copy(model, indexed)
    assert inspect.main([str(indexed), "--add-index"]) == 0
    one, other = (proxml_mpi.load_model(path) for path in (model, indexed))
    assert (one.weights != other.weights).nnz == 0
    for mine, its in zip(one.predict(X), other.predict(X), strict=True):
        assert mine.tobytes() == its.tobytes()


@pytest.mark.parametrize("is_calibrated", [True, False])
def test_the_command_says_what_it_does(
    model: Path,
    small: tuple[Dataset, Dataset],
    small_files: tuple[Path, Path],
    tmp_path: Path,
    capfd: Capture,
    is_calibrated: bool,
) -> None:
    lists, metrics = tmp_path / "lists.h5", tmp_path / "metrics.json"
    options = [] if is_calibrated else ["--no-calibrate"]
    arguments = [str(model), str(small_files[1]), "--output", str(lists), "--metrics", str(metrics), *options]
    assert predict.main(arguments) == 0
    words = "scores calibrated;" if is_calibrated else "scores as they are;"
    assert words in capfd.readouterr().out and json.loads(metrics.read_text())["calibrate"] is is_calibrated
    found = proxml_mpi.load_model(model, calibrate=is_calibrated).predict(dense(small[1].features, small[1].n_features))
    with h5py.File(lists) as file:
        assert file["scores"][:].tobytes() == found.scores.tobytes()
