"""Names of labels and features in HDF5 files: /names/labels and /names/features, UTF-8 strings of any length.

The attribute digest of each, where it is, tells whether they are as they were written, and the attribute names of the
file tells which of them there must be.
"""

from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np

from proxml_mpi.errors import FileError
from proxml_mpi.store.checksums import DIGEST, names_digest
from proxml_mpi.store.hdf5 import check_stored, reading


class Names(NamedTuple):
    """The names of all labels and features, where they are known."""

    labels: tuple[str, ...] | None = None
    features: tuple[str, ...] | None = None


NO_NAMES = Names()
KINDS = "names"  # the attribute of the file


def write_names(file: Any, names: Names) -> None:
    """Put names into a file that is open for one process: parallel HDF5 cannot write strings of any length."""
    known = {kind: values for kind, values in names._asdict().items() if values is not None}
    if known:
        file.attrs[KINDS] = " ".join(known)
    for kind, values in known.items():
        dataset = file.create_dataset(f"names/{kind}", data=np.array(values, object), dtype=h5py.string_dtype())
        dataset.attrs[DIGEST] = names_digest(values)


def read_names(path: Path, n_labels: int, n_features: int) -> Names:
    """Read the names that a model or dataset file has."""
    with reading(path) as file:
        return names_in(file, path, n_labels, n_features)


def names_in(file: Any, path: Path, n_labels: int, n_features: int) -> Names:
    """Read the names in an open file."""
    labels, features = _read(file, path, "labels", n_labels), _read(file, path, "features", n_features)
    return Names(labels, features)


def _read(file: Any, path: Path, kind: str, n_expected: int) -> tuple[str, ...] | None:
    name = f"names/{kind}"
    if name not in file:
        if kind in str(file.attrs.get(KINDS, "")).split():
            raise FileError(path, f"{name}: found nothing, expected {n_expected} strings")
        return None
    dataset = file[name]
    if h5py.check_string_dtype(getattr(dataset, "dtype", None)) is None or dataset.shape != (n_expected,):
        raise FileError(path, f"{name}: found something else, expected {n_expected} strings")
    check_stored(dataset)
    try:
        names = tuple(dataset.asstr()[:].tolist())
    except UnicodeDecodeError as error:
        raise FileError(path, f"{name}: found bytes that are not UTF-8: {error}") from None
    found, expected = dataset.attrs.get(DIGEST), names_digest(names)
    if found not in (None, expected):  # None: put in by hand
        raise FileError(path, f"{name}: found the digest {found}, expected {expected}, that of the content")
    return names
