"""Damping of rare features: the formula against dense numpy, the command against Python, models of before."""

import json
import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest
from conftest import dense, dense_damped, model_content, run_command
from scipy import sparse

import proxml_mpi
from proxml_mpi.cli import inspect, predict, train
from proxml_mpi.data.damping import NO_DAMPING, Damping
from proxml_mpi.data.dataset import Dataset, Matrix
from proxml_mpi.store.checksums import FEATURE_COUNTS_DIGEST, HEADER_DIGEST, array_digest, header_digest
from proxml_mpi.store.layout import FEATURE_COUNTS

Capture = pytest.CaptureFixture[str]
COUNTS = np.array([0, 1, 2, 3, 7, 62, 63, 64, 1000], np.int32)


def matrix_of(rows: np.ndarray) -> Matrix:
    csr = sparse.csr_array(rows.astype(np.float32))
    return Matrix(csr.indptr.astype(np.int64), csr.indices.astype(np.int32), csr.data)


def random_rows() -> np.ndarray:
    """Instances of any length; 0: empty, 1: of an unseen feature only, 2: without a damped feature."""
    random = np.random.default_rng(0)
    rows = random.normal(size=(30, len(COUNTS))) * (random.random((30, len(COUNTS))) < 0.5)
    rows[:3] = 0
    rows[1, 0], rows[2, 6:] = 0.3, (0.1, 0.2, 0.7)
    return rows


@pytest.mark.parametrize("level", [0.01, 1, 2.5, 63, 1e9])
def test_damping_is_the_formula(level: float) -> None:
    rows = random_rows()
    features = matrix_of(rows)
    before = features.values.tobytes()
    damped = dense(Damping.from_counts(COUNTS, level).apply(features), len(COUNTS))
    assert features.values.tobytes() == before
    np.testing.assert_allclose(damped, dense_damped(rows, COUNTS, level), rtol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(damped, axis=1), np.linalg.norm(rows, axis=1), rtol=1e-6)


def test_what_is_not_damped_keeps_its_bits() -> None:
    features = matrix_of(random_rows())
    damped = Damping.from_counts(COUNTS, 63).apply(features)
    end = features.indptr[3]
    assert damped.values[:end].tobytes() == features.values[:end].tobytes()
    assert damped.values[end:].tobytes() != features.values[end:].tobytes()
    for nothing in (NO_DAMPING, Damping.from_counts(COUNTS, 0), Damping.from_counts(COUNTS[6:], 63)):
        assert nothing.apply(features) is features
    assert Damping.from_counts(np.empty(0, np.int32), 63).factors is None


@pytest.fixture(scope="module")
def model(small_files: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("damping") / "model.h5"
    assert train.main([str(small_files[0]), str(path), "--weighting", "tfidf", "--log-level", "error"]) == 0
    return path


def change_counts(path: Path, copy: Path, counts: np.ndarray | None) -> Path:
    """The same model with other counts, or with none, as files of before damping."""
    shutil.copy(path, copy)
    with h5py.File(copy, "r+") as file:
        del file[FEATURE_COUNTS], file.attrs[FEATURE_COUNTS_DIGEST]
        if counts is not None:
            file[FEATURE_COUNTS] = counts
            file.attrs[FEATURE_COUNTS_DIGEST] = array_digest(counts)
        file.attrs[HEADER_DIGEST] = header_digest(dict(file.attrs), file["features/idf"][:])
    return copy


def predicted(path: Path, test: Path, *options: object) -> tuple[np.ndarray, np.ndarray, dict[str, object]]:
    """Labels and scores of the command, and the facts beside its metrics."""
    output, metrics = path.with_suffix(".p.h5"), path.with_suffix(".json")
    words = [path, test, "--output", output, "--metrics", metrics, *options]
    assert predict.main([str(word) for word in words]) == 0
    with h5py.File(output) as file:
        return file["labels"][:], file["scores"][:], json.loads(metrics.read_text())


@pytest.mark.parametrize("damping", [0, 7.5, 63])
def test_python_and_the_command_damp_alike(
    model: Path, small: tuple[Dataset, Dataset], small_files: tuple[Path, Path], damping: float, capfd: Capture
) -> None:
    labels, scores, facts = predicted(model, small_files[1], "--damping", damping)
    words = "no damping" if damping == 0 else f"features of fewer than {damping:g} training instances damped"
    assert facts["damping"] == damping and words in capfd.readouterr().out
    loaded = proxml_mpi.load_model(model, damping=damping)
    X = dense(small[1].features, small[1].n_features)
    found = loaded.predict(X)
    assert found.labels.tobytes() == labels.tobytes() and found.scores.tobytes() == scores.tobytes()
    assert np.take_along_axis(loaded.decision_function(X), labels, axis=1).tobytes() == scores.tobytes()


def test_ranks_change_no_bit(model: Path, small_files: tuple[Path, Path], tmp_path: Path) -> None:
    labels, scores, _ = predicted(model, small_files[1], "--damping", 20)
    output = tmp_path / "three.h5"
    command = ["proxml-predict", model, small_files[1], "--damping", 20, "--output", output]
    done = run_command([*command, "--instances-per-round", 50], ranks=3)
    assert done.returncode == 0, done.stderr
    with h5py.File(output) as file:
        assert file["labels"][:].tobytes() == labels.tobytes() and file["scores"][:].tobytes() == scores.tobytes()


def test_models_of_before_damping(
    model: Path,
    small: tuple[Dataset, Dataset],
    small_files: tuple[Path, Path],
    tmp_path: Path,
    capfd: Capture,
    caplog: pytest.LogCaptureFixture,
) -> None:
    labels, scores, _ = predicted(model, small_files[1], "--damping", 0)
    assert predicted(model, small_files[1])[1].tobytes() != scores.tobytes()
    old = change_counts(model, tmp_path / "old.h5", None)
    caplog.clear()
    old_labels, old_scores, facts = predicted(old, small_files[1])
    assert old_labels.tobytes() == labels.tobytes() and old_scores.tobytes() == scores.tobytes()
    assert caplog.text.count("has no /features/n_instances") == 1
    assert facts["damping"] == 0 and "; no damping, scores calibrated;" in capfd.readouterr().out
    found = proxml_mpi.load_model(old).predict(dense(small[1].features, small[1].n_features))
    assert found.scores.tobytes() == scores.tobytes()


def test_parts_keep_their_counts_and_must_agree(
    model: Path, small_files: tuple[Path, Path], tmp_path: Path, capfd: Capture
) -> None:
    parts = [tmp_path / "a.h5", tmp_path / "b.h5"]
    for path, options in zip(parts, (["--num-labels", "15"], ["--first-label", "15"]), strict=True):
        options += ["--weighting", "tfidf", "--log-level", "error"]
        assert train.main([str(small_files[0]), str(path), *options]) == 0
    merged = tmp_path / "merged.h5"
    assert inspect.main([str(merged), "--merge", *map(str, parts)]) == 0
    assert model_content(merged) == model_content(model)
    with h5py.File(parts[1]) as file:
        counts = file[FEATURE_COUNTS][:]
    for name, other in (("older", None), ("other", np.roll(counts, 1))):
        changed = change_counts(parts[1], tmp_path / f"{name}.h5", other)
        capfd.readouterr()
        assert inspect.main([str(tmp_path / "no.h5"), "--merge", str(parts[0]), str(changed)]) == 2
        assert f"{name}.h5: features/n_instances differs from that of" in capfd.readouterr().err
