"""Reading the model file: everything is checked before anything is used."""

from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np
from numpy.typing import NDArray

from proxml_mpi.errors import ModelError
from proxml_mpi.solve.block import Block
from proxml_mpi.store.block_checks import (
    Problem,
    check_block,
    check_finite,
    check_indptr,
    check_range,
    require,
)
from proxml_mpi.store.checksums import (
    DIGEST,
    FEATURE_COUNTS_DIGEST,
    HEADER_DIGEST,
    array_digest,
    header_digest,
    label_checksums,
    pack_facts,
)
from proxml_mpi.store.hdf5 import read_slice, reading
from proxml_mpi.store.heaps import check_heaps
from proxml_mpi.store.layout import (
    CHECKSUM,
    FEATURE_COUNTS,
    FORMAT,
    FORMAT_VERSION,
    INDEX,
    PER_LABEL,
    PER_WEIGHT,
    WHEN_ABSENT,
)

LABELS_AT_ONCE = 1 << 14


class ModelHeader(NamedTuple):
    """The facts of a model and, by label, where its weights begin and how many positives it had."""

    path: Path
    n_instances: int
    n_features: int
    n_labels: int
    attributes: dict[str, Any]
    indptr: NDArray[np.int64]  # [n_labels + 1]
    n_positives: NDArray[np.int32]  # [n_labels]
    idf: NDArray[np.float32] | None  # [n_features]
    feature_counts: NDArray[np.int32] | None = None  # [n_features]: training instances with the feature


def read_header(path: Path) -> ModelHeader:
    """Read what concerns the whole model."""
    problem = partial(ModelError, path)
    with reading(path) as file:
        check_heaps(path, file)
        attributes = dict(file.attrs)
        require(problem, attributes.get("format") == FORMAT, "attribute format", attributes.get("format"), FORMAT)
        version = attributes.get("format_version")
        require(problem, version == FORMAT_VERSION, "attribute format_version", version, str(FORMAT_VERSION))
        n_instances, n_features, n_labels = (
            _count(problem, attributes, name) for name in ("n_instances", "n_features", "n_labels")
        )
        _check_shapes(problem, file, n_features, n_labels)
        indptr = read_slice(file["weights/indptr"], 0, n_labels + 1)
        check_indptr(problem, "weights/indptr", indptr, len(file["weights/indices"]))
        n_positives = read_slice(file["labels/n_positives"], 0, n_labels)
        check_range(problem, "labels/n_positives", n_positives, 0, n_instances)
        idf = read_slice(file["features/idf"], 0, n_features) if "features/idf" in file else None
        if idf is not None:
            check_finite(problem, "features/idf", idf)
        feature_counts = _read_feature_counts(problem, file, n_features, n_instances)
        digest = header_digest(attributes, idf)
        is_whole = attributes.get(HEADER_DIGEST) == digest
        require(problem, is_whole, "the header's digest", digest, "another: it is damaged")
    attributes = WHEN_ABSENT | attributes
    _check_attributes(problem, attributes, idf is not None)
    _check_feature_counts(problem, attributes.get(FEATURE_COUNTS_DIGEST), feature_counts)
    shape = (n_instances, n_features, n_labels)
    return ModelHeader(path, *shape, attributes, indptr, n_positives, idf, feature_counts)


def _read_feature_counts(problem: Problem, file: Any, n_features: int, n_instances: int) -> NDArray[np.int32] | None:
    """Read how many training instances have each feature, where the file says it."""
    if FEATURE_COUNTS not in file:
        return None
    counts = read_slice(file[FEATURE_COUNTS], 0, n_features)
    check_range(problem, FEATURE_COUNTS, counts, 0, n_instances)
    return counts


def _check_feature_counts(problem: Problem, digest: Any, counts: NDArray[np.int32] | None) -> None:
    """Refuse counts other than those that were written, or none where there were some."""
    if counts is None:
        require(problem, digest is None, FEATURE_COUNTS, "nothing", "a dataset, since its digest is here")
    else:
        found = array_digest(counts)
        require(problem, digest == found, f"the digest of {FEATURE_COUNTS}", found, f"{digest}: it is damaged")


def _check_attributes(problem: Problem, attributes: dict[str, Any], has_idf: bool) -> None:
    """Refuse a header without what every reader counts on."""
    weighting = attributes.get("weighting")
    require(problem, weighting in ("none", "tfidf"), "attribute weighting", weighting, "none or tfidf")
    for name, kind, expected in (("normalize", np.bool_, "true or false"), ("data_digest", str, "a digest")):
        value = attributes.get(name)
        require(problem, isinstance(value, kind), f"attribute {name}", value, expected)
    ridge = attributes["ridge"]
    is_ratio = isinstance(ridge, float) and 0 <= ridge < np.inf
    require(problem, is_ratio, "attribute ridge", ridge, "a finite number, at least 0")
    is_due = weighting == "tfidf"
    found, expected = ("a dataset" if has_idf else "nothing"), ("a dataset" if is_due else "nothing")
    require(problem, has_idf == is_due, "features/idf", found, f"{expected}, since weighting is {weighting}")


def read_labels(header: ModelHeader, first_label: int, end_label: int) -> Block:
    """Read the labels first_label ... end_label - 1."""
    indptr = header.indptr[first_label : end_label + 1]
    block, checksums = _read_block(header, first_label, end_label, indptr)
    damaged = first_label + np.flatnonzero(label_checksums(block) != checksums)
    found, expected = f"label {damaged[:1]} damaged", "labels as they were written"
    require(partial(ModelError, header.path), len(damaged) == 0, CHECKSUM, found, expected)
    return block


def check_labels(header: ModelHeader) -> None:
    """Read all labels, some at a time, and check every byte of them."""
    for first in range(0, header.n_labels, LABELS_AT_ONCE):
        read_labels(header, first, min(first + LABELS_AT_ONCE, header.n_labels))


def _read_block(
    header: ModelHeader, first_label: int, end_label: int, indptr: NDArray[np.int64]
) -> tuple[Block, NDArray[np.uint32]]:
    """Read labels and the weights that indptr names; also return the checksums that they should have."""
    begin, end = int(indptr[0]), int(indptr[-1])
    with reading(header.path) as file:
        fields = {field: read_slice(file[name], begin, end) for name, (field, _) in PER_WEIGHT.items()}
        fields |= {field: read_slice(file[name], first_label, end_label) for name, (field, _) in PER_LABEL.items()}
        checksums = read_slice(file[CHECKSUM], first_label, end_label)
    block = Block(first_label, indptr - begin, **fields)
    check_block(partial(ModelError, header.path), block, header.n_features)
    return block, checksums


class StoredIndex(NamedTuple):
    """The weights by feature, as `proxml-inspect --add-index` stores them."""

    indptr: NDArray[np.int64]  # [n_features + 1]
    labels: NDArray[np.int32]  # [n_weights], by bias descending within a feature
    weights: NDArray[np.float32]  # [n_weights]


def index_digest(index: StoredIndex, block: Block) -> str:
    """Return what tells whether the index and the facts of all labels, weights or not, are as they were written."""
    return array_digest(*index, pack_facts(block))


def read_index(header: ModelHeader) -> tuple[StoredIndex, Block] | None:
    """Read the weights by feature, if they are in the file, and all labels as if they had none."""
    problem, n_weights = partial(ModelError, header.path), int(header.indptr[-1])
    with reading(header.path) as file:
        if "index" not in file:
            return None
        for name, (dtype, is_by_weight) in INDEX.items():
            _check_dataset(problem, file, name, dtype, n_weights if is_by_weight else header.n_features + 1)
        index = StoredIndex(*(read_slice(file[name], 0, len(file[name])) for name in INDEX))
        digest = file["index"].attrs.get(DIGEST)
    check_indptr(problem, "index/indptr", index.indptr, n_weights)
    check_range(problem, "index/labels", index.labels, 0, header.n_labels - 1)
    check_finite(problem, "index/weights", index.weights)
    block, _ = _read_block(header, 0, header.n_labels, np.zeros(header.n_labels + 1, np.int64))
    found = index_digest(index, block)
    require(problem, digest == found, "the index's digest", found, "another: it is damaged, --add-index renews it")
    return index, block


def _check_shapes(problem: Problem, file: Any, n_features: int, n_labels: int) -> None:
    """Compare every dataset with the layout, without reading it."""
    expected: dict[str, tuple[Any, int | None]] = {"weights/indptr": ("i8", n_labels + 1)}
    expected[CHECKSUM] = ("u4", n_labels)
    expected |= {name: (dtype, None) for name, (_, dtype) in PER_WEIGHT.items()}
    expected |= {name: (dtype, n_labels) for name, (_, dtype) in PER_LABEL.items()}
    if "features/idf" in file:
        expected["features/idf"] = ("f4", n_features)
    if FEATURE_COUNTS in file:
        expected[FEATURE_COUNTS] = ("i4", n_features)
    for name, (dtype, length) in expected.items():
        _check_dataset(problem, file, name, dtype, length)
    n_indices, n_data = len(file["weights/indices"]), len(file["weights/data"])
    require(problem, n_indices == n_data, "weights/data", f"{n_data} entries", f"{n_indices} as weights/indices has")


def _check_dataset(problem: Problem, file: Any, name: str, dtype: Any, length: int | None) -> None:
    """Compare one dataset with the layout."""
    require(problem, isinstance(file.get(name), h5py.Dataset), name, "nothing", "a dataset")
    dataset = file[name]
    require(problem, dataset.ndim == 1, name, f"{dataset.ndim} dimensions", "1")
    require(problem, dataset.dtype == np.dtype(dtype), name, f"type {dataset.dtype}", f"{np.dtype(dtype)}")
    if length is not None:
        require(problem, len(dataset) == length, name, f"{len(dataset)} entries", f"{length}")


def _count(problem: Problem, attributes: dict[str, Any], name: str) -> int:
    value = attributes.get(name)
    require(problem, isinstance(value, np.integer) and 0 <= int(value) < 2**31, f"attribute {name}", value, "a count")
    return int(attributes[name])
