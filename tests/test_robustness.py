"""Robustness: theorem, worst cases and changed vocabularies against dense numpy, one rank against two."""

import csv
import itertools
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import h5py
import numpy as np
import pytest
import scipy.sparse
from conftest import dense, matrices

from proxml_mpi.analysis.theorem import check_label, worst_by_programs
from proxml_mpi.analysis.vocabulary import change, overlaps
from proxml_mpi.cli import analyze, predict, train
from proxml_mpi.data.dataset import Dataset
from proxml_mpi.data.weighting import Weighting
from proxml_mpi.score.metrics import BIN_ENDS, FREQUENCY_BINS

Run = Callable[..., CompletedProcess[str]]
Capture = pytest.CaptureFixture[str]
QUIET = ("--log-level", "error", "--threads", "1")


@pytest.fixture(scope="module")
def models(small_files: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """An L1 and an L2 model of different weightings; labels from 30 on are not trained in the third."""
    folder = tmp_path_factory.mktemp("models")
    kinds = {
        "l1": ("--weighting", "tfidf", "--lambda", "0.3"),
        "l2": ("--penalty", "l2", "--lambda", "0.5"),
        "part": ("--num-labels", "30"),
    }
    for kind, options in kinds.items():
        assert train.main([str(small_files[0]), str(folder / f"{kind}.h5"), *options, *QUIET]) == 0
    return {kind: folder / f"{kind}.h5" for kind in kinds}


def facts_of(capfd: Capture, *arguments: object) -> Any:
    """The JSON that the command prints."""
    capfd.readouterr()
    assert analyze.main(["robustness", *map(str, arguments), "--json", *QUIET]) == 0
    return json.loads(capfd.readouterr().out)


def dense_scores(path: Path, dataset: Dataset) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """All scores [n_instances, n_labels], the truth, and |w|_1 of every label, by dense matrices."""
    with h5py.File(path) as file:
        w, shape = file["weights"], (file.attrs["n_labels"], file.attrs["n_features"])
        W = scipy.sparse.csr_array((w["data"][:], w["indices"][:], w["indptr"][:]), shape=shape).toarray()
        bias, kind, normalize = file["bias"][:], file.attrs["weighting"], bool(file.attrs["normalize"])
        idf = file["features/idf"][:] if "features/idf" in file else None
    X = dense(Weighting(kind, normalize, idf).apply(dataset.features), dataset.n_features)
    W = W.astype(np.float64)
    return X @ W.T + bias, matrices(dataset)[1].toarray() > 0, np.abs(W).sum(axis=1)


def worst_by_corners(X: np.ndarray, y: np.ndarray, w: np.ndarray, b: float, budget: float) -> float:
    """The worst loss over the corners of the set of perturbations: one instance, all signs. A convex loss has its
    largest value at a corner."""
    losses = []
    for instance, signs in itertools.product(range(len(X)), itertools.product((-1, 1), repeat=len(w))):
        moved = X.copy()
        moved[instance] -= budget * np.array(signs)
        losses.append(np.maximum(0, 1 - y * (moved @ w + b)).sum())
    return float(max(losses))


@pytest.mark.parametrize("b", [-0.5, 0.0, 50.0])
def test_linear_programs_find_the_worst_corner(b: float) -> None:
    random = np.random.default_rng(1)
    X, w = random.random((3, 5)), random.normal(size=5)
    y = np.array([1.0, -1.0, 1.0]) if b < 50 else np.ones(3)
    found = worst_by_programs(X, y, w, b, 0.7)
    assert np.isclose(found, worst_by_corners(X, y, w, b, 0.7))
    checked = check_label(0, scipy.sparse.csr_array(X), y, w, b, 0.7)
    predicted = np.maximum(0, 1 - y * (X @ w + b)).sum() + 0.7 * np.abs(w).sum()
    assert np.isclose(checked.predicted, predicted) and np.isclose(checked.few_found, found)
    # Far beyond all margins the theorem does not hold: the loss is still 0.
    assert checked.is_separable == (b == 50) and (found < predicted - 1 if b == 50 else np.isclose(found, predicted))
    assert np.isclose(checked.attained, found)


def test_the_theorem_on_a_model(models: dict[str, Path], small_files: tuple[Path, Path], capfd: Capture) -> None:
    theorem = facts_of(capfd, models["l1"], small_files[1], "--theorem-labels", 5, "--fractions", "0")["theorem"]
    assert theorem["n_labels"] == 5 and len(theorem["labels"]) == 5
    assert theorem["largest_difference_by_linear_programs"] < 1e-9
    assert theorem["largest_difference_by_moving_one_instance"] < 1e-9
    assert facts_of(capfd, models["l1"], small_files[1], "--theorem-labels", 0, "--fractions", "0")["theorem"] is None


@pytest.mark.parametrize("kind", ["l1", "l2", "part"])
def test_worst_cases_against_dense_numpy(
    kind: str, models: dict[str, Path], small: tuple[Dataset, Dataset], small_files: tuple[Path, Path], capfd: Capture
) -> None:
    options = ("--budgets", "0,0.003,0.05,2", "--theorem-labels", 0, "--fractions", "0")
    found = facts_of(capfd, models[kind], small_files[1], *options)["models"][0]["budgets"]
    scores, truth, norm = dense_scores(models[kind], small[1])
    n_positives = np.diff(small[0].positives.indptr)
    in_bin = np.searchsorted(BIN_ENDS, n_positives)
    for worst in found:
        low, high = scores - worst["budget"] * norm, scores + worst["budget"] * norm
        wrong = np.where(truth, low <= 0, high > 0)
        assert np.isclose(worst["hamming_loss"], 100 * wrong.mean())
        assert np.isclose(worst["found"], 100 * (low > 0)[truth].mean())
        assert np.isclose(worst["false_per_instance"], (wrong & ~truth).sum() / len(truth))
        assert np.isclose(worst["margin_of_positives"], low[truth & np.isfinite(scores)].mean())
        for place, name in enumerate(FREQUENCY_BINS):
            if np.any(in_bin == place):
                part = wrong[:, in_bin == place]
                assert np.isclose(worst["by_frequency"][name]["hamming_loss"], 100 * part.mean())


def test_a_changed_vocabulary_against_dense_numpy(small: tuple[Dataset, Dataset]) -> None:
    dataset, n_features = small[1], small[1].n_features
    before = dense(dataset.features, n_features)
    dropped = {f: dense(change(dataset.features, n_features, "drop", f, 7), n_features) for f in (0.0, 0.2, 0.5, 1.0)}
    gone = {f: set(np.flatnonzero((before != X).any(axis=0)).tolist()) for f, X in dropped.items()}
    assert gone[0.0] == set() and gone[0.2] < gone[0.5] and not dropped[1.0].any()
    assert all(not X[:, sorted(gone[f])].any() for f, X in dropped.items())
    replaced = change(dataset.features, n_features, "replace", 0.2, 7)
    after = dense(replaced, n_features)
    # The columns of the share change places among themselves; all others stay.
    moved = np.flatnonzero((before != after).any(axis=0))
    share = np.random.default_rng(7).permutation(n_features)[: round(0.2 * n_features)]
    assert set(moved) <= set(share)
    assert np.array_equal(after[:, np.roll(share, -1)], before[:, share])
    assert all(np.all(np.diff(replaced.indices[a:b]) > 0) for a, b in itertools.pairwise(replaced.indptr))


def test_curves_are_what_predict_says(
    models: dict[str, Path],
    small: tuple[Dataset, Dataset],
    small_files: tuple[Path, Path],
    tmp_path: Path,
    capfd: Capture,
) -> None:
    from dataclasses import replace

    from proxml_mpi.data.text_writer import write_text

    facts = facts_of(
        capfd, models["l1"], small_files[1], "--against", models["l2"], "--fractions", "0.3", "--theorem-labels", 0
    )
    assert [model["penalty"] for model in facts["models"]] == ["l1", "l2"]
    for model, kind in zip(facts["models"], ("l1", "l2"), strict=True):
        assert [curve["kind"] for curve in model["curves"]] == ["none", "drop", "replace"]
        for curve in model["curves"]:
            features = small[1].features
            if curve["kind"] != "none":
                features = change(features, small[1].n_features, curve["kind"], 0.3, 0)
            write_text(tmp_path / "changed.txt", replace(small[1], features=features))
            metrics = tmp_path / "metrics.json"
            arguments = [
                str(models[kind]),
                str(tmp_path / "changed.txt"),
                "--metrics",
                str(metrics),
                *QUIET,
                "--damping",
                "0",
                "--no-calibrate",
            ]
            assert predict.main(arguments) == 0
            expected = json.loads(metrics.read_text())
            assert curve["metrics"] == expected["metrics"] and curve["by_frequency"] == expected["by_frequency"]


def test_overlap_against_sets(
    models: dict[str, Path], small: tuple[Dataset, Dataset], small_files: tuple[Path, Path], capfd: Capture
) -> None:
    options = ("--train", small_files[0], "--theorem-labels", 0, "--fractions", "0")
    facts = facts_of(capfd, models["l1"], small_files[1], *options)["overlap"]
    sets = [[set(np.flatnonzero(row)) for row in dense(part.features, part.n_features)] for part in small]
    labels = [matrices(part)[1].toarray() > 0 for part in small]
    in_bin = np.searchsorted(BIN_ENDS, labels[0].sum(axis=0))
    for place, name in enumerate(FREQUENCY_BINS):
        shares, distinct, known_distinct = [], 0, 0
        for label in np.flatnonzero(in_bin == place):
            known = set().union(*(sets[0][i] for i in np.flatnonzero(labels[0][:, label])))
            tested = [sets[1][i] for i in np.flatnonzero(labels[1][:, label])]
            if known and tested:
                shares += [len(words & known) / len(words) for words in tested if words]
                distinct += len(set().union(*tested))
                known_distinct += len(set().union(*tested) & known)
        assert (name in facts) == bool(shares)
        if shares:
            assert facts[name]["n_pairs"] == len(shares)
            assert np.isclose(facts[name]["share_of_features"], np.mean(shares))
            assert np.isclose(facts[name]["share_of_vocabulary"], known_distinct / distinct)


def test_overlap_of_nothing(small: tuple[Dataset, Dataset]) -> None:
    train_part, test_part = ((part.features, part.positives) for part in small)
    assert overlaps(range(0), train_part, test_part, small[0].n_features).shape == (0, 4)


def test_ranks_change_nothing(
    run: Run, models: dict[str, Path], small_files: tuple[Path, Path], tmp_path: Path, capfd: Capture
) -> None:
    arguments = [models["l1"], small_files[1], "--against", models["part"], "--train", small_files[0]]
    options = ["--fractions", "0.3", "--theorem-labels", "4", "--csv"]
    one = facts_of(capfd, *arguments, *options, tmp_path / "one.csv")
    command = ["proxml-analyze", "robustness", *arguments, *options, tmp_path / "two.csv", "--json"]
    done = run([*command, "--log-level", "error", "--threads", "2"], ranks=2)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == one
    assert (tmp_path / "one.csv").read_bytes() == (tmp_path / "two.csv").read_bytes()
    with (tmp_path / "one.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["analysis"] for row in rows} == {"budget", "none", "drop", "replace", "overlap", "theorem"}


def test_the_page_and_the_picture(
    models: dict[str, Path], small_files: tuple[Path, Path], tmp_path: Path, capfd: Capture
) -> None:
    pytest.importorskip("matplotlib")
    arguments = ["robustness", str(models["l1"]), str(small_files[1]), "--against", str(models["l2"])]
    options = ["--train", str(small_files[0]), "--plot", str(tmp_path / "curves.png"), *QUIET]
    assert analyze.main([*arguments, *options]) == 0
    out = capfd.readouterr().out
    assert "Findings: the theorem holds to" in out and "Model L1 against L2: P@5" in out and "features known" in out
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--budgets", "-1"], "--budgets: found -1.0, expected finite numbers from 0"),
        (["--fractions", "0.5,1.5"], "--fractions: found 1.5, expected numbers from 0 to 1"),
        (["--k", "0"], "--k: found 0, expected whole numbers, at least 1"),
        (["--threads", "0"], "--threads: found 0, expected a whole number, at least 1"),
        (["--seed", "-1"], "--seed: found -1, expected a whole number, at least 0"),
    ],
)
def test_wrong_options(options: Sequence[str], message: str, capfd: Capture) -> None:
    with pytest.raises(SystemExit, match="2"):
        analyze.main(["robustness", "model.h5", "test.txt", *options])
    assert message in capfd.readouterr().err


def test_mistakes_are_one_message(
    models: dict[str, Path], small_files: tuple[Path, Path], tmp_path: Path, capfd: Capture
) -> None:
    (tmp_path / "other.txt").write_text("2 3 2\n0 0:1\n1 1:1 2:1\n")
    (tmp_path / "unlabelled.txt").write_text("1 300 40\n 0:1\n")
    assert train.main([str(tmp_path / "other.txt"), str(tmp_path / "other.h5"), *QUIET]) == 0
    first, test = models["l1"], small_files[1]
    for arguments, message in (
        ([first, tmp_path / "other.txt"], "other.txt:1: found 3 features, expected 300"),
        ([first, tmp_path / "unlabelled.txt"], "unlabelled.txt: found no labels, expected some to measure by"),
        ([first, test, "--against", tmp_path / "other.h5"], "other.h5: n_features: found 3, expected 300 as in"),
        ([first, test, "--train", test, "--fractions", "0"], "l1.h5 was trained on other data"),
        ([first, test, "--csv", tmp_path / "no" / "x.csv"], "does not exist"),
    ):
        assert analyze.main(["robustness", *map(str, arguments), "--theorem-labels", "0", *QUIET]) == 2
        assert message in capfd.readouterr().err
