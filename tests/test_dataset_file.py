"""The dataset file: what is written is read, alone and into shared memory; whatever is wrong with it is named."""

import random
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import h5py
import numpy as np
import pytest
import scipy.sparse
from conftest import matrices, model_content, write_every_format
from mpi4py import MPI
from pytest_mpi import parallel_assert

from proxml_mpi.data.dataset import Dataset
from proxml_mpi.data.synthetic import synthesize
from proxml_mpi.data.weighting import Weighting
from proxml_mpi.errors import DataError, FileError, UserError
from proxml_mpi.loading import load
from proxml_mpi.ranks.world import World
from proxml_mpi.settings.train import TrainSettings
from proxml_mpi.solve.problem import make_problem
from proxml_mpi.store.dataset_file import read_dataset_file, write_dataset

Run = Callable[..., CompletedProcess[str]]


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    return synthesize(40, 30, 9, seed=5, features_per_instance=6)


@pytest.fixture
def path(dataset: Dataset, tmp_path: Path) -> Path:
    write_dataset(tmp_path / "data.h5", dataset)
    return tmp_path / "data.h5"


def test_both_ways_are_in_the_file(path: Path, dataset: Dataset) -> None:
    assert read_dataset_file(path).digest == dataset.digest
    features, labels = matrices(dataset)
    with h5py.File(path) as file:
        for group, matrix in (("features/by_feature", features), ("labels/by_label", labels)):
            columns = matrix.tocsc()
            columns.sort_indices()
            assert np.array_equal(file[group]["indptr"], columns.indptr)
            assert np.array_equal(file[group]["indices"], columns.indices)
        assert np.array_equal(file["features/by_feature/values"], features.tocsc().data)
        assert file.attrs["format"] == "proxml-dataset" and file.attrs["format_version"] == 1
    assert [entry.name for entry in path.parent.iterdir()] == ["data.h5"]
    with pytest.raises(FileError, match="cannot be written"):
        write_dataset(path.parent / "nowhere" / "data.h5", dataset)


def set_value(name: str, index: int, value: float) -> Callable[[h5py.File], None]:
    def damage(file: h5py.File) -> None:
        file[name][index] = value

    return damage


def replace(name: str, array: object) -> Callable[[h5py.File], None]:
    def damage(file: h5py.File) -> None:
        if name in file:
            del file[name]
        file[name] = array

    return damage


def set_attribute(name: str, value: object) -> Callable[[h5py.File], None]:
    return lambda file: file.attrs.__setitem__(name, value)


ROWS, COLUMNS, LABELS, POSITIVES = (
    "features/by_instance",
    "features/by_feature",
    "labels/by_instance",
    "labels/by_label",
)
DAMAGES = {
    "format": (
        set_attribute("format", "proxml-model"),
        "attribute format: found proxml-model, expected proxml-dataset",
    ),
    "version": (set_attribute("format_version", 2), "attribute format_version: found 2, expected 1"),
    "count": (set_attribute("n_labels", -3), "attribute n_labels: found -3, expected a count"),
    "count type": (set_attribute("n_features", "many"), "attribute n_features: found many, expected a count"),
    "fewer features": (
        set_attribute("n_features", 29),
        r"by_feature/indptr: found the shape \(31,\), expected \(30,\)",
    ),
    "digest": (set_attribute("data_digest", "0"), "attribute data_digest: found 0, expected [0-9a-f]{32}"),
    "no digest": (set_attribute("data_digest", 7), "attribute data_digest: found 7, expected a digest"),
    "missing": (
        lambda file: file.__delitem__(f"{COLUMNS}/values"),
        "by_feature/values: found nothing, expected a data",
    ),
    "group": (lambda file: file.__delitem__("labels"), "labels/by_instance/indptr: found nothing"),
    "dtype": (replace(f"{ROWS}/values", np.zeros(3)), "values: found type float64, expected float32"),
    "dimensions": (
        replace(f"{LABELS}/indptr", np.zeros((41, 1), "i8")),
        r"found the shape \(41, 1\), expected \(41,\)",
    ),
    "start": (set_value(f"{ROWS}/indptr", 0, 1), "by_instance/indptr: found 1 at 0, expected 0"),
    "end": (set_value(f"{LABELS}/indptr", 40, 10**9), "labels/by_instance/indptr: found 1000000000 at 40, expected"),
    "descent": (set_value(f"{ROWS}/indptr", 5, -1), "indptr: found a descent from [0-9]+ to -1 at 4"),
    "feature": (set_value(f"{ROWS}/indices", 2, 30), "row 0: found id 30, expected ids from 0 to 29"),
    "negative": (
        set_value(f"{COLUMNS}/indices", 0, -1),
        "features/by_feature: row 0: found id -1, expected ids from 0",
    ),
    "instance": (set_value(f"{POSITIVES}/indices", -1, 40), "labels/by_label: row 8: found id 40, expected ids from 0"),
    "label": (set_value(f"{LABELS}/indices", 0, 2**31 - 1), "labels/by_instance: row 0: found id 2147483647"),
    "order": (
        set_value(f"{ROWS}/indices", 0, 29),
        "features/by_instance: row 0: found id [0-9]+ after 29, expected asc",
    ),
    "nan": (set_value(f"{ROWS}/values", 3, np.nan), "row 0: found the value nan, expected finite numbers other than 0"),
    "zero": (set_value(f"{COLUMNS}/values", 0, 0), "features/by_feature: row 0: found the value 0.0"),
    "other value": (
        set_value(f"{COLUMNS}/values", 0, 77),
        "features/by_feature: row 0: found other entries than by_in",
    ),
    "other rows": (
        set_value(f"{ROWS}/values", 0, 77),
        "features/by_feature: row [0-9]+: found other entries than by_in",
    ),
    "names": (replace("names/labels", np.arange(9)), "names/labels: found something else, expected 9 strings"),
    "size of nothing": (
        lambda file: [file.__delitem__(f"{POSITIVES}/indptr"), file.create_dataset(f"{POSITIVES}/indptr", (10,), "i8")],
        "/labels/by_label/indptr: found 0 bytes in the file, expected 80",
    ),
    "few names": (replace("names/labels", ["a", "b"]), "names/labels: found something else, expected 9 strings"),
}


def settings_for(path: Path, **more: object) -> TrainSettings:
    return TrainSettings(train=path, model=path.with_suffix(".model"), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", DAMAGES)
def test_damage_is_named_on_both_roads(path: Path, kind: str) -> None:
    change, message = DAMAGES[kind]
    with h5py.File(path, "r+") as file:
        change(file)
    with pytest.raises(FileError, match=message):
        read_dataset_file(path)
    with World() as world, pytest.raises(UserError, match=message):
        load(settings_for(path), world, 1)


def test_flipped_bits_and_truncation_never_crash(path: Path, dataset: Dataset) -> None:
    rng = random.Random(8)
    content = path.read_bytes()
    n_refused = 0
    for _ in range(200):
        damaged = bytearray(content)
        for _ in range(rng.randint(1, 3)):
            damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
        path.write_bytes(damaged[: rng.choice([len(damaged), len(damaged), rng.randrange(len(damaged))])])
        try:
            assert read_dataset_file(path).digest == dataset.digest
        except FileError:
            n_refused += 1
    assert n_refused > 50


def check_loaded(world: World, path: Path, dataset: Dataset, kind: str, normalize: bool) -> None:
    """What is in shared memory is what the obvious road makes of the data set."""
    loaded = load(settings_for(path, weighting=kind, normalize=normalize), world, 1)
    weighting = Weighting.fit(dataset, kind, normalize)
    wanted = make_problem(*weighting.apply(dataset.features), dataset.n_features)
    same = [np.array_equal(a, b) and a.dtype == b.dtype for a, b in zip(loaded.problem, wanted, strict=True)]
    parallel_assert(all(same))
    positives = zip(loaded.positives, dataset.positives, strict=True)
    parallel_assert(all(np.array_equal(a, b) for a, b in positives))
    parallel_assert(loaded.facts.digest == dataset.digest)
    counts = np.count_nonzero(matrices(dataset)[0].toarray(), axis=0).astype(np.int32)
    parallel_assert(loaded.facts.feature_counts.dtype == np.int32)
    parallel_assert(np.array_equal(loaded.facts.feature_counts, counts))
    parallel_assert((loaded.facts.idf is None) == (kind == "none"))
    if loaded.facts.idf is not None:
        parallel_assert(np.array_equal(loaded.facts.idf, weighting.idf))


def with_a_word_in_every_instance() -> Dataset:
    """Feature 3 is everywhere: tfidf gives it the weight 0 and its entries vanish."""
    dataset = synthesize(40, 30, 9, seed=5, features_per_instance=6)
    matrix = matrices(dataset)[0].tolil()
    matrix[:, 3] = 2
    rows = scipy.sparse.csr_array(matrix, dtype=np.float32)
    features = type(dataset.features)(rows.indptr.astype(np.int64), rows.indices.astype(np.int32), rows.data)
    return Dataset(features, dataset.labels, 30, 9)


@pytest.mark.parallel([1, 2, 3])
@pytest.mark.parametrize(("kind", "normalize"), [("none", False), ("none", True), ("tfidf", True), ("tfidf", False)])
@pytest.mark.parametrize("n_nodes", [1, 2])
def test_every_format_loads_into_shared_memory(
    tmp_path_factory: pytest.TempPathFactory, kind: str, normalize: bool, n_nodes: int
) -> None:
    """One node, or two that are simulated by splitting the ranks."""
    comm = MPI.COMM_WORLD
    folder = Path(comm.bcast(str(tmp_path_factory.mktemp("load")) if comm.rank == 0 else None))
    plain, everywhere = synthesize(40, 30, 9, seed=5, features_per_instance=6), with_a_word_in_every_instance()
    paths = write_every_format(plain, folder) if comm.rank == 0 else None
    paths = comm.bcast(paths)
    if comm.rank == 0:
        write_dataset(folder / "everywhere.h5", everywhere)
    comm.Barrier()
    node = comm.Split(comm.rank % n_nodes, comm.rank) if n_nodes > 1 else None
    with World(node=node) as world:
        for format in ("xmc", "hdf5", "npz", "two-file", "libsvm"):
            check_loaded(world, paths[format], plain, kind, normalize)
        check_loaded(world, folder / "everywhere.h5", everywhere, kind, normalize)


@pytest.mark.parametrize("format", ["hdf5", "libsvm"])
def test_a_run_resumes_with_another_format_of_the_same_data(
    format: str, small: tuple[Dataset, Dataset], run: Run, tmp_path: Path
) -> None:
    paths = write_every_format(small[0], tmp_path)
    options = ("--weighting", "tfidf", "--threads", 1, "--max-iterations", 20)
    done = run(["proxml-train", paths["xmc"], tmp_path / "one.h5", *options])
    assert done.returncode == 0, done.stderr
    done = run(["proxml-train", paths["xmc"], tmp_path / "two.h5", *options, "--time-limit", "0.001s"])
    assert done.returncode == 75, done.stderr
    done = run(["proxml-train", paths[format], tmp_path / "two.h5", *options, "--resume"], ranks=2)
    assert done.returncode == 0, done.stderr
    assert model_content(tmp_path / "two.h5") == model_content(tmp_path / "one.h5")


def test_names_travel_into_the_model(small: tuple[Dataset, Dataset], run: Run, tmp_path: Path) -> None:
    train, test = small
    write_dataset(tmp_path / "train.h5", train)
    write_dataset(tmp_path / "test.h5", test)
    for name, count in (("labels", train.n_labels), ("features", train.n_features)):
        (tmp_path / name).write_text("".join(f"Wörter {name} {i}\n" for i in range(count)), encoding="utf-8")
    names = ("--label-names", tmp_path / "labels", "--feature-names", tmp_path / "features")
    command = ["proxml-train", tmp_path / "train.h5", tmp_path / "model.h5", "--max-iterations", 5]
    assert run([*command, *names], ranks=2).returncode == 0
    with h5py.File(tmp_path / "model.h5") as file:
        assert file["names/labels"].asstr()[7] == "Wörter labels 7" and len(file["names/features"]) == train.n_features
    done = run([*command, "--overwrite", "--label-names", tmp_path / "features"], ranks=2)
    assert done.returncode == 2 and f"found {train.n_features} names, one a line, expected" in done.stderr
    convert = ["proxml-data", "convert", tmp_path / "train.h5", tmp_path / "named.h5", *names]
    assert run(convert).returncode == 0
    done = run(["proxml-train", tmp_path / "named.h5", tmp_path / "model2.h5", "--max-iterations", 5])
    assert done.returncode == 0, done.stderr
    assert model_content(tmp_path / "model.h5") == model_content(tmp_path / "model2.h5")
    done = run(["proxml-predict", tmp_path / "model.h5", tmp_path / "test.h5"], ranks=2)
    assert done.returncode == 0, done.stderr


def test_a_model_is_no_data_set(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file.attrs["format"] = "proxml-model"
    with pytest.raises(DataError, match="attribute format: found proxml-model, expected proxml-dataset"):
        read_dataset_file(path)
