"""The Python interface: the bits of the command line, without MPI."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import h5py
import numpy as np
import pytest
import scipy.sparse
from conftest import clean_environment

import proxml_mpi
from proxml_mpi.data.dataset import Dataset
from proxml_mpi.errors import DataError, ModelError

Run = Callable[..., CompletedProcess[str]]
README = Path(__file__).parents[1] / "README.md"


@pytest.fixture(scope="module")
def folder(small_files: tuple[Path, Path], run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model, and predictions of the command line on three ranks."""
    folder = tmp_path_factory.mktemp("api")
    done = run(["proxml-train", small_files[0], folder / "model.h5", "--weighting", "tfidf", "--lambda", "0.3"])
    assert done.returncode == 0, done.stderr
    done = run(["proxml-predict", folder / "model.h5", small_files[1], "--output", folder / "p.h5"], ranks=3)
    assert done.returncode == 0, done.stderr
    return folder


def features(data: Dataset) -> "scipy.sparse.csr_array":
    indptr, indices, values = data.features
    return scipy.sparse.csr_array((values, indices, indptr), shape=(data.n_instances, data.n_features))


@pytest.mark.parametrize("convert", [lambda X: X, lambda X: X.tocsc(), lambda X: X.tocoo(), lambda X: X.toarray()])
def test_predictions_are_those_of_the_command(
    folder: Path, small: tuple[Dataset, Dataset], convert: Callable[..., object]
) -> None:
    model = proxml_mpi.load_model(folder / "model.h5")
    X = convert(features(small[1]))
    labels, scores = model.predict(X, k=5, threads=2)
    with h5py.File(folder / "p.h5") as file:
        assert labels.tobytes() == file["labels"][:].tobytes()
        assert scores.tobytes() == file["scores"][:].tobytes()
    everything = model.decision_function(X)
    assert np.take_along_axis(everything, labels, axis=1).tobytes() == scores.tobytes()
    assert np.array_equal(model.decision_function(X, [30, 2, 2]), everything[:, [30, 2, 2]])
    assert len(model.predict(X, k=50).labels[0]) == 50


def test_a_vector_is_one_instance_and_the_input_stays(folder: Path, small: tuple[Dataset, Dataset]) -> None:
    model = proxml_mpi.load_model(str(folder / "model.h5"))
    X = features(small[1])
    before = X.copy()
    assert model.predict(X[[4]].toarray()[0]).labels.tolist() == [model.predict(X).labels[4].tolist()]
    assert (before != X).nnz == 0
    shuffled = X[[4]]
    order = np.random.default_rng(0).permutation(shuffled.nnz)
    shuffled = scipy.sparse.csr_array((shuffled.data[order], shuffled.indices[order], shuffled.indptr), X[[4]].shape)
    assert model.predict(shuffled).scores.tobytes() == model.predict(X[[4]]).scores.tobytes()


def test_facts_of_the_model(folder: Path) -> None:
    model = proxml_mpi.load_model(folder / "model.h5")
    assert model.labels == range(40) and (model.n_features, model.n_instances) == (300, 360)
    with h5py.File(folder / "model.h5") as file:
        assert np.array_equal(model.certificates.duality_gap, file["labels/duality_gap"][:])
        w = file["weights"]
        weights = scipy.sparse.csr_array((w["data"][:], w["indices"][:], w["indptr"][:]), shape=(40, 300))
    assert (model.weights != weights).nnz == 0


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.ones((2, 299)), r"found the shape \(2, 299\), expected 300 features a row"),
        (np.ones((1, 1, 300)), "found the shape"),
        (np.full((1, 300), np.nan), "found nan or infinity"),
        (np.full((1, 300), np.inf), "found nan or infinity"),
        (np.full((1, 300), "x"), "expected numbers"),
        (np.ones((1, 300), complex), "expected numbers"),
    ],
)
def test_features_that_cannot_be_used(folder: Path, X: np.ndarray, message: str) -> None:
    model = proxml_mpi.load_model(folder / "model.h5")
    for use in (model.predict, model.decision_function):
        with pytest.raises(ValueError, match=message):
            use(X)


def test_other_mistakes(folder: Path, tmp_path: Path) -> None:
    model, X = proxml_mpi.load_model(folder / "model.h5"), np.ones((1, 300))
    with pytest.raises(ValueError, match="expected whole numbers from 1"):
        model.predict(X, k=0)
    for labels in ([40], [-1], [0.5], [[1]]):
        with pytest.raises(ValueError, match="labels: found"):
            model.decision_function(X, labels)
    with pytest.raises(DataError, match="expected counts of at least 1"):
        model.predict(0.5 * X)
    with pytest.raises(ModelError, match="does not exist"):
        proxml_mpi.load_model(tmp_path / "no.h5")
    for damping in (-1, np.nan, np.inf):
        with pytest.raises(ValueError, match="damping: found"):
            proxml_mpi.load_model(folder / "model.h5", damping=damping)
    with pytest.raises(AttributeError, match="has no attribute 'load_modell'"):
        proxml_mpi.load_modell  # noqa: B018


def test_mpi_is_not_needed(folder: Path) -> None:
    script = (
        "import sys; sys.modules['mpi4py'] = None\n"
        "import proxml_mpi\n"
        "assert not {'numpy', 'numba', 'h5py'} & sys.modules.keys()\n"
        "model = proxml_mpi.load_model(sys.argv[1])\n"
        "print(model.predict([[1.0] * 300]).labels.shape)\n"
    )
    command = [sys.executable, "-c", script, folder / "model.h5"]
    done = subprocess.run(command, env=clean_environment(), capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout == "(1, 5)\n", done.stderr


def test_the_example_of_the_readme_runs(folder: Path) -> None:
    examples = re.findall(r"^```python\n(.*?)^```", README.read_text(), re.DOTALL | re.MULTILINE)
    example = next((text for text in examples if "proxml_mpi.load_model" in text), None)
    if example is None:
        pytest.skip("because README.md has no example of load_model")
    command = [sys.executable, "-c", example]
    done = subprocess.run(command, cwd=folder, env=clean_environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 3
