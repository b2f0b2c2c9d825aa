"""The two stories end to end, as users run them: same results on any number of ranks and threads."""

import csv
import json
import re
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import h5py
import numpy as np
import pytest
import scipy.sparse
from conftest import calibrated, dense, dense_damped, model_content
from napkinxc.metrics import coverage_at_k, ndcg_at_k, precision_at_k, psndcg_at_k, psprecision_at_k, recall_at_k

from proxml_mpi.data.dataset import Dataset
from proxml_mpi.data.weighting import Weighting
from proxml_mpi.score.propensity import PRESETS, inverse_propensities
from proxml_mpi.solve import newton
from proxml_mpi.solve.objective import certify
from proxml_mpi.solve.problem import Outcome, make_problem

Run = Callable[..., CompletedProcess[str]]
OPTIONS = ("--weighting", "tfidf", "--lambda", "0.3", "--lambda-exponent", "0.2")


@pytest.fixture(scope="session")
def model(small_files: tuple[Path, Path], run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model trained by one process, without mpirun."""
    path = tmp_path_factory.mktemp("model") / "model.h5"
    done = run(["proxml-train", small_files[0], path, *OPTIONS, "--threads", "1"])
    assert done.returncode == 0, done.stderr
    return path


@pytest.mark.parametrize(("ranks", "threads"), [(1, 2), (2, 1), (3, 2)])
def test_ranks_and_threads_change_no_bit_of_the_model(
    model: Path, small_files: tuple[Path, Path], run: Run, tmp_path: Path, ranks: int, threads: int
) -> None:
    path = tmp_path / "model.h5"
    report = tmp_path / "report.json"
    command = ["proxml-train", small_files[0], path, *OPTIONS, "--threads", threads, "--report", report]
    done = run(command, ranks=ranks)
    assert done.returncode == 0, done.stderr
    assert model_content(path) == model_content(model)
    facts = json.loads(report.read_text())
    assert (facts["ranks"], facts["threads"], facts["nodes"]) == (ranks, threads, 1)
    assert facts["settings"]["lambda_exponent"] == 0.2 and sum(facts["outcomes"].values()) == facts["n_labels"]
    assert facts["processor_seconds"].keys() == facts["seconds"].keys()
    assert facts["processor_seconds"]["solve"] >= 0.9 * facts["solver_seconds"] > 0
    assert sorted(p.name for p in tmp_path.iterdir()) == ["model.h5", "report.json"]


def test_the_file_holds_what_it_promises(model: Path, small: tuple[Dataset, Dataset]) -> None:
    """Every certificate is derived again, from the weights in the file and the data."""
    train, _ = small
    features = Weighting.fit(train, "tfidf", normalize=True).apply(train.features)
    problem = make_problem(*features, train.n_features)
    n_positives = np.diff(train.positives.indptr)
    with h5py.File(model) as f:
        w = f["weights"]
        weights = dense((w["indptr"][:], w["indices"][:], w["data"][:]), train.n_features)
        bias, labels = f["bias"][:], {name: f["labels"][name][:] for name in f["labels"]}
        assert f.attrs["n_instances"] == train.n_instances and f.attrs["data_digest"] == train.digest
    assert np.array_equal(labels["n_positives"], n_positives)
    assert labels["lambda"] == pytest.approx(0.3 * np.maximum(n_positives, 1) ** 0.2)
    scores, gradient = np.zeros(train.n_instances), np.zeros(train.n_features)
    prepared = newton.prepare(problem)
    work = newton.workspace(prepared)
    for label in np.flatnonzero(n_positives):
        positives = train.positives.indices[slice(*train.positives.indptr[label : label + 2])]
        is_positive = np.zeros(train.n_instances, np.uint8)
        is_positive[positives] = 1
        objective, dual = certify(
            problem, weights[label], bias[label], is_positive, labels["lambda"][label], True, scores, gradient
        )
        assert labels["objective"][label] == pytest.approx(objective, rel=1e-9)
        # What the file calls a bound of the optimum, and what the weights yield as one, lie below what can be attained.
        best = newton.solve(prepared, work, positives, labels["lambda"][label], 1e-9).objective
        assert max(dual, labels["objective"][label] - labels["duality_gap"][label]) <= best + 1e-9
        if labels["outcome"][label] == Outcome.converged:
            assert labels["duality_gap"][label] <= 1e-3 * n_positives[label]


def predictions(path: Path) -> list[list[tuple[int, float]]]:
    lines = path.read_text().splitlines()[1:]
    return [[(int(a), float(b)) for a, b in (pair.split(":") for pair in line.split())] for line in lines]


@pytest.fixture(scope="session")
def predicted(model: Path, small_files: tuple[Path, Path], run: Run) -> Path:
    """A folder with the predictions and metrics of one process."""
    command = ["proxml-predict", model, small_files[1], "--output", model.parent / "one.txt"]
    done = run([*command, "--metrics", model.parent / "one.json"])
    assert done.returncode == 0, done.stderr
    assert re.search(r"^PSP( +\d+\.\d\d){3}$", done.stdout, re.MULTILINE), done.stdout
    return model.parent


def test_predictions_are_those_of_dense_arithmetic(
    model: Path, predicted: Path, small: tuple[Dataset, Dataset]
) -> None:
    train, test = small
    features = Weighting.fit(train, "tfidf", normalize=True).apply(test.features)
    with h5py.File(model) as f:
        w = f["weights"]
        shape = (train.n_labels, train.n_features)
        W = scipy.sparse.csr_array((w["data"][:], w["indices"][:], w["indptr"][:]), shape=shape).toarray()
        counts = np.count_nonzero(dense(train.features, train.n_features), axis=0)
        assert np.array_equal(f["features/n_instances"][:], counts) and counts.min() < 63 < counts.max()
        X = dense_damped(dense(features, train.n_features), counts, 63)
        scores = calibrated(X @ W.T.astype(np.float64) + f["bias"][:], f["labels/n_positives"][:], W)
    rounded = scores.astype(np.float32)
    best = np.lexsort((np.broadcast_to(np.arange(train.n_labels), scores.shape), -rounded), axis=1)[:, :5]
    for i, row in enumerate(predictions(predicted / "one.txt")):
        assert [label for label, _ in row] == best[i].tolist()
        assert [score for _, score in row] == pytest.approx(scores[i, best[i]], rel=1e-6, abs=2e-6)


@pytest.mark.parametrize(("ranks", "threads", "per_round"), [(1, 2, 100_000), (2, 1, 17), (3, 2, 50), (5, 1, 30)])
def test_ranks_threads_and_rounds_change_no_bit_of_the_predictions(
    model: Path,
    predicted: Path,
    small_files: tuple[Path, Path],
    run: Run,
    tmp_path: Path,
    ranks: int,
    threads: int,
    per_round: int,
) -> None:
    text, metrics = tmp_path / "many.txt", tmp_path / "many.json"
    command = ["proxml-predict", model, small_files[1], "--output", text, "--metrics", metrics, "--threads", threads]
    done = run([*command, "--instances-per-round", per_round], ranks=ranks)
    assert done.returncode == 0, done.stderr
    assert text.read_bytes() == (predicted / "one.txt").read_bytes()
    one, many = (json.loads(path.read_text()) for path in (predicted / "one.json", metrics))
    assert one["metrics"] == many["metrics"] and one["by_frequency"] == many["by_frequency"]
    assert many["ranks"] == ranks and many["ranking"] == "plain" and many["k"] == [1, 3, 5]
    assert one["damping"] == many["damping"] == 63


def test_metrics_equal_napkinxc_s(model: Path, predicted: Path, small: tuple[Dataset, Dataset]) -> None:
    train, test = small
    metrics = json.loads((predicted / "one.json").read_text())["metrics"]
    lists = [[label for label, _ in row] for row in predictions(predicted / "one.txt")]
    truth = [row.tolist() for row in np.split(test.labels.indices, test.labels.indptr[1:-1])]
    weights = inverse_propensities(np.diff(train.positives.indptr), train.n_instances, PRESETS["other"])
    theirs = {
        "P": precision_at_k(truth, lists, k=5),
        "nDCG": ndcg_at_k(truth, lists, k=5),
        "PSP": psprecision_at_k(truth, lists, weights, k=5),
        "PSnDCG": psndcg_at_k(truth, lists, weights, k=5),
        "recall": recall_at_k(truth, lists, k=5),
        "coverage": coverage_at_k(truth, lists, k=5),
    }
    for name, values in theirs.items():
        for k in (1, 3, 5):
            assert metrics[f"{name}@{k}"] == pytest.approx(100 * values[k - 1], rel=1e-9), (name, k)


def test_csv_gets_one_more_row_each_run(model: Path, small_files: tuple[Path, Path], run: Run, tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    command = ["proxml-predict", model, small_files[1], "--metrics", path]
    assert run([*command, "--skip-unlabelled"]).returncode == 0
    assert run([*command, "--rerank-by-propensity", "--propensity", "wikipedia"]).returncode == 0
    first, second = csv.DictReader(path.open())
    assert (first["ranking"], second["ranking"]) == ("plain", "propensity")
    assert first["propensity_a"] == "0.55" and second["propensity_a"] == "0.5"
    assert first["P@1"] == second["P@1"] and first["k"] == "1 3 5"
    done = run([*command, "--k", "1,2"])
    assert done.returncode == 2 and "has other columns" in done.stderr


@pytest.mark.parametrize("ranks", [None, 2])
def test_lists_scored_by_propensity(
    ranks: int | None,
    model: Path,
    small: tuple[Dataset, Dataset],
    small_files: tuple[Path, Path],
    run: Run,
    tmp_path: Path,
) -> None:
    metrics, plain, scored = tmp_path / "metrics.json", tmp_path / "plain.txt", tmp_path / "scored.txt"
    command = ["proxml-predict", model, small_files[1]]
    assert run([*command, "--top-k", "20", "--output", plain]).returncode == 0
    command.append("--score-by-propensity")
    done = run([*command, "--metrics", metrics, "--output", scored], ranks=ranks)
    assert done.returncode == 0 and "all metrics on lists scored by propensity" in done.stdout, done.stderr
    assert json.loads(metrics.read_text())["ranking"] == "score by propensity"
    inverse = inverse_propensities(np.diff(small[0].positives.indptr), small[0].n_instances, PRESETS["other"])
    for before, after in zip(predictions(plain), predictions(scored), strict=True):
        expected = {label: max(0.0, 1 + score) ** 2 * inverse[label] for label, score in before}
        best = sorted(expected.values(), reverse=True)[:5]
        assert [score for _, score in after] == pytest.approx(best, rel=1e-5, abs=1e-6)
        assert all(score == pytest.approx(expected[label], rel=1e-5, abs=1e-6) for label, score in after)
    refused = run([*command, "--rerank-by-propensity"])
    assert refused.returncode == 2 and "not together with --rerank-by-propensity" in refused.stderr


def test_bibtex_is_as_good_as_it_must_be(shared_data: Path, run: Run, tmp_path: Path) -> None:
    model, metrics = tmp_path / "bibtex.h5", tmp_path / "bibtex.json"
    command = ["proxml-train", shared_data / "bibtex" / "train.txt.xz", model, "--weighting", "tfidf", "--lambda", "1"]
    assert run(command, ranks=2).returncode == 0
    command = ["proxml-predict", model, shared_data / "bibtex" / "test.txt.xz", "--metrics", metrics]
    assert run(command, ranks=2).returncode == 0
    found = json.loads(metrics.read_text())["metrics"]
    for name, least in (("P@1", 63.5), ("P@3", 38.5), ("P@5", 28.0), ("PSP@5", 57.0)):
        assert found[name] >= least
