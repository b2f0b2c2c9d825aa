"""One door to data sets of every format."""

import dataclasses
from pathlib import Path

from proxml_mpi.data.complaints import Complain, insist
from proxml_mpi.data.dataset import Dataset
from proxml_mpi.data.files import read_content
from proxml_mpi.data.formats import Source, find_source
from proxml_mpi.data.libsvm import Shape, parse_libsvm
from proxml_mpi.data.names import read_names
from proxml_mpi.data.npz import read_npz
from proxml_mpi.data.text import parse_content, write_text
from proxml_mpi.data.two_files import parse_two_files
from proxml_mpi.errors import SettingsError
from proxml_mpi.store.dataset_file import read_dataset_file, write_dataset
from proxml_mpi.store.names import Names


def read_dataset(
    path: Path,
    format: str = "auto",
    n_threads: int = 1,
    shape: Shape | None = None,
    complain: Complain = insist,
) -> Dataset:
    """Read a data set of any format.

    path: a file, or FEATURES,LABELS; format: one of settings.FORMATS; shape: features and labels of the model that the
    data are for, which a format without a header does not tell; complain: called for every problem found.
    """
    return read_source(find_source(path, format), n_threads, shape, complain)


def read_source(source: Source, n_threads: int = 1, shape: Shape | None = None, complain: Complain = insist) -> Dataset:
    """Read a data set whose format and files are known."""
    first = source.paths[0]
    match source.format:
        case "xmc":
            return parse_content(read_content(first), first, n_threads, complain)
        case "libsvm" | "libsvm0":
            first_label = 1 if source.format == "libsvm" else 0
            return parse_libsvm(read_content(first), first, n_threads, shape, first_label, complain)
        case "two-file":
            labels = source.paths[1]
            return parse_two_files((read_content(first), read_content(labels)), (first, labels), n_threads, complain)
        case "npz":
            return read_npz((first, source.paths[1]), complain)
        case _:
            return read_dataset_file(first, complain)


def with_names(dataset: Dataset, label_names: Path | None, feature_names: Path | None) -> Dataset:
    """Give a data set the names in files, one a line; without a file it keeps those that it has."""
    found = Names(dataset.label_names, dataset.feature_names)
    names = choose_names(found, label_names, feature_names, dataset.n_labels, dataset.n_features)
    return dataclasses.replace(dataset, label_names=names.labels, feature_names=names.features)


def choose_names(
    found: Names, label_names: Path | None, feature_names: Path | None, n_labels: int, n_features: int
) -> Names:
    """Read the names that files give, and keep those found where there is no file."""
    return Names(
        found.labels if label_names is None else read_names(label_names, n_labels),
        found.features if feature_names is None else read_names(feature_names, n_features),
    )


def check_output(path: Path) -> None:
    """Refuse a name that does not tell in which format to write."""
    if path.suffix not in (".h5", ".hdf5", ".txt"):
        raise SettingsError("file to write", str(path), "a name that ends in .h5 (dataset file) or .txt (XMC text)")


def write_any(path: Path, dataset: Dataset) -> None:
    """Write a data set in the format that the name of the file asks for."""
    check_output(path)
    if path.suffix == ".txt":
        write_text(path, dataset)
    else:
        write_dataset(path, dataset)
