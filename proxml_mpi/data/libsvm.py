"""Read libsvm multi-label text: no header, `l1,l2 f:v f:v` for every instance, ids counted from 1."""

import numpy as np

from proxml_mpi.data.complaints import Complain, insist
from proxml_mpi.data.dataset import Dataset, Int32
from proxml_mpi.data.files import PADDING, Path
from proxml_mpi.data.text_lines import Bytes, first_line, parse_lines
from proxml_mpi.data.text_reference import LARGEST_ID_COUNT, Form
from proxml_mpi.errors import DataError

Shape = tuple[int, int]  # features, labels

_FROM_1 = "libsvm ids count from 1 (an XMC file without its header? labels from 0: --format libsvm0):"
_FROM_0 = "libsvm feature ids count from 1, here label ids from 0:"


def parse_libsvm(
    text: Bytes, path: Path, n_threads: int, shape: Shape | None, first_label: int, complain: Complain = insist
) -> Dataset:
    """Parse a whole file; without a shape, given by a model, the largest ids in it say how many there are."""
    begin = first_line(text)
    if len(text) - PADDING == begin:
        raise DataError(path, "the file is empty, expected lines 'l1,l2 f:v f:v'")
    n_features, n_labels = shape or (LARGEST_ID_COUNT, LARGEST_ID_COUNT)
    authority = _FROM_1 if first_label else _FROM_0
    form = Form(None, n_features, n_labels, 1, first_label, n_header_lines=0, authority=authority)
    features, labels = parse_lines(text, begin, form, path, n_threads, complain)
    if shape is None:
        n_features, n_labels = _n_ids(features.indices), _n_ids(labels.indices)
    return Dataset(features, labels, n_features, n_labels)


def _n_ids(indices: Int32) -> int:
    return max(int(np.max(indices, initial=-1)) + 1, 1)
