"""The label graph: against dense matrices, hand-worked graphs, and known spectra."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse

from proxml_mpi.analysis import graph, spectrum
from proxml_mpi.analysis.graph import count_neighbours, find_components, label_pairs, restrict, similarity
from proxml_mpi.analysis.spectrum import find_spectrum
from proxml_mpi.cli import analyze
from proxml_mpi.data.dataset import Dataset
from proxml_mpi.data.synthetic import synthesize
from proxml_mpi.errors import UserError

Run = Callable[..., CompletedProcess[str]]
Capture = pytest.CaptureFixture[str]


def pairs_of(rows: Sequence[Sequence[int]], n_labels: int) -> Any:
    """Instances x labels from the labels of every instance."""
    indptr = np.cumsum([0, *map(len, rows)])
    indices = np.concatenate([np.empty(0, np.int32), *(np.array(row, np.int32) for row in rows)])
    return scipy.sparse.csr_array((np.ones(len(indices)), indices, indptr), shape=(len(rows), n_labels))


def dense_laplacian(pairs: Any, has_loops: bool = True, is_unweighted: bool = False) -> np.ndarray:
    """The definition, entry by entry."""
    Y = pairs.toarray()
    A = Y.T @ Y
    if is_unweighted:
        A = (A > 0).astype(float)
    if not has_loops:
        np.fill_diagonal(A, 0)
    d = A.sum(axis=1)
    laplacian = -A / np.sqrt(np.outer(d, d))
    np.fill_diagonal(laplacian, 1 - np.diag(A) / d)
    return laplacian


def largest_part(pairs: Any) -> Any:
    return restrict(pairs, np.flatnonzero(find_components(pairs) == 0))


@pytest.fixture(scope="module")
def tailed() -> Dataset:
    """Labels with a tail, unseen ones and small components."""
    return synthesize(300, 50, 260, seed=4, labels_per_instance=1.7, features_per_instance=5)


@pytest.mark.parametrize("has_loops", [True, False])
@pytest.mark.parametrize("is_unweighted", [True, False])
def test_spectrum_against_the_definition(tailed: Dataset, has_loops: bool, is_unweighted: bool) -> None:
    part = largest_part(label_pairs(tailed))
    expected = scipy.linalg.eigvalsh(dense_laplacian(part, has_loops, is_unweighted))
    assert abs(expected[0]) < 1e-12 and expected[1] > 1e-6
    found = find_spectrum(similarity(part, has_loops, is_unweighted), 5, 1e-9, 100)
    assert np.allclose(found.eigenvalues, expected[1:]) and found.residuals.max() < 1e-12


@pytest.mark.parametrize("has_loops", [True, False])
def test_lanczos_finds_what_the_whole_spectrum_has(
    tailed: Dataset, has_loops: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = similarity(largest_part(label_pairs(tailed)), has_loops)
    whole = find_spectrum(part, 5, 1e-9, 100)
    monkeypatch.setattr(spectrum, "WHOLE", 0)
    found = find_spectrum(part, 5, 1e-9, 100)
    assert found.is_converged and np.allclose(found.eigenvalues, whole.eigenvalues[:5], atol=1e-12)


@pytest.mark.filterwarnings("error")
def test_what_does_not_converge_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    # A path of triangles: lambda_2 is tiny and its neighbours are close.
    part = similarity(pairs_of([[i, i + 1, i + 2] for i in range(0, 400, 2)], 401))
    exact = find_spectrum(part, 3, 1e-9, 100)
    monkeypatch.setattr(spectrum, "WHOLE", 0)
    found = find_spectrum(part, 3, 1e-14, 4)
    assert not found.is_converged and exact.is_converged
    assert found.eigenvalues[0] >= exact.eigenvalues[0] - 1e-12
    distances = np.abs(exact.eigenvalues[:, None] - found.eigenvalues[None]).min(axis=0)
    assert np.all(distances <= found.residuals + 1e-12)
    with pytest.raises(UserError, match="no eigenvalue was found after 1 restarts"):
        find_spectrum(part, 60, 1e-9, 1)


def test_known_spectra() -> None:
    # n labels in one instance: A is all ones, so that the Laplacian is I - J / n.
    assert np.allclose(find_spectrum(similarity(pairs_of([[0, 1, 2, 3]], 4)), 3, 1e-9, 9).eigenvalues, 1)
    # The complete graph without self-loops: n / (n - 1).
    found = find_spectrum(similarity(pairs_of([[0, 1, 2, 3]], 4), has_loops=False), 3, 1e-9, 9)
    assert np.allclose(found.eigenvalues, 4 / 3)
    # Two labels, a of them alone each, together c times: rows a + c, c; S = [[a + c, c], [c, a + c]] / (a + 2 c).
    rows = [[0]] * 3 + [[1]] * 3 + [[0, 1]] * 2
    assert np.allclose(find_spectrum(similarity(pairs_of(rows, 2)), 3, 1e-9, 9).eigenvalues, 1 - 3 / 7)


def test_components_by_size_and_unseen_labels() -> None:
    pairs = pairs_of([[0, 5], [], [1, 2], [2, 3], [6], [6]], 8)
    assert find_components(pairs).tolist() == [1, 0, 0, 0, -1, 1, 2, -1]
    assert find_components(pairs_of([[], []], 3)).tolist() == [-1, -1, -1]


def test_neighbours_in_pieces(tailed: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = label_pairs(tailed)
    A = (pairs.T @ pairs).toarray() > 0
    np.fill_diagonal(A, False)
    for at_once in (1, 7, 100, graph.PRODUCTS_AT_ONCE):
        monkeypatch.setattr(graph, "PRODUCTS_AT_ONCE", at_once)
        assert np.array_equal(count_neighbours(pairs), A.sum(axis=1))


def write(path: Path, rows: Sequence[Sequence[int]], n_labels: int) -> Path:
    lines = [f"{len(rows)} 1 {n_labels}", *(",".join(map(str, row)) + " 0:1" for row in rows)]
    path.write_text("\n".join(lines) + "\n")
    return path


def test_the_command(tmp_path: Path, capfd: Capture) -> None:
    path = write(tmp_path / "train.txt", [[0, 1], [1, 2], [0, 2], [3], []], 5)
    assert analyze.main(["graph", str(path), "--json"]) == 0
    facts = json.loads(capfd.readouterr().out)
    assert (facts["n_labels_seen"], facts["n_components"], facts["n_labels_alone"], facts["n_edges"]) == (4, 2, 1, 3)
    # A = I + J on three labels: degrees 4, eigenvalues of S 1, 1/4, 1/4.
    assert facts["degree"] == {"median": 4, "mean": 13 / 4, "largest": 4}
    assert facts["lambda_2"] == 0 and np.isclose(facts["lambda_2_of_largest_component"], 3 / 4)
    assert np.allclose(facts["eigenvalues"], [3 / 4, 3 / 4])
    assert analyze.main(["graph", str(path)]) == 0
    out = capfd.readouterr().out
    assert "components: 2, 1 of one label; the largest has 3 labels (75.0%)" in out
    assert out.splitlines()[-1].split() == ["5", "1", "5", "1.40", "1.40", "0", "0.75"]
    assert analyze.main(["graph", str(path), "--json", "--unweighted", "--no-self-loops"]) == 0
    facts = json.loads(capfd.readouterr().out)
    assert np.isclose(facts["lambda_2_of_largest_component"], 3 / 2) and facts["degree"]["largest"] == 2


@pytest.mark.parametrize("rows", [[[0], [1]], [[], []]])
def test_graphs_without_edges(rows: list[list[int]], tmp_path: Path, capfd: Capture) -> None:
    assert analyze.main(["graph", str(write(tmp_path / "train.txt", rows, 2)), "--json"]) == 0
    facts = json.loads(capfd.readouterr().out)
    assert facts["n_edges"] == 0 and facts["lambda_2_of_largest_component"] is None and facts["eigenvalues"] == []
    assert analyze.main(["graph", str(tmp_path / "train.txt")]) == 0
    assert "none of the largest component" in capfd.readouterr().out


def test_plot(tmp_path: Path, capfd: Capture) -> None:
    pytest.importorskip("matplotlib")
    path = write(tmp_path / "train.txt", [[0, 1], [1, 2]], 3)
    assert analyze.main(["graph", str(path), "--plot", str(tmp_path / "spectrum.png")]) == 0
    assert (tmp_path / "spectrum.png").read_bytes().startswith(b"\x89PNG")
    assert analyze.main(["graph", str(path), "--plot", str(tmp_path / "no" / "spectrum.png")]) == 2
    assert "cannot be written" in capfd.readouterr().err


def test_bibtex_as_documented(shared_data: Path, capfd: Capture) -> None:
    expected = {"": 0.0412, "--no-self-loops": 0.0566, "--unweighted": 0.2523, "--unweighted --no-self-loops": 0.2707}
    for options, lambda_2 in expected.items():
        path = shared_data / "bibtex" / "train.txt.xz"
        assert analyze.main(["graph", str(path), "--json", *options.split()]) == 0
        assert round(json.loads(capfd.readouterr().out)["lambda_2"], 4) == lambda_2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--eigenvalues", "0"], "--eigenvalues: found 0, expected a whole number, at least 1"),
        (["--tolerance", "0"], "--tolerance: found 0.0, expected a number between 0 and 1"),
    ],
)
def test_wrong_options(options: Sequence[str], message: str, capfd: Capture) -> None:
    with pytest.raises(SystemExit, match="2"):
        analyze.main(["graph", "train.txt", *options])
    assert message in capfd.readouterr().err


def test_a_missing_file_is_one_message(run: Run, tmp_path: Path) -> None:
    done = run(["proxml-analyze", "graph", tmp_path / "no.txt"])
    assert done.returncode == 2 and "no.txt" in done.stderr and "Traceback" not in done.stderr
