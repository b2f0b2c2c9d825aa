"""A dataset file read straight into shared memory: every rank of a node its slice, checked and weighted in place."""

from typing import Any, NamedTuple

import numpy as np

from proxml_mpi.data.check_kernels import transpose
from proxml_mpi.data.checks import NO_VALUES, check_entries, check_indptr, check_slice
from proxml_mpi.data.complaints import insist
from proxml_mpi.data.dataset import Dataset, Float32, Lists, Matrix
from proxml_mpi.data.weighting import Weighting, require_counts
from proxml_mpi.data.weighting_kernels import normalize_rows, weigh_counts
from proxml_mpi.errors import DataError
from proxml_mpi.ranks.partition import share_of
from proxml_mpi.ranks.shared import allocate, publish
from proxml_mpi.ranks.world import World
from proxml_mpi.store.dataset_file import (
    COLUMNS,
    DTYPES,
    LABELS,
    POSITIVES,
    ROWS,
    DatasetHeader,
    check_digest,
    check_transpose,
)
from proxml_mpi.store.hdf5 import fill_from, read_slice, reading


class InPlace(NamedTuple):
    """Weighted features both ways and the instances of every label, in shared memory."""

    features: Matrix
    columns: Matrix
    positives: Lists
    idf: Float32 | None


def read_in_place(world: World, header: DatasetHeader, kind: str, normalize: bool) -> InPlace | None:
    """Read, check and weight a dataset file on every node. Collective: every rank calls this.

    Returns None, everything freed, when weighting turns entries into zeros: arrays in place cannot shrink.
    """
    n_windows = len(world.windows)
    features, columns = (_allocate(world, header, group, Matrix) for group in (ROWS, COLUMNS))
    positives = _allocate(world, header, POSITIVES, Lists)
    with world.together(), reading(header.path, DataError, "dataset") as file:
        for group, arrays in ((ROWS, features), (COLUMNS, columns), (POSITIVES, positives)):
            _read_share(world, file, group, arrays)
    publish(world)
    _check(world, header, features, columns, positives)
    if kind == "tfidf":
        weighting = Weighting.from_frequencies(np.diff(columns.indptr).astype(np.int32), header.n_instances, normalize)
    else:
        weighting = Weighting(kind, normalize)
    if not _weight(world, header, features, columns, weighting):
        del features, columns, positives
        world.free_windows(n_windows)
        return None
    return InPlace(features, columns, positives, weighting.idf)


def _allocate(world: World, header: DatasetHeader, group: str, kind: type[Any]) -> Any:
    n_rows, n_entries, _ = header.groups()[group]
    lengths = {"indptr": n_rows + 1, "indices": n_entries, "values": n_entries}
    fields: tuple[str, ...] = kind._fields
    return allocate(world, kind, [(DTYPES[name].str, (lengths[name],)) for name in fields])


def _read_share(world: World, file: Any, group: str, arrays: Any) -> None:
    """Read this rank's part of every array of a group."""
    for name, array in arrays._asdict().items():
        begin, end = share_of(len(array), world.node.size, world.node_rank)
        fill_from(file[f"{group}/{name}"], begin, array[begin:end])


def _check(world: World, header: DatasetHeader, features: Matrix, columns: Matrix, positives: Lists) -> None:
    """Check all arrays: the pointers first, which everything else follows. Collective."""
    widths = {ROWS: header.n_features, COLUMNS: header.n_instances, POSITIVES: header.n_instances}
    groups = {ROWS: features, COLUMNS: columns, POSITIVES: Matrix(*positives, NO_VALUES)}
    with world.together():
        for group, arrays in groups.items():
            check_indptr(header.path, f"{group}/indptr", arrays.indptr, len(arrays.indices), insist)
    with world.together():
        for group, (indptr, indices, values) in groups.items():
            first, end = share_of(len(indptr) - 1, world.node.size, world.node_rank)
            part = slice(int(indptr[first]), int(indptr[end]))
            mine = (indptr[first : end + 1], indices[part], values[part])
            check_slice(header.path, group, first, *mine, widths[group], insist)
    with world.together():
        if world.node_rank == 0:
            check_transpose(header.path, features, columns, COLUMNS)
        if world.is_first:
            _check_labels(header, features, groups[POSITIVES])


def _check_labels(header: DatasetHeader, features: Matrix, positives: Matrix) -> None:
    """Check the labels of instances against the instances of labels, and the digest of all."""
    path = header.path
    with reading(path, DataError, "dataset") as file:
        indptr = read_slice(file[f"{LABELS}/indptr"], 0, header.n_instances + 1)
        labels = Lists(indptr, read_slice(file[f"{LABELS}/indices"], 0, header.n_pairs))
    check_indptr(path, f"{LABELS}/indptr", indptr, header.n_pairs, insist)
    check_entries(path, LABELS, *labels, NO_VALUES, header.n_labels, insist)
    check_transpose(path, (*labels, NO_VALUES), positives, POSITIVES)
    check_digest(header, Dataset(features, labels, header.n_features, header.n_labels).digest)


def _weight(world: World, header: DatasetHeader, features: Matrix, columns: Matrix, weighting: Weighting) -> bool:
    """Weight this rank's instances in place, then renew the columns; tell whether no entry became zero. Collective."""
    first, end = share_of(header.n_instances, world.node.size, world.node_rank)
    begin = features.indptr[first]
    part = slice(int(begin), int(features.indptr[end]))
    mine = Matrix(features.indptr[first : end + 1] - begin, features.indices[part], features.values[part])
    n_changed = 0
    with world.together():
        if weighting.idf is not None:
            require_counts(mine, header.path, first)
            weigh_counts(mine.indices, mine.values, weighting.idf)
            n_changed += 1
    if weighting.normalize:
        n_changed += normalize_rows(mine.indptr, mine.values)
    n_changed, n_zeros = world.total(n_changed), world.total(int(np.count_nonzero(mine.values == 0)))
    publish(world)
    if n_changed and not n_zeros and world.node_rank == 0:
        transpose(*features, *columns)
    publish(world)
    return not n_zeros
