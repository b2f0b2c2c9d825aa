"""Write XMC repository text; what `text` reads back is equal, bit for bit."""

import itertools

import numpy as np

from proxml_mpi.data.dataset import Dataset, Float32
from proxml_mpi.data.files import Path
from proxml_mpi.files import replace_file

_CHUNK_INSTANCES = 1 << 12


def write_text(path: Path, dataset: Dataset) -> None:
    """Write a data set as XMC text, under a temporary name until complete; values are as short as they can be."""
    with replace_file(path) as stream:
        stream.write(f"{dataset.n_instances} {dataset.n_features} {dataset.n_labels}\n".encode())
        for begin in range(0, dataset.n_instances, _CHUNK_INSTANCES):
            end = min(begin + _CHUNK_INSTANCES, dataset.n_instances)
            stream.write("".join(_lines(dataset, begin, end)).encode())


def _lines(dataset: Dataset, begin: int, end: int) -> list[str]:
    indptr, label_indptr = dataset.features.indptr[begin : end + 1], dataset.labels.indptr[begin : end + 1]
    features = map(str, dataset.features.indices[indptr[0] : indptr[-1]].tolist())
    values = _decimals(dataset.features.values[indptr[0] : indptr[-1]])
    entries = list(map(":".join, zip(features, values, strict=True)))
    labels = list(map(str, dataset.labels.indices[label_indptr[0] : label_indptr[-1]].tolist()))
    spans = itertools.pairwise((indptr - indptr[0]).tolist())
    label_spans = itertools.pairwise((label_indptr - label_indptr[0]).tolist())
    return [
        f"{','.join(labels[slice(*label_span)])} {' '.join(entries[slice(*span)])}\n"
        for label_span, span in zip(label_spans, spans, strict=True)
    ]


def _decimals(values: Float32) -> list[str]:
    """Give every value the shortest decimal that rounds to it."""
    distinct, places = np.unique(values, return_inverse=True)
    decimals = [str(value).removesuffix(".0") for value in distinct]
    return [decimals[place] for place in places.tolist()]
