"""Looking at models: labels, features, histograms, exports, and certificates computed once more."""

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import h5py
import numpy as np
import pytest
import scipy.sparse
from conftest import matrices

from proxml_mpi.cli import inspect, train
from proxml_mpi.data.dataset import Dataset
from proxml_mpi.solve.verification import certify_label
from proxml_mpi.store.checksums import label_checksums
from proxml_mpi.store.layout import CHECKSUM
from proxml_mpi.store.model_reader import read_header, read_labels

Run = Callable[..., CompletedProcess[str]]
Capture = pytest.CaptureFixture[str]
QUIET = ("--log-level", "error", "--threads", "1")
KINDS = {
    "l1": ("--weighting", "tfidf", "--lambda", "0.3"),
    "no bias": ("--no-bias", "--lambda-exponent", "0.4", "--tolerance", "1e-6"),
    "negatives": ("--weighting", "tfidf", "--negatives", "0.3", "--seed", "5"),
    "l2": ("--penalty", "l2", "--prune", "0", "--lambda", "0.05"),
    "pruned": ("--penalty", "l2", "--weighting", "tfidf"),
    "unfinished": ("--solver", "forward-backward", "--max-iterations", "7", "--first-label", "5", "--num-labels", "20"),
}


@pytest.fixture(scope="module")
def models(small_files: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A model of every kind."""
    folder = tmp_path_factory.mktemp("models")
    names = {"label": [f"label nº {i % 39}" for i in range(40)], "feature": [f"word{i}" for i in range(300)]}
    options = []
    for kind, values in names.items():
        (folder / kind).write_text("\n".join(values) + "\n")
        options += [f"--{kind}-names", str(folder / kind)]
    for kind, settings in KINDS.items():
        arguments = [str(small_files[0]), str(folder / f"{kind}.h5"), *settings, *QUIET]
        assert train.main([*arguments, *(options if kind == "l1" else ())]) == 0
    return {kind: folder / f"{kind}.h5" for kind in KINDS}


def shown(capfd: Capture, path: Path, *options: object) -> Any:
    """The JSON that a look at a model prints."""
    capfd.readouterr()
    assert inspect.main([str(path), *map(str, options), "--json"]) == 0
    return json.loads(capfd.readouterr().out)


def weights_of(path: Path) -> scipy.sparse.csr_array:
    with h5py.File(path) as file:
        w, shape = file["weights"], (file.attrs["n_labels"], file.attrs["n_features"])
        return scipy.sparse.csr_array((w["data"][:], w["indices"][:], w["indptr"][:]), shape=shape)


def test_a_label_by_id_and_by_name(models: dict[str, Path], capfd: Capture) -> None:
    facts = shown(capfd, models["l1"], "--label", "label nº 7", "--top", 3)
    assert facts == shown(capfd, models["l1"], "--label", 7, "--top", 3)
    row = weights_of(models["l1"])[[7]].toarray()[0]
    order = np.argsort(-np.abs(row), kind="stable")[:3]
    assert [entry["feature"] for entry in facts["features"]] == order.tolist()
    assert [entry["name"] for entry in facts["features"]] == [f"word{feature}" for feature in order]
    with h5py.File(models["l1"]) as file:
        assert facts["duality_gap"] == file["labels/duality_gap"][7]
        assert facts["n_positives"] == file["labels/n_positives"][7] and facts["outcome"] == "converged"
    assert inspect.main([str(models["l1"]), "--label", "7"]) == 0
    out = capfd.readouterr().out
    assert out.startswith("label 7 'label nº 7'\n") and f"{order[0]} 'word{order[0]}'" in out
    assert shown(capfd, models["unfinished"], "--label", 0)["duality_gap"] is None


def test_a_feature(models: dict[str, Path], capfd: Capture) -> None:
    columns = weights_of(models["l1"]).tocsc()
    feature = int(np.argmax(np.diff(columns.indptr)))
    facts = shown(capfd, models["l1"], "--feature", f"word{feature}", "--top", 2)
    column = columns[:, [feature]].toarray()[:, 0]
    assert facts["feature"] == feature and facts["n_labels"] == np.count_nonzero(column)
    assert [entry["label"] for entry in facts["labels"]] == np.argsort(-np.abs(column), kind="stable")[:2].tolist()
    assert inspect.main([str(models["l1"]), "--feature", str(feature)]) == 0
    assert f"a weight in {np.count_nonzero(column)} labels" in capfd.readouterr().out


def test_histograms_count_every_label(models: dict[str, Path], capfd: Capture, tmp_path: Path) -> None:
    counts = shown(capfd, models["unfinished"], "--histogram")
    assert counts["labels_by_outcome"]["not trained"] == 20
    assert sum(counts["labels_by_positives"].values()) == 40 and sum(counts["labels_by_gap"].values()) == 20
    assert shown(capfd, models["unfinished"])["labels_by_gap"] == counts["labels_by_gap"]
    assert inspect.main([str(models["l1"]), "--histogram"]) == 0
    assert "labels by duality gap / positives" in capfd.readouterr().out
    pytest.importorskip("matplotlib")
    assert inspect.main([str(models["l1"]), "--histogram", str(tmp_path / "out.png")]) == 0
    assert (tmp_path / "out.png").read_bytes().startswith(b"\x89PNG")


def test_summary_as_json(models: dict[str, Path], capfd: Capture) -> None:
    facts = shown(capfd, models["l1"])
    assert facts["attributes"]["weighting"] == "tfidf" and facts["datasets"]["bias"]["shape"] == [40]
    assert facts["labels_by_outcome"]["converged"] == 40


def test_export_to_npz(models: dict[str, Path], tmp_path: Path) -> None:
    path = tmp_path / "model.npz"
    assert inspect.main([str(models["unfinished"]), "--export", str(path)]) == 0
    assert (scipy.sparse.load_npz(path) != weights_of(models["unfinished"])).nnz == 0
    with np.load(path) as arrays, h5py.File(models["unfinished"]) as file:
        assert np.array_equal(arrays["bias"], file["bias"][:])
        assert np.array_equal(arrays["lambda"], file["labels/lambda"][:])
        assert np.array_equal(arrays["outcome"], file["labels/outcome"][:])


def test_export_to_liblinear(models: dict[str, Path], tmp_path: Path) -> None:
    path = tmp_path / "model.txt"
    assert inspect.main([str(models["unfinished"]), "--export", str(path)]) == 0
    head, _, body = path.read_text().partition("\nw\n")
    assert head.splitlines()[:2] == ["solver_type L1R_L2LOSS_SVC", "nr_class 40"]
    assert head.splitlines()[2] == "label " + " ".join(map(str, range(40)))
    assert head.splitlines()[3:] == ["nr_feature 300", "bias 1"]
    w = np.array([line.split() for line in body.splitlines()], float).astype(np.float32)
    with h5py.File(models["unfinished"]) as file:
        assert np.array_equal(w[-1], file["bias"][:])
    assert np.array_equal(w[:-1].T, weights_of(models["unfinished"]).toarray())


def test_liblinear_reads_the_export(models: dict[str, Path], small: tuple[Dataset, Dataset], tmp_path: Path) -> None:
    liblinear = pytest.importorskip("liblinear.liblinearutil")
    assert inspect.main([str(models["no bias"]), "--export", str(tmp_path / "model.txt")]) == 0
    features, _ = matrices(small[1])
    norms = np.sqrt(features.multiply(features).sum(axis=1))
    features = scipy.sparse.csr_matrix(features.multiply(1 / norms[:, None]))
    _, _, scores = liblinear.predict([], features, liblinear.load_model(str(tmp_path / "model.txt")), "-q")
    assert np.allclose(scores, (features @ weights_of(models["no bias"]).T).toarray(), atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_certificates_hold(kind: str, models: dict[str, Path], small_files: tuple[Path, Path], capfd: Capture) -> None:
    facts = shown(capfd, models[kind], "--verify", small_files[0], *QUIET)
    n_trained = 20 if kind == "unfinished" else 40
    assert (facts["n_checked"], facts["n_hold"], facts["failed"]) == (n_trained, n_trained, [])
    assert facts["n_not_trained"] == 40 - n_trained and facts["is_pruned"] == (kind == "pruned")
    assert inspect.main([str(models[kind]), "--verify", str(small_files[0]), *QUIET]) == 0
    out = capfd.readouterr().out
    assert f"{n_trained} of {n_trained} certificates hold" in out
    assert ("sampled negatives" in out) == (kind == "negatives")


def test_ranks_share_the_verification(models: dict[str, Path], small_files: tuple[Path, Path], run: Run) -> None:
    command = ["proxml-inspect", models["unfinished"], "--verify", small_files[0], "--json", "--log-level", "error"]
    alone, together = run([*command, "--threads", 3]), run([*command, "--threads", 1], ranks=3)
    assert alone.returncode == together.returncode == 0, together.stderr
    assert json.loads(alone.stdout) == json.loads(together.stdout)
    done = run(["proxml-inspect", models["l1"], "--verify", small_files[1], *QUIET], ranks=2)
    assert done.returncode == 2 and done.stderr.count("was trained on other data") == 1


def forge(path: Path, label: int, **changes: float) -> None:
    """Change facts of a label and give it the checksum that fits."""
    with h5py.File(path, "r+") as file:
        for name, value in changes.items():
            file[f"labels/{name}"][label] = value
    checksums = label_checksums(read_block_unchecked(path))
    with h5py.File(path, "r+") as file:
        file[CHECKSUM][:] = checksums


def read_block_unchecked(path: Path) -> Any:
    from proxml_mpi.store.model_reader import _read_block

    header = read_header(path)
    return _read_block(header, 0, header.n_labels, header.indptr)[0]


@pytest.mark.parametrize("ranks", [None, 2])
def test_forged_certificates_are_named(
    ranks: int | None, models: dict[str, Path], small_files: tuple[Path, Path], tmp_path: Path, run: Run
) -> None:
    path = tmp_path / "forged.h5"
    shutil.copy(models["unfinished"], path)
    block = read_labels(read_header(path), 0, 40)
    forge(path, 6, objective=block.objective[6] * (1 + 1e-6))
    forge(path, 9, duality_gap=1e-3)
    forge(path, 11, n_positives=block.n_positives[11] + 1)
    done = run(["proxml-inspect", path, "--verify", small_files[0], *QUIET], ranks=ranks)
    assert done.returncode == 2, done.stdout
    assert [line.split(":")[1] for line in done.stdout.splitlines() if "does not hold" in line] == [
        " label 6",
        " label 9",
        " label 11",
    ]
    assert done.stderr.count("the certificates of 3 labels do not hold") == 1 and "Traceback" not in done.stderr


def test_pruned_claims_are_refuted(models: dict[str, Path], small_files: tuple[Path, Path], tmp_path: Path) -> None:
    path = tmp_path / "forged.h5"
    shutil.copy(models["pruned"], path)
    block = read_labels(read_header(path), 0, 40)
    forge(path, 3, objective=0.9 * block.objective[3])
    forge(path, 4, objective=1.1 * block.objective[4])
    assert inspect.main([str(path), "--verify", str(small_files[0]), *QUIET]) == 2


@pytest.mark.parametrize("is_l2", [False, True])
def test_certify_against_dense_numpy(is_l2: bool, small: tuple[Dataset, Dataset]) -> None:
    from proxml_mpi.solve.problem import make_problem

    dataset, random = small[0], np.random.default_rng(1)
    X = matrices(dataset)[0].toarray().astype(float)
    n_instances, n_features = X.shape
    problem = make_problem(*dataset.features, n_features)
    is_positive = (random.random(n_instances) < 0.1).astype(np.uint8)
    negative = (random.random(n_instances) < 0.4).astype(np.uint8)
    w, b, penalty = random.normal(size=n_features) * 0.05, -0.7, 0.3
    arrays = (np.zeros(n_instances), np.zeros(n_features))
    objective, bound = certify_label(problem, negative, w, b, penalty, True, is_l2, is_positive, *arrays)
    kept = (is_positive | negative).astype(bool)
    y, Z = np.where(is_positive, 1.0, -1.0)[kept], np.hstack([X, np.ones((n_instances, 1))])[kept]
    u = np.append(w, b)
    a = 2 * np.maximum(0, 1 - y * (Z @ u))
    loss, force = np.sum(a * a) / 4, Z.T @ (y * a)
    if is_l2:
        assert np.isclose(objective, penalty / 2 * u @ u + loss)
        assert np.isclose(bound, a.sum() - a @ a / 4 - force @ force / (2 * penalty))
    else:
        scale = min(1, penalty / np.abs(force).max(), 2 * a.sum() / (a @ a))
        assert np.isclose(objective, penalty * np.abs(u).sum() + loss)
        assert np.isclose(bound, scale * a.sum() - scale**2 * (a @ a) / 4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--label", "40"], "--label: found '40', expected an id from 0 to 39 or a name"),
        (["--label", "label nº 0"], "--label: found 'label nº 0', expected an id: 2 have this name, 0, 39"),
        (["--feature", "-1"], "--feature: found '-1', expected an id from 0 to 299 or a name"),
        (["--export", "{}/no/x.npz"], "no does not exist"),
        (["--export", "{}/there.txt"], "there.txt: exists already"),
        (["--verify", "{}/other.txt"], "was trained on other data"),
        (["--histogram", "{}/x.nothing"], "cannot be drawn"),
    ],
)
def test_mistakes(
    options: Sequence[str],
    message: str,
    models: dict[str, Path],
    small_files: tuple[Path, Path],
    tmp_path: Path,
    capfd: Capture,
) -> None:
    if "--histogram" in options:
        pytest.importorskip("matplotlib")
    (tmp_path / "there.txt").write_text("")
    shutil.copy(small_files[1], tmp_path / "other.txt")
    arguments = [option.format(tmp_path) for option in options]
    more = QUIET if "--verify" in options else ()
    assert inspect.main([str(models["l1"]), *arguments, *more]) == 2
    assert message in capfd.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--label", "1", "--feature", "2"], "--feature: found '2', expected to be given without --label"),
        (["--export", "model.csv"], "--export: found 'model.csv', expected a name that ends in .npz or .txt"),
        (["--top", "0"], "--top: found 0, expected a whole number, at least 1"),
        (["--json", "--export", "x.npz"], "--json: found '--export', expected one of the two"),
    ],
)
def test_options_that_do_not_go_together(options: Sequence[str], message: str, capfd: Capture) -> None:
    with pytest.raises(SystemExit, match="2"):
        inspect.main(["model.h5", *options])
    assert message in capfd.readouterr().err


def test_a_dense_text_of_a_large_model_is_refused(
    models: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Capture
) -> None:
    from proxml_mpi.analysis import export

    monkeypatch.setattr(export, "MOST_NUMBERS", 1000)
    assert inspect.main([str(models["l1"]), "--export", str(tmp_path / "x.txt")]) == 2
    assert "would hold 12,040 numbers, expected at most 1,000" in capfd.readouterr().err
    assert not list(tmp_path.iterdir())
