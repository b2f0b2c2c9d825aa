"""Read the two-file form: a text matrix of features and one of labels, each with a header `N D` and rows `f:v f:v`."""

import numpy as np

from proxml_mpi.data.complaints import Complain, insist
from proxml_mpi.data.dataset import Dataset, Lists, Matrix
from proxml_mpi.data.files import Path
from proxml_mpi.data.text_lines import Bytes, parse_lines, split_header
from proxml_mpi.data.text_reference import Form, parse_counts
from proxml_mpi.errors import DataError


def parse_two_files(
    texts: tuple[Bytes, Bytes], paths: tuple[Path, Path], n_threads: int, complain: Complain = insist
) -> Dataset:
    """Parse the files of features and labels."""
    features, n_features = _parse_matrix(texts[0], paths[0], "feature", n_threads, complain)
    labels, n_labels = _parse_matrix(texts[1], paths[1], "label", n_threads, complain)
    check_label_values(labels, paths[1], n_header_lines=1, complain=complain)
    check_heights(features, labels, paths)
    return Dataset(features, Lists(labels.indptr, labels.indices), n_features, n_labels)


def check_heights(features: Matrix, labels: Matrix, paths: tuple[Path, Path]) -> None:
    """Refuse features and labels of different numbers of instances."""
    found, expected = len(labels.indptr) - 1, len(features.indptr) - 1
    if found != expected:
        raise DataError(paths[1], f"found {found} instances, expected {expected} as in {paths[0]}")


def check_label_values(labels: Matrix, path: Path, n_header_lines: int | None, complain: Complain) -> None:
    """Refuse labels that are neither there (1) nor not (0); n_header_lines: of a text file, to name the line."""
    for entry in np.flatnonzero(labels.values != 1):
        row = int(np.searchsorted(labels.indptr, entry, side="right")) - 1
        problem = f"label {labels.indices[entry]} of instance {row} has the value {labels.values[entry]!s}, expected 1"
        complain(DataError(path, problem, line=None if n_header_lines is None else row + 1 + n_header_lines))


def _parse_matrix(text: Bytes, path: Path, entry: str, n_threads: int, complain: Complain) -> tuple[Matrix, int]:
    expected = f"two whole numbers (instances, {entry}s)"
    line, begin = split_header(text, path, f"a header of {expected}")
    n_rows, n_columns = parse_counts(line, path, 2, expected, f"1 instance and 1 {entry}")
    form = Form(n_rows, n_columns, 0, has_label_column=False, entry=entry)
    matrix, _ = parse_lines(text, begin, form, path, n_threads, complain)
    return matrix, n_columns
