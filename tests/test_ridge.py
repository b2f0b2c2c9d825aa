"""A ridge beside the L1, from the command line to the file and back: recorded, compared, verified, shown."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import h5py
import numpy as np
import pytest
from conftest import matrices, model_content

from proxml_mpi.cli import inspect, train
from proxml_mpi.data.dataset import Dataset
from proxml_mpi.errors import FileError
from proxml_mpi.solve.problem import Outcome
from proxml_mpi.store.checksums import HEADER_DIGEST, header_digest
from proxml_mpi.store.journal import Journal
from proxml_mpi.store.model_reader import read_header, read_labels

Run = Callable[..., CompletedProcess[str]]
Capture = pytest.CaptureFixture[str]
QUIET = ("--log-level", "error", "--threads", "1")


def trained(path: Path, data: Path, *options: object) -> Path:
    words = [str(data), str(path), "--lambda", "0.3", "--lambda-exponent", "0.2", *map(str, options)]
    assert train.main([*words, *QUIET]) == 0
    return path


@pytest.fixture(scope="module")
def models(small_files: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("ridge")
    ratios = {"none": 0, "some": 1.5, "negatives": 1.5}
    more = {"negatives": ("--negatives", "0.5")}
    return {
        kind: trained(folder / f"{kind}.h5", small_files[0], "--ridge", ratio, *more.get(kind, ()))
        for kind, ratio in ratios.items()
    }


def without_ridge(path: Path, copy: Path) -> Path:
    """The file as it was written before there was a ridge."""
    shutil.copy(path, copy)
    with h5py.File(copy, "r+") as file:
        del file.attrs["ridge"]
        idf = file["features/idf"][:] if "features/idf" in file else None
        file.attrs[HEADER_DIGEST] = header_digest(dict(file.attrs), idf)
    return copy


def test_objectives_and_gaps_in_the_file(models: dict[str, Path], small: tuple[Dataset, Dataset]) -> None:
    header = read_header(models["some"])
    block = read_labels(header, 0, header.n_labels)
    assert header.attributes["ridge"] == 1.5 and read_header(models["none"]).attributes["ridge"] == 0.0
    X, Y = (matrix.toarray().astype(float) for matrix in matrices(small[0]))
    X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-300)
    for label in np.flatnonzero(block.outcome == Outcome.converged):
        at = slice(block.indptr[label], block.indptr[label + 1])
        w, b = np.zeros(X.shape[1]), float(block.bias[label])
        w[block.indices[at]] = block.data[at]
        v = np.maximum(0, 1 - np.where(Y[:, label] > 0, 1, -1) * (X @ w + b))
        penalty = block.lambda_[label]
        expected = penalty * (np.abs(w).sum() + abs(b)) + 0.75 * penalty * (w @ w) + v @ v
        assert block.objective[label] == pytest.approx(expected, rel=1e-6)
    solved = block.outcome == Outcome.converged
    assert np.all(block.duality_gap[solved] <= 1e-3 * block.n_positives[solved])
    assert len(block.data) > 1.2 * int(read_header(models["none"]).indptr[-1])


def test_zero_is_the_default_beside_a_lambda(
    models: dict[str, Path], small_files: tuple[Path, Path], tmp_path: Path
) -> None:
    assert model_content(trained(tmp_path / "plain.h5", small_files[0])) == model_content(models["none"])


def test_ranks_and_threads_change_no_bit(
    models: dict[str, Path], small_files: tuple[Path, Path], run: Run, tmp_path: Path
) -> None:
    options = ("--lambda", "0.3", "--lambda-exponent", "0.2", "--ridge", "1.5", "--threads", "2")
    done = run(["proxml-train", small_files[0], tmp_path / "model.h5", *options], ranks=2)
    assert done.returncode == 0, done.stderr
    assert model_content(tmp_path / "model.h5") == model_content(models["some"])


def test_both_solvers_agree(models: dict[str, Path], small_files: tuple[Path, Path], tmp_path: Path) -> None:
    options = ("--ridge", 1.5, "--solver", "forward-backward", "--max-iterations", 20_000)
    other = read_header(trained(tmp_path / "other.h5", small_files[0], *options))
    ours = read_header(models["some"])
    one, two = (read_labels(header, 0, header.n_labels) for header in (ours, other))
    assert np.array_equal(one.outcome, two.outcome)
    assert np.all(np.abs(one.objective - two.objective) <= one.duality_gap + two.duality_gap + 1e-9)


@pytest.mark.parametrize("kind", ["some", "negatives"])
def test_verification_knows_the_ridge(
    kind: str, models: dict[str, Path], small_files: tuple[Path, Path], capfd: Capture
) -> None:
    assert inspect.main([str(models[kind]), "--verify", str(small_files[0]), "--json", *QUIET]) == 0
    facts = json.loads(capfd.readouterr().out)
    assert facts["failed"] == []


def test_a_file_of_before_means_none(
    models: dict[str, Path], small_files: tuple[Path, Path], tmp_path: Path, capfd: Capture
) -> None:
    older = without_ridge(models["none"], tmp_path / "older.h5")
    assert read_header(older).attributes["ridge"] == 0.0
    assert inspect.main([str(older), "--verify", str(small_files[0]), *QUIET]) == 0
    # Without its ridge, a model's objectives are too large for what its weights say.
    robbed = without_ridge(models["some"], tmp_path / "robbed.h5")
    assert inspect.main([str(robbed), "--verify", str(small_files[0]), *QUIET]) == 2
    assert "do not hold" in capfd.readouterr().err


def test_it_is_shown(models: dict[str, Path], capfd: Capture) -> None:
    assert inspect.main([str(models["some"])]) == 0
    assert "ridge" in capfd.readouterr().out
    assert inspect.main([str(models["some"]), "--label", "0"]) == 0
    assert ", ridge 1.5 x lambda, objective " in capfd.readouterr().out
    assert inspect.main([str(models["none"]), "--label", "0"]) == 0
    assert "ridge" not in capfd.readouterr().out


def test_a_warm_start(models: dict[str, Path], small_files: tuple[Path, Path], tmp_path: Path) -> None:
    options = ("--ridge", 1.5, "--warm-start", models["some"])
    warm, cold = (read_header(path) for path in (trained(tmp_path / "w.h5", small_files[0], *options), models["some"]))
    one, two = (read_labels(header, 0, header.n_labels) for header in (warm, cold))
    assert one.iterations.sum() <= 0.1 * two.iterations.sum()


def test_another_ridge_neither_resumes_nor_merges(
    models: dict[str, Path], small_files: tuple[Path, Path], tmp_path: Path, capfd: Capture
) -> None:
    halves = [
        trained(tmp_path / f"{first}-{ratio}.h5", small_files[0], "--ridge", ratio, "--first-label", first, *count)
        for first, ratio, count in ((0, 0, ("--num-labels", 20)), (20, 0, ()), (20, 2, ()))
    ]
    older = without_ridge(halves[0], tmp_path / "older.h5")
    merged, wrong = tmp_path / "merged.h5", tmp_path / "wrong.h5"
    assert inspect.main([str(merged), "--merge", str(older), str(halves[1])]) == 0
    assert model_content(merged) == model_content(models["none"])
    capfd.readouterr()
    assert inspect.main([str(wrong), "--merge", str(older), str(halves[2])]) == 2
    assert "ridge is 2.0, expected 0.0 as in" in capfd.readouterr().err
    copy = tmp_path / "copy.h5"
    shutil.copy(models["some"], copy)
    words = [str(small_files[0]), str(copy), "--lambda", "0.3", "--lambda-exponent", "0.2", "--resume", *QUIET]
    assert train.main([*words, "--ridge", "1.5"]) == 0
    assert train.main(words) == 2
    assert "is another run's model: ridge is 1.5, expected 0.0" in capfd.readouterr().err


def test_a_journal_of_before_is_that_of_no_ridge(tmp_path: Path) -> None:
    before = {"lambda": 0.1, "n_labels": 3}
    runs = [Journal(tmp_path, before | more).run for more in ({}, {"ridge": 0.0}, {"ridge": 1.0})]
    assert runs[0] == runs[1] != runs[2]
    journal = Journal(tmp_path / "model.journal", before)
    journal.open(tmp_path / "model.h5", resume=False, overwrite=False)
    journal.close()
    other = Journal(journal.folder, before | {"ridge": 1.0})
    with pytest.raises(FileError, match=r"cannot resume: ridge was 0\.0 in this run, and is 1\.0 now"):
        other.open(tmp_path / "model.h5", resume=True, overwrite=False)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--ridge -1", "--ridge: found -1.0, expected a finite number, at least 0"),
        ("--ridge nan", "--ridge: found nan, expected a finite number, at least 0"),
        ("--ridge inf", "--ridge: found inf, expected a finite number, at least 0"),
        ("--ridge 1 --penalty l2", "--ridge: found 1.0, expected 0: --penalty l2 is a ridge already"),
    ],
)
def test_mistakes(options: str, message: str, capfd: Capture) -> None:
    with pytest.raises(SystemExit, match="2"):
        train.main(["train.txt", "model.h5", *options.split()])
    err = capfd.readouterr().err
    assert message in err and err.count("error:") == 1
