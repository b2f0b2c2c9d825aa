"""The dataset file, format_version 1: a data set read at the speed of the disk, both ways.

/                               attributes: format = "proxml-dataset", format_version, creator, created,
                                n_instances, n_features, n_labels, names (which there are),
                                data_digest (that of the model file)
/features/by_instance/indptr    int64 [n_instances + 1]     CSR: ids ascending, no zeros
/features/by_instance/indices   int32 [n_entries]
/features/by_instance/values    float32 [n_entries]
/features/by_feature/...        the same by column: indptr int64 [n_features + 1], indices, values
/labels/by_instance/...         indptr int64 [n_instances + 1], indices int32 [n_pairs]
/labels/by_label/...            indptr int64 [n_labels + 1], indices int32 [n_pairs]
/names/labels, /names/features  strings, when known; attribute digest
"""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np

from proxml_mpi import __version__
from proxml_mpi.data.check_kernels import find_difference, transpose
from proxml_mpi.data.checks import NO_VALUES, check_entries, check_indptr
from proxml_mpi.data.complaints import Complain, insist
from proxml_mpi.data.dataset import Dataset, Lists, Matrix
from proxml_mpi.errors import DataError
from proxml_mpi.files import partial_name, put_in_place
from proxml_mpi.store.hdf5 import check_stored, read_slice, reading, write_slice, writing
from proxml_mpi.store.heaps import check_heaps
from proxml_mpi.store.names import Names, names_in, write_names

FORMAT = "proxml-dataset"
FORMAT_VERSION = 1
ROWS, COLUMNS, LABELS, POSITIVES = (
    "features/by_instance",
    "features/by_feature",
    "labels/by_instance",
    "labels/by_label",
)
DTYPES: dict[str, np.dtype[Any]] = {"indptr": np.dtype("i8"), "indices": np.dtype("i4"), "values": np.dtype("f4")}
ARRAYS = tuple(
    f"{group}/{name}"
    for group in (ROWS, COLUMNS, LABELS, POSITIVES)
    for name in DTYPES
    if name != "values" or group in (ROWS, COLUMNS)
)


class DatasetHeader(NamedTuple):
    """The facts of a dataset file."""

    path: Path
    n_instances: int
    n_features: int
    n_labels: int
    n_entries: int  # of the features
    n_pairs: int  # of instances and labels
    digest: str

    def groups(self) -> dict[str, tuple[int, int, bool]]:
        """Return the rows, entries and whether there are values of every group of arrays."""
        return {
            ROWS: (self.n_instances, self.n_entries, True),
            COLUMNS: (self.n_features, self.n_entries, True),
            LABELS: (self.n_instances, self.n_pairs, False),
            POSITIVES: (self.n_labels, self.n_pairs, False),
        }


def write_dataset(path: Path, dataset: Dataset) -> None:
    """Write a data set, under a temporary name until complete."""
    columns = Matrix(
        np.empty(dataset.n_features + 1, np.int64),
        np.empty_like(dataset.features.indices),
        np.empty_like(dataset.features.values),
    )
    transpose(*dataset.features, *columns)
    temporary = partial_name(path)
    groups: dict[str, Matrix | Lists]
    groups = {ROWS: dataset.features, COLUMNS: columns, LABELS: dataset.labels, POSITIVES: dataset.positives}
    try:
        with writing(path), h5py.File(temporary, "w") as file:
            _write_attributes(file, dataset)
            for group, arrays in groups.items():
                for name, array in arrays._asdict().items():
                    target = file.create_dataset(f"{group}/{name}", array.shape, DTYPES[name])
                    write_slice(target, 0, array)
            write_names(file, Names(dataset.label_names, dataset.feature_names))
        with writing(path):
            put_in_place(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def read_dataset_header(path: Path) -> DatasetHeader:
    """Read the facts of a dataset file, and compare the shape and type of everything in it with them."""
    with reading(path, DataError, "dataset") as file:
        check_heaps(path, file)
        attributes = dict(file.attrs)
        for name, expected in (("format", FORMAT), ("format_version", FORMAT_VERSION)):
            _require(path, attributes.get(name) == expected, f"attribute {name}", attributes.get(name), expected)
        n_instances, n_features, n_labels = (
            _count(path, attributes, name) for name in ("n_instances", "n_features", "n_labels")
        )
        digest = attributes.get("data_digest")
        _require(path, isinstance(digest, str), "attribute data_digest", digest, "a digest")
        found = {name: file.get(name) for name in ARRAYS}
        for name, dataset in found.items():
            _require(path, isinstance(dataset, h5py.Dataset), name, "nothing", "a dataset")
        n_entries, n_pairs = (found[f"{group}/indices"].size for group in (ROWS, LABELS))
        header = DatasetHeader(path, n_instances, n_features, n_labels, n_entries, n_pairs, str(digest))
        for name, dataset in found.items():
            _check_shape(header, name, dataset)
            check_stored(dataset)
    return header


def read_dataset_file(path: Path, complain: Complain = insist) -> Dataset:
    """Read a whole dataset file and check all of it: ranges, order, both ways alike, digest."""
    header = read_dataset_header(path)
    with reading(path, DataError, "dataset") as file:
        features, columns = (Matrix(*_read_group(file, group, header)) for group in (ROWS, COLUMNS))
        labels, positives = (Lists(*_read_group(file, group, header)[:2]) for group in (LABELS, POSITIVES))
        names = names_in(file, path, header.n_labels, header.n_features)
    widths = (header.n_features, header.n_instances, header.n_labels, header.n_instances)
    arrays = (features, columns, (*labels, NO_VALUES), (*positives, NO_VALUES))
    are_usable = [
        check_indptr(path, f"{group}/indptr", a[0], len(a[1]), complain)
        and check_entries(path, group, *a, width, complain)
        for group, a, width in zip(header.groups(), arrays, widths, strict=True)
    ]
    for rows, columns_of in ((0, 1), (2, 3)):
        if are_usable[rows] and are_usable[columns_of]:
            check_transpose(path, arrays[rows], arrays[columns_of], list(header.groups())[columns_of], complain)
    dataset = Dataset(features, labels, header.n_features, header.n_labels, *names)
    check_digest(header, dataset.digest, complain)
    return dataset


def check_transpose(path: Path, rows: Any, columns: Any, name: str, complain: Complain = insist) -> None:
    """Complain of columns, (indptr, indices, values), that say something else than checked rows."""
    different = find_difference(*rows, *columns)
    if different >= 0:
        complain(DataError(path, f"{name}: row {different}: found other entries than by_instance has"))


def check_digest(header: DatasetHeader, digest: str, complain: Complain = insist) -> None:
    """Complain of a file whose content is not what was written."""
    if digest != header.digest:
        problem = f"attribute data_digest: found {header.digest}, expected {digest}, that of the content"
        complain(DataError(header.path, problem))


def _write_attributes(file: Any, dataset: Dataset) -> None:
    file.attrs["format"] = FORMAT
    file.attrs["format_version"] = FORMAT_VERSION
    file.attrs["creator"] = f"proxml-mpi {__version__}"
    file.attrs["created"] = datetime.now(UTC).isoformat(timespec="seconds")
    for name in ("n_instances", "n_features", "n_labels"):
        file.attrs[name] = getattr(dataset, name)
    file.attrs["data_digest"] = dataset.digest


def _read_group(file: Any, group: str, header: DatasetHeader) -> list[Any]:
    n_rows, n_entries, has_values = header.groups()[group]
    lengths = {"indptr": n_rows + 1, "indices": n_entries, "values": n_entries if has_values else 0}
    return [
        read_slice(file[f"{group}/{name}"], 0, n) if n else np.empty(0, DTYPES[name]) for name, n in lengths.items()
    ]


def _count(path: Path, attributes: dict[str, Any], name: str) -> int:
    value = attributes.get(name)
    _require(path, isinstance(value, np.integer) and 0 < int(value) < 2**31, f"attribute {name}", value, "a count")
    return int(attributes[name])


def _check_shape(header: DatasetHeader, name: str, dataset: Any) -> None:
    group, _, kind = name.rpartition("/")
    n_rows, n_entries, _ = header.groups()[group]
    length = n_rows + 1 if kind == "indptr" else n_entries
    dtype, shape = dataset.dtype, dataset.shape
    _require(header.path, dtype == DTYPES[kind], name, f"type {dtype}", DTYPES[kind])
    _require(header.path, shape == (length,), name, f"the shape {shape}", f"({length},)")


def _require(path: Path, holds: bool, name: str, found: object, expected: object) -> None:
    if not holds:
        raise DataError(path, f"{name}: found {found}, expected {expected}")
