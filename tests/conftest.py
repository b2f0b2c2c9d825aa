"""What tests share: running commands as users do, small data sets, and the end of every process."""

import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import h5py
import numpy as np
import psutil
import pytest
import scipy.sparse

from proxml_mpi.data.dataset import Dataset
from proxml_mpi.data.split import split
from proxml_mpi.data.synthetic import synthesize
from proxml_mpi.data.text_writer import write_text
from proxml_mpi.kernel_cache import choose_cache
from proxml_mpi.store.dataset_file import write_dataset

choose_cache()  # as commands do: tests that call kernels themselves must not meet those of before an edit either
BIN = Path(sys.executable).parent
MARK = "PROXML_TEST_SUITE"
LAUNCHER_PREFIXES = ("OMPI_", "PMIX_", "PMI_", "PRTE_", "SLURM_", "MPI_")
# An mpirun that was killed leaves a folder named after its number; a later one of that number would not start.
LAUNCHES = tempfile.TemporaryDirectory(prefix="proxml-")
KEPT = ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "OMPI_MCA_osc")


@pytest.fixture(scope="session", autouse=True)
def no_process_is_left_behind() -> Iterator[None]:
    """Mark whatever the suite starts, by an environment that is passed on; fail at the end when any of it is there."""
    os.environ[MARK] = str(os.getpid())
    yield
    deadline = time.monotonic() + 5
    while (left := marked_processes()) and time.monotonic() < deadline:
        time.sleep(0.1)
    commands = [" ".join(process.info["cmdline"]) for process in left]
    for process in left:
        process.kill()
    assert not commands, f"tests left processes behind: {commands}"


def marked_processes() -> list[psutil.Process]:
    """The processes that this suite has started, the dead ones left out; ended ones and other users' have no marks."""
    found = psutil.process_iter(["cmdline", "environ", "status"])
    alive = [process for process in found if process.info["status"] != psutil.STATUS_ZOMBIE]
    return [process for process in alive if (process.info["environ"] or {}).get(MARK) == str(os.getpid())]


def clean_environment(**more: str) -> dict[str, str]:
    """The environment without what MPI has left in this process, which children would take for a launcher's."""
    kept = {k: v for k, v in os.environ.items() if k in KEPT or not k.startswith(LAUNCHER_PREFIXES)}
    return kept | {"PATH": f"{BIN}:{os.environ['PATH']}"} | more


def start_command(command: Sequence[object], *, ranks: int | None = None, **environment: str) -> subprocess.Popen[str]:
    """Start a command, under mpirun when ranks are given."""
    words = [str(word) for word in command]
    if ranks is not None:
        words = ["mpirun", "--oversubscribe", "--bind-to", "none", "-n", str(ranks), *words]
        environment = {"TMPDIR": tempfile.mkdtemp(dir=LAUNCHES.name)} | environment
    return subprocess.Popen(
        words,
        env=clean_environment(**environment),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def run_command(
    command: Sequence[object], *, ranks: int | None = None, timeout: float = 300, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a command, under mpirun when ranks are given; whatever it leaves behind is ended."""
    process = start_command(command, ranks=ranks, **environment)
    try:
        out, err = process.communicate(timeout=timeout)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


@pytest.fixture(scope="session")
def run() -> Callable[..., subprocess.CompletedProcess[str]]:
    return run_command


@pytest.fixture(scope="session")
def small() -> tuple[Dataset, Dataset]:
    """A long-tailed data set of a few hundred instances, and test data."""
    return split(synthesize(480, 300, 40, seed=3, features_per_instance=20), 0.25, seed=0)


@pytest.fixture(scope="session")
def small_files(small: tuple[Dataset, Dataset], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The small data set as text files."""
    folder = tmp_path_factory.mktemp("small")
    paths = folder / "train.txt", folder / "test.txt"
    for path, part in zip(paths, small, strict=True):
        write_text(path, part)
    return paths


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real data sets, where there is one beside the project."""
    folder = Path(__file__).parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("because there is no folder ../shared/data with real data sets")
    return folder


def model_content(path: Path) -> dict[str, bytes]:
    """Everything in a model file that must not depend on ranks or threads."""
    with h5py.File(path) as file:
        names: list[str] = []
        file.visit(names.append)
        datasets = {name: file[name][()] for name in names if isinstance(file[name], h5py.Dataset)}
    datasets.pop("labels/seconds")
    return {
        name: repr(values.tolist()).encode() if values.dtype == object else values.tobytes()
        for name, values in datasets.items()
    }


def matrices(dataset: Dataset) -> tuple[scipy.sparse.csr_array, scipy.sparse.csr_array]:
    """Features and labels as scipy knows them."""
    n_pairs = len(dataset.labels.indices)
    features, labels = dataset.features, dataset.labels
    shape, label_shape = (dataset.n_instances, dataset.n_features), (dataset.n_instances, dataset.n_labels)
    return (
        scipy.sparse.csr_array((features.values, features.indices, features.indptr), shape=shape),
        scipy.sparse.csr_array((np.ones(n_pairs, np.float32), labels.indices, labels.indptr), shape=label_shape),
    )


def text_rows(matrix: scipy.sparse.csr_array, first: int = 0) -> list[str]:
    """The rows of a matrix as 'column:value column:value'."""
    rows = (slice(*matrix.indptr[row : row + 2]) for row in range(matrix.shape[0]))
    pairs = (zip(matrix.indices[row] + first, matrix.data[row], strict=True) for row in rows)
    return [" ".join(f"{column}:{float(value)!r}" for column, value in row) for row in pairs]


def write_every_format(dataset: Dataset, folder: Path) -> dict[str, Path]:
    """The same data set in every format, written by other means than ours where there are any."""
    features, labels = matrices(dataset)
    for name, matrix in (("X_Xf", features), ("X_Y", labels)):
        lines = [f"{matrix.shape[0]} {matrix.shape[1]}", *text_rows(matrix)]
        (folder / f"trn_{name}.txt").write_text("\n".join(lines) + "\n")
    for first_label, name in ((1, "libsvm"), (0, "libsvm0")):
        label_rows = (labels.indices[slice(*labels.indptr[row : row + 2])] for row in range(labels.shape[0]))
        heads = (",".join(map(str, row + first_label)) for row in label_rows)
        lines = [f"{head} {row}" for head, row in zip(heads, text_rows(features, 1), strict=True)]
        (folder / name).write_text("\n".join(lines) + "\n")
    scipy.sparse.save_npz(folder / "train_X.npz", features.tocsc())
    scipy.sparse.save_npz(folder / "train_Y.npz", labels.astype(bool).tocoo())
    write_text(folder / "data.txt", dataset)
    write_dataset(folder / "data.h5", dataset)
    names = ("trn_X_Xf.txt", "libsvm", "libsvm0", "train_X.npz", "data.txt", "data.h5")
    formats = ("two-file", "libsvm", "libsvm0", "npz", "xmc", "hdf5")
    return {format: folder / name for format, name in zip(formats, names, strict=True)}


def dense_damped(X: np.ndarray, counts: np.ndarray, damping: float) -> np.ndarray:
    """Dense instances damped as the formula says it, row by row."""
    out = X.astype(np.float64)
    for row in out:
        factors = [min(1, math.log(1 + d) / math.log(1 + damping)) ** 0.75 for d in counts]
        length, damped = np.linalg.norm(row), row * factors
        if np.linalg.norm(damped) > 0:
            row[:] = damped * (length / np.linalg.norm(damped))
    return out


def calibrated(scores: np.ndarray, n_positives: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Scores [n_instances, n_labels] calibrated as the formula says it; weights [n_labels, n_features]."""
    n, length = np.maximum(n_positives, 1.0), np.linalg.norm(weights.astype(np.float64), axis=1)
    return (n / (n + 2) + 1 / np.maximum(length, 1)) * (1 + scores) - 0.02 * np.log(n) - 1


def dense(matrix: tuple[np.ndarray, np.ndarray, np.ndarray], n_columns: int) -> np.ndarray:
    """A sparse matrix by rows as a dense one."""
    indptr, indices, values = matrix
    rows = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    out = np.zeros((len(indptr) - 1, n_columns))
    out[rows, indices] = values
    return out
