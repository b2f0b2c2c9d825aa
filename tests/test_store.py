"""The model file: what is written is read, by us and in five lines; whatever is wrong with it is named."""

from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest
import scipy.sparse
from conftest import model_content
from mpi4py import MPI
from pytest_mpi import parallel_assert

from proxml_mpi.errors import FileError, ModelError, SettingsError
from proxml_mpi.files import check_target, replace_text
from proxml_mpi.ranks.world import World
from proxml_mpi.solve.block import Block, assemble_block
from proxml_mpi.solve.problem import Outcome, Solution, unsolvable
from proxml_mpi.store import hdf5
from proxml_mpi.store.listing import list_certificates, list_file
from proxml_mpi.store.model_reader import read_header, read_labels
from proxml_mpi.store.model_writer import ModelFacts, write_model

N_LABELS, N_FEATURES = 11, 50


def make_block(first: int, end: int) -> Block:
    """Labels that depend on nothing but their ids; label 4 has no solution."""
    solutions = []
    for label in range(first, end):
        generator = np.random.default_rng(label)
        features = np.sort(generator.permutation(N_FEATURES)[: label % 5]).astype(np.int32)
        weights = generator.normal(size=len(features)).astype(np.float32)
        solution = Solution(features, weights, -1.0 - label, 0.5 * label, 1e-4, label, Outcome.converged)
        solutions.append(unsolvable(Outcome.no_positives) if label == 4 else solution)
    n_positives = np.arange(first, end) + 1
    return assemble_block(first, solutions, n_positives, np.full(end - first, 0.1))


def make_facts(**more: object) -> ModelFacts:
    settings = {"weighting": "tfidf", "normalize": True, **more}
    idf = np.linspace(0, 1, N_FEATURES, dtype=np.float32)
    counts = np.arange(N_FEATURES, dtype=np.int32)
    return ModelFacts(100, N_FEATURES, N_LABELS, "digest", "proxml-train ...", settings, idf, counts)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.h5"
    with World() as world:
        write_model(world, path, [make_block(0, N_LABELS)], make_facts(bias=True), "serial")
    return path


def test_what_is_written_is_read(model: Path) -> None:
    header, wanted = read_header(model), make_block(0, N_LABELS)
    assert (header.n_instances, header.n_features, header.n_labels) == (100, N_FEATURES, N_LABELS)
    assert header.attributes["command_line"] == "proxml-train ..." and header.attributes["bias"]
    assert np.array_equal(header.n_positives, wanted.n_positives)
    assert header.idf is not None and header.idf[-1] == 1
    assert header.feature_counts is not None and header.feature_counts.tolist() == list(range(N_FEATURES))
    for first, end in ((0, N_LABELS), (3, 7), (5, 5), (10, 11)):
        block, part = read_labels(header, first, end), make_block(first, end)
        for found, expected in zip(block[1:], part[1:], strict=True):
            assert found.dtype == expected.dtype and found.tobytes() == expected.tobytes()
    assert list(model.parent.iterdir()) == [model]


def test_five_lines_of_h5py_and_scipy_read_it(model: Path) -> None:
    with h5py.File(model) as f:
        w = f["weights"]
        shape = (f.attrs["n_labels"], f.attrs["n_features"])
        W = scipy.sparse.csr_array((w["data"][:], w["indices"][:], w["indptr"][:]), shape=shape)
        bias = f["bias"][:]
    block = make_block(0, N_LABELS)
    assert np.array_equal(W.indices, block.indices) and np.array_equal(bias, block.bias)


def test_listing_names_every_dataset(model: Path) -> None:
    text = "\n".join(list_file(model))
    assert "@data_digest" in text and "/weights/indptr" in text and "{12}" in text
    summary = "\n".join(list_certificates(make_block(0, N_LABELS)))
    assert "converged                10 labels" in summary and "no positives             1 labels" in summary


def set_value(name: str, index: int, value: float) -> Callable[[h5py.File], None]:
    def damage(file: h5py.File) -> None:
        file[name][index] = value

    return damage


def replace(name: str, array: np.ndarray) -> Callable[[h5py.File], None]:
    def damage(file: h5py.File) -> None:
        del file[name]
        file[name] = array

    return damage


def set_attribute(name: str, value: object) -> Callable[[h5py.File], None]:
    return lambda file: file.attrs.__setitem__(name, value)


DAMAGES = {
    "format": (set_attribute("format", "other"), "attribute format: found other, expected proxml-model"),
    "version": (set_attribute("format_version", 2), "attribute format_version: found 2, expected 1"),
    "count": (set_attribute("n_labels", -3), "attribute n_labels: found -3, expected a count"),
    "count type": (set_attribute("n_features", "many"), "attribute n_features: found many, expected a count"),
    "labels": (set_attribute("n_labels", 12), "weights/indptr: found 12 entries, expected 13"),
    "no bias": (lambda file: file.__delitem__("bias"), "bias: found nothing, expected a dataset"),
    "group": (lambda file: [file.__delitem__("bias"), file.create_group("bias")], "bias: found nothing"),
    "dtype": (replace("bias", np.zeros(N_LABELS)), "bias: found type float64, expected float32"),
    "length": (replace("bias", np.zeros(3, "f4")), "bias: found 3 entries, expected 11"),
    "dimensions": (replace("bias", np.zeros((N_LABELS, 2), "f4")), "bias: found 2 dimensions, expected 1"),
    "pair": (replace("weights/data", np.zeros(3, "f4")), "weights/data: found 3 entries, expected [0-9]+ as"),
    "start": (set_value("weights/indptr", 0, 1), r"weights/indptr\[0\]: found 1, expected 0"),
    "end": (set_value("weights/indptr", N_LABELS, 10**9), "the last of weights/indptr: found 1000000000"),
    "descent": (set_value("weights/indptr", 5, 19), "weights/indptr: found a descent"),
    "negative": (set_value("weights/indptr", 2, -5), "weights/indptr: found a descent"),
    "feature": (set_value("weights/indices", 2, 50), r"weights/indices: found \[50\], expected numbers from 0 to 49"),
    "negative feature": (set_value("weights/indices", 0, -1), "weights/indices: found"),
    "order": (set_value("weights/indices", 1, 49), "weights/indices: found a descent within a row"),
    "weight": (set_value("weights/data", 1, np.nan), r"weights/data: found \[nan\], expected finite numbers"),
    "infinity": (set_value("bias", 1, np.inf), r"bias: found \[inf\], expected finite numbers or -inf"),
    "outcome": (set_value("labels/outcome", 1, 9), r"labels/outcome: found \[9\], expected numbers from 0 to 3"),
    "positives": (set_value("labels/n_positives", 1, 101), r"labels/n_positives: found \[101\]"),
    "idf": (set_value("features/idf", 1, np.nan), r"features/idf: found \[nan\]"),
    "bit": (set_value("weights/data", 1, 0.75), r"labels/checksum: found label \[[0-9]+\] damaged"),
    "gap": (set_value("labels/duality_gap", 2, 0.0), r"labels/checksum: found label \[2\] damaged"),
    "attribute": (set_attribute("weighting", "none"), "the header's digest: found"),
    "feature weight": (set_value("features/idf", 1, 0.75), "the header's digest: found"),
    "counts": (set_value("features/n_instances", 1, 3), "the digest of features/n_instances: found"),
    "no counts": (lambda file: file.__delitem__("features/n_instances"), "features/n_instances: found nothing"),
    "no idf": (lambda file: file.__delitem__("features"), "the header's digest: found"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_named(model: Path, damage: str) -> None:
    change, message = DAMAGES[damage]
    with h5py.File(model, "r+") as file:
        change(file)
    with pytest.raises(ModelError, match=message):
        header = read_header(model)
        read_labels(header, 0, header.n_labels)


def test_truncated_or_foreign_files_are_refused(model: Path) -> None:
    content = model.read_bytes()
    for size in (0, 7, 100, len(content) // 2, len(content) - 1):
        model.write_bytes(content[:size])
        with pytest.raises(ModelError, match=r"model\.h5"):
            header = read_header(model)
            read_labels(header, 0, header.n_labels)
    with pytest.raises(ModelError, match="does not exist"):
        read_header(model.with_name("nothing.h5"))


def test_targets_are_checked_before_the_work(tmp_path: Path) -> None:
    check_target(tmp_path / "new.h5", overwrite=False)
    (tmp_path / "old.h5").touch()
    check_target(tmp_path / "old.h5", overwrite=True)
    with pytest.raises(FileError, match="exists already"):
        check_target(tmp_path / "old.h5", overwrite=False)
    with pytest.raises(FileError, match="is a directory"):
        check_target(tmp_path, overwrite=True)
    with pytest.raises(FileError, match="does not exist"):
        check_target(tmp_path / "no" / "model.h5", overwrite=False)
    with pytest.raises(FileError, match="cannot be"):
        replace_text(tmp_path / "no" / "report.json", "text")


@pytest.mark.skipif(hdf5.is_parallel(), reason="because this h5py is parallel")
def test_parallel_io_is_refused_where_there_is_none() -> None:
    assert not hdf5.choose_parallel("auto", 3)
    with pytest.raises(SettingsError, match="--hdf5-io"):
        hdf5.choose_parallel("parallel", 3)


def test_transfers_are_cut_into_slices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hdf5, "SLICE_BYTES", 12)
    with h5py.File(tmp_path / "slices.h5", "w") as file:
        dataset = file.create_dataset("numbers", (20,), "f4")
        hdf5.write_slice(dataset, 3, np.arange(11, dtype=np.float32))
        assert np.array_equal(hdf5.read_slice(dataset, 2, 15), [0, *range(11), 0])


@pytest.mark.parallel([1, 2, 3, 5])
@pytest.mark.parametrize("hdf5_io", ["serial", "parallel"])
def test_any_number_of_ranks_writes_the_same_file(tmp_path_factory: pytest.TempPathFactory, hdf5_io: str) -> None:
    if hdf5_io == "parallel" and not hdf5.is_parallel():
        pytest.skip("because this h5py was built without MPI")
    with World() as world:
        folder = Path(world.from_first(str(tmp_path_factory.mktemp("model")) if world.is_first else None))
        # Blocks of two labels, dealt out to the ranks like cards; rank 1 gets none when there are two and more.
        owners = [0, 2 % world.size, 0, 0, 2 % world.size, 0]
        mine = [make_block(2 * i, min(2 * i + 2, N_LABELS)) for i in (5, 4, 3, 2, 1, 0) if owners[i] == world.rank]
        write_model(world, folder / "many.h5", mine, make_facts(), hdf5_io)
        same = True
        if world.is_first:
            with World(MPI.COMM_SELF) as alone:
                write_model(alone, folder / "one.h5", [make_block(0, N_LABELS)], make_facts(), "serial")
            same = model_content(folder / "one.h5") == model_content(folder / "many.h5")
        parallel_assert(same)
