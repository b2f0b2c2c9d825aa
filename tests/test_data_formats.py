"""Formats other than XMC text: the same data from each of them, told apart by content, refused in clear words."""

import gzip
import random
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
from conftest import matrices, write_every_format
from hypothesis import given, settings
from hypothesis import strategies as st

from proxml_mpi.data.dataset import Dataset
from proxml_mpi.data.formats import Source, find_source
from proxml_mpi.data.synthetic import synthesize
from proxml_mpi.errors import DataError, FileError
from proxml_mpi.settings.fields import FORMATS
from proxml_mpi.store.sources import read_dataset, read_source, with_names, write_any


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    """Some instances without labels, some labels without instances; the last ids occur, or libsvm could not know."""
    found = synthesize(60, 50, 12, seed=1, labels_per_instance=0.9, features_per_instance=7)
    assert found.features.indices.max() == 49 and found.labels.indices.max() == 11
    assert np.any(np.diff(found.labels.indptr) == 0)
    return found


@pytest.fixture(scope="module")
def files(dataset: Dataset, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return write_every_format(dataset, tmp_path_factory.mktemp("formats"))


def test_every_format_is_covered(files: dict[str, Path]) -> None:
    assert {"auto", *files} == set(FORMATS)


@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("format", [name for name in FORMATS if name != "auto"])
def test_every_format_holds_the_same_data(
    dataset: Dataset, files: dict[str, Path], format: str, n_threads: int
) -> None:
    assert read_dataset(files[format], format, n_threads).digest == dataset.digest
    if format != "libsvm0":
        assert find_source(files[format]).format == format
        assert read_dataset(files[format], n_threads=n_threads).digest == dataset.digest


@pytest.mark.parametrize("format", ["xmc", "two-file", "libsvm"])
def test_packed_text_is_told_apart_too(dataset: Dataset, files: dict[str, Path], format: str, tmp_path: Path) -> None:
    for path in find_source(files[format]).paths:
        (tmp_path / f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
    assert read_dataset(tmp_path / f"{files[format].name}.gz").digest == dataset.digest


def test_pairs_have_two_names_or_names_that_are_alike(dataset: Dataset, files: dict[str, Path], tmp_path: Path) -> None:
    folder = files["npz"].parent
    pair = Path(f"{folder}/train_X.npz,{folder}/train_Y.npz")
    assert read_dataset(pair).digest == dataset.digest
    assert read_dataset(Path(f"{folder}/trn_X_Xf.txt,{folder}/trn_X_Y.txt")).digest == dataset.digest
    (tmp_path / "a,b.txt").write_bytes(files["xmc"].read_bytes())
    assert read_dataset(tmp_path / "a,b.txt").digest == dataset.digest
    (tmp_path / "features.npz").write_bytes(files["npz"].read_bytes())
    with pytest.raises(DataError, match=r"features\.npz: is one half of a data set \(npz\): give both as FEATURES,"):
        read_dataset(tmp_path / "features.npz")
    (tmp_path / "X.npz").write_bytes(files["npz"].read_bytes())
    with pytest.raises(DataError, match=r"X\.npz: is one half of a data set \(npz\), but there is no .*Y\.npz"):
        read_dataset(tmp_path / "X.npz")
    with pytest.raises(DataError, match="found half a pair, expected FEATURES,LABELS"):
        read_dataset(Path("X.npz,"))
    with pytest.raises(DataError, match="found the format xmc, expected npz as in"):
        read_dataset(Path(f"{folder}/train_X.npz,{files['xmc']}"))
    with pytest.raises(DataError, match="found two files, expected one for the format xmc"):
        read_dataset(Path(f"{files['xmc']},{files['xmc']}"))


@pytest.mark.parametrize(
    "line",
    ["7\n", "hello world\n", "1 2 3 4\n", "1;2 3:4\n", "\n\n", "a:1 2:3\n", "1,x 3:4\n", "\0\0\0\0"],
)
def test_undecided_content_is_named(tmp_path: Path, line: str) -> None:
    (tmp_path / "data").write_text(line)
    with pytest.raises(DataError, match=r"data:1: found .*, expected a header 'N D L'.*--format says which it is"):
        read_dataset(tmp_path / "data")


def test_a_forced_format_needs_no_guess(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("7\n2 3:1\n")
    found = read_dataset(tmp_path / "data", "libsvm")
    assert (found.n_instances, found.n_features, found.n_labels) == (2, 3, 7)
    with pytest.raises(DataError, match="data:1: header: found '7', expected three whole numbers"):
        read_dataset(tmp_path / "data", "xmc")


LIBSVM = {
    "feature 0": ("2 0:1\n", "x:1: feature id '0' is out of range, libsvm ids count from 1 .* 1 to 2147483647"),
    "label 0": ("1 1:1\n0 1:1\n", "x:2: label id '0' is out of range, libsvm ids count from 1 .*--format libsvm0"),
    "repeated": ("1 4:1 4:2\n", "x:1: feature 4 is repeated in one instance, by '4:2'"),
    "repeated label": ("3,3 4:1\n", "x:1: label 3 is repeated in one instance, in '3,3'"),
    "comment": ("1 4:1\n1 4:1 # why\n", "x:2: found '#', expected feature:value"),
    "query": ("1 qid:7 4:1\n", "x:1: found '1 qid:7 4:1', expected a header"),
    "nan": ("1 4:nan\n", "x:1: value 'nan' in '4:nan' is not finite"),
    "huge": ("1 2147483648:1\n", "x:1: feature id '2147483648' is out of range"),
}


@pytest.mark.parametrize("kind", LIBSVM)
def test_malformed_libsvm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    content, message = LIBSVM[kind]
    monkeypatch.chdir(tmp_path)
    Path("x").write_text(content)
    with pytest.raises(DataError, match=message):
        read_dataset(Path("x"))


def test_a_model_says_how_many_ids_libsvm_data_have(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("1 2:1\n")
    found = read_dataset(tmp_path / "x", shape=(9, 4))
    assert (found.n_features, found.n_labels) == (9, 4)
    (tmp_path / "x").write_text("1 10:1\n")
    with pytest.raises(DataError, match=r"x:1: feature id '10' is out of range, .* 1 to 9"):
        read_dataset(tmp_path / "x", shape=(9, 4))


TWO_FILES = {
    "header": (b"2 5 3\n", b"2 3\n\n\n", "f:1: header: found '2 5 3', expected two whole numbers"),
    "label header": (b"2 5\n\n\n", b"two 3\n\n\n", "l:1: header: 'two' is not a whole number, expected two whole"),
    "zero": (b"2 0\n\n\n", b"2 3\n\n\n", "f:1: header: found '0', expected at least 1 instance and 1 feature"),
    "empty": (b"2 5\n\n\n", b"", "l: the file is empty, expected a header of two whole numbers"),
    "heights": (b"2 5\n\n\n", b"1 3\n0:1\n", "l: found 1 instances, expected 2 as in f"),
    "short": (b"2 5\n1:1\n", b"2 3\n\n\n", "f:2: the file ends after 1 instances, the header promises 2"),
    "feature": (b"1 5\n5:1\n", b"1 3\n\n", "f:2: feature id '5' is out of range, the header allows 0 to 4"),
    "label": (b"1 5\n4:1\n", b"1 3\n3:1\n", "l:2: label id '3' is out of range, the header allows 0 to 2"),
    "label value": (b"1 5\n4:1\n", b"1 3\n0:1 2:0.5\n", "l:2: label 2 of instance 0 has the value 0.5, expected 1"),
    "no colon": (b"1 5\n4:1\n", b"1 3\n0,2\n", "l:2: found '0,2', expected label:value"),
    "repeated": (b"1 5\n4:1\n", b"1 3\n2:1 2:1\n", "l:2: label 2 is repeated in one instance"),
}


@pytest.mark.parametrize("kind", TWO_FILES)
def test_malformed_pairs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    features, labels, message = TWO_FILES[kind]
    monkeypatch.chdir(tmp_path)
    Path("f").write_bytes(features)
    Path("l").write_bytes(labels)
    with pytest.raises(DataError, match=f"^{message}"):
        read_source(Source("two-file", (Path("f"), Path("l"))))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.dictionaries(st.integers(0, 8), st.integers(1, 99), max_size=5), min_size=1, max_size=6))
def test_rows_of_a_matrix_with_or_without_leading_blanks(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[int, int]]
) -> None:
    folder = tmp_path_factory.mktemp("rows")
    for blank in ("", " ", "\t "):
        lines = [blank + " ".join(f"{column}:{value}" for column, value in row.items()) for row in rows]
        (folder / "X.txt").write_text("\n".join([f"{len(rows)} 9", *lines]) + "\n")
        (folder / "Y.txt").write_text("\n".join([f"{len(rows)} 1", *("0:1" for _ in rows)]) + "\n")
        found = read_dataset(folder / "X.txt")
        wanted = np.zeros((len(rows), 9))
        for number, row in enumerate(rows):
            wanted[number, list(row)] = list(row.values())
        assert np.array_equal(matrices(found)[0].toarray(), wanted)


def saved(path: Path, matrix: object) -> None:
    scipy.sparse.save_npz(path, matrix)


def spoiled(name: str, change: object) -> scipy.sparse.csr_matrix:
    """A matrix with something wrong in its arrays, which scipy writes as it is."""
    matrix = scipy.sparse.csr_matrix(np.array([[1.0, 0, 2], [0, 3, 0]]))
    getattr(matrix, name)[:] = change
    return matrix


NPZ = {
    "id": (spoiled("indices", [0, 7, 1]), "is no sparse matrix of scipy.sparse.save_npz: .*indices"),
    "negative id": (spoiled("indices", [0, -7, 1]), "is no sparse matrix of scipy.sparse.save_npz: .*ind"),
    "descent": (spoiled("indptr", [0, 9, 3]), "is no sparse matrix of scipy.sparse.save_npz"),
    "repeated": (spoiled("indices", [2, 2, 1]), "found 1 entries at places that have one already, expected one"),
    "nan": (spoiled("data", [1, np.nan, 1]), "matrix: row 0: found the value nan, expected finite numbers other"),
    "overflow": (spoiled("data", [1, 1e300, 1]), "matrix: row 0: found the value inf, expected finite numbers"),
    "complex": (scipy.sparse.csr_matrix(np.array([[1j]])), "found values of type complex128, expected numbers"),
    "blocks": (scipy.sparse.bsr_matrix(np.eye(4)), "found a matrix in the format bsr, expected csr, csc or coo"),
    "no rows": (scipy.sparse.csr_matrix((0, 3)), r"found the shape \(0, 3\), expected a matrix of 1 to"),
}


@pytest.mark.parametrize("kind", NPZ)
def test_malformed_npz(tmp_path: Path, kind: str) -> None:
    matrix, message = NPZ[kind]
    saved(tmp_path / "X.npz", matrix)
    saved(tmp_path / "Y.npz", scipy.sparse.csr_matrix(np.eye(2)))
    with pytest.raises(DataError, match=message):
        read_dataset(tmp_path / "X.npz")


def test_npz_files_that_are_no_matrices(tmp_path: Path) -> None:
    np.savez(tmp_path / "X.npz", a=np.arange(3))
    saved(tmp_path / "Y.npz", scipy.sparse.csr_matrix(np.eye(2)))
    with pytest.raises(DataError, match=r"is no sparse matrix of scipy\.sparse"):
        read_dataset(tmp_path / "X.npz")
    saved(tmp_path / "X.npz", scipy.sparse.csr_matrix(np.eye(3)))
    with pytest.raises(DataError, match=r"Y\.npz: found 2 instances, expected 3 as in"):
        read_dataset(tmp_path / "X.npz")
    saved(tmp_path / "Y.npz", scipy.sparse.csr_matrix(2 * np.eye(3)))
    with pytest.raises(DataError, match=r"Y\.npz: label 0 of instance 0 has the value 2.0, expected 1"):
        read_dataset(tmp_path / "X.npz")


def test_damaged_npz_never_crashes(files: dict[str, Path], tmp_path: Path, dataset: Dataset) -> None:
    rng = random.Random(3)
    content = files["npz"].read_bytes()
    (tmp_path / "Y.npz").write_bytes((files["npz"].parent / "train_Y.npz").read_bytes())
    for _ in range(150):
        damaged = bytearray(content)
        for _ in range(rng.randint(1, 4)):
            damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
        (tmp_path / "X.npz").write_bytes(damaged[: rng.choice([len(damaged), rng.randrange(4, len(damaged))])])
        try:
            found = read_dataset(tmp_path / "X.npz", "npz")
        except FileError:
            continue
        assert found.digest == dataset.digest


def test_names_come_from_files(dataset: Dataset, tmp_path: Path) -> None:
    (tmp_path / "labels").write_text("".join(f"Grüße {label}\n" for label in range(12)), encoding="utf-8")
    named = with_names(dataset, tmp_path / "labels", None)
    assert named.label_names is not None and named.label_names[3] == "Grüße 3" and named.feature_names is None
    write_any(tmp_path / "named.h5", named)
    again = read_dataset(tmp_path / "named.h5")
    assert again.label_names == named.label_names and again.feature_names is None and again.digest == dataset.digest
    with pytest.raises(DataError, match="labels: found 12 names, one a line, expected 50"):
        with_names(dataset, None, tmp_path / "labels")
