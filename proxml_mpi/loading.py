"""The training data in the memory that the ranks of a node share: read, checked, weighted, both ways."""

from typing import NamedTuple

import numpy as np

from proxml_mpi.data.check_kernels import transpose
from proxml_mpi.data.checks import NO_VALUES
from proxml_mpi.data.dataset import Dataset, Float32, Int32, Lists, Matrix
from proxml_mpi.data.formats import Source, find_source
from proxml_mpi.data.sizes import Size, estimate_size
from proxml_mpi.data.warm_up import compile_reading
from proxml_mpi.data.weighting import Weighting
from proxml_mpi.ranks.memory import check_memory
from proxml_mpi.ranks.shared import Layout, share_filled
from proxml_mpi.ranks.world import World
from proxml_mpi.settings.train import TrainSettings
from proxml_mpi.solve.problem import Problem
from proxml_mpi.solve.solvers import workspace_bytes
from proxml_mpi.store.dataset_file import DatasetHeader, read_dataset_header
from proxml_mpi.store.dataset_slices import read_in_place
from proxml_mpi.store.names import Names, read_names
from proxml_mpi.store.sources import choose_names, read_source


class Facts(NamedTuple):
    """What every rank knows of the training data."""

    n_instances: int
    n_features: int
    n_labels: int
    digest: str
    idf: Float32 | None
    feature_counts: Int32  # [n_features]: instances with the feature, as read


class Loaded(NamedTuple):
    """Training data in shared memory; only rank 0 has names."""

    problem: Problem
    positives: Lists  # by label
    facts: Facts
    names: Names
    estimated_bytes: int  # for the node that needs most


def load(settings: TrainSettings, world: World, n_threads: int) -> Loaded:
    """Read the training data of any format into shared memory. Collective: every rank calls this."""
    source, header = None, None
    with world.together():
        if world.is_first:
            source = find_source(settings.train, settings.format)
            header = read_dataset_header(source.paths[0]) if source.format == "hdf5" else None
    source, header = world.from_first((source, header))
    if header is not None:
        loaded = _load_in_place(settings, world, header, n_threads)
        if loaded is not None:
            return loaded
    return _load_on_first(settings, world, source, header, n_threads)


def problem_layout(n_instances: int, n_features: int, n_entries: int) -> Layout:
    """Return dtypes and shapes of the arrays of a Problem."""
    entries = [("<i4", (n_entries,)), ("<f4", (n_entries,))]
    return [("<i8", (n_instances + 1,)), *entries, ("<i8", (n_features + 1,)), *entries]


def lists_layout(n_rows: int, n_entries: int) -> Layout:
    """Return dtypes and shapes of the arrays of Lists."""
    return [("<i8", (n_rows + 1,)), ("<i4", (n_entries,))]


def _load_in_place(settings: TrainSettings, world: World, header: DatasetHeader, n_threads: int) -> Loaded | None:
    """Let the ranks of every node read a dataset file into shared memory, slice by slice. Collective.

    Returns None when entries turn into zeros under the weighting and must vanish, which takes another copy.
    """
    estimated = check_fit(settings, world, _size_of(header), n_threads, is_exact=True)
    with world.first_of_node_first():
        compile_reading()
    found = read_in_place(world, header, settings.weighting, settings.normalize)
    if found is None:
        return None
    features, columns, positives, idf = found
    names = Names()
    with world.together():
        if world.is_first:
            names = _names(settings, read_names(header.path, header.n_labels, header.n_features), header)
    counts = np.diff(columns.indptr).astype(np.int32)
    facts = Facts(header.n_instances, header.n_features, header.n_labels, header.digest, idf, counts)
    return Loaded(Problem(*features, *columns), positives, facts, names, estimated)


def _load_on_first(
    settings: TrainSettings, world: World, source: Source, header: DatasetHeader | None, n_threads: int
) -> Loaded:
    """Read and weight the data on rank 0, and send them to every node. Collective."""
    dataset, features, facts, names = None, None, None, Names()
    size = None
    with world.together():
        if world.is_first:
            size = size_of_source(source, header)
    estimated = check_fit(settings, world, world.from_first(size), n_threads, is_exact=False)
    with world.together():
        if world.is_first:
            dataset = read_source(source, n_threads)
            names = _names(settings, Names(dataset.label_names, dataset.feature_names), dataset)
            weighting = Weighting.fit(dataset, settings.weighting, settings.normalize, settings.train)
            features = weighting.apply(dataset.features, settings.train)
            shape = (dataset.n_instances, dataset.n_features, dataset.n_labels)
            facts = Facts(*shape, dataset.digest, weighting.idf, dataset.feature_counts)
            size = Size(*shape, len(features.indices), len(dataset.labels.indices))
    size, facts = world.from_first((size, facts))
    estimated = max(estimated, check_fit(settings, world, size, n_threads, is_exact=True))

    problem, positives = share_training(world, size, dataset, features)
    return Loaded(problem, positives, facts, names, estimated)


def share_training(world: World, size: Size, dataset: Dataset | None, features: Matrix | None) -> tuple[Problem, Lists]:
    """Put rank 0's weighted features, both ways, and its labels into the memory of every node. Collective."""

    def fill_problem(problem: Problem) -> None:
        _fill_problem(problem, features)

    def fill_positives(positives: Lists) -> None:
        _fill_positives(positives, dataset)

    layout = problem_layout(size.n_instances, size.n_features, size.n_entries)
    problem = share_filled(world, Problem, layout, fill_problem)
    positives = share_filled(world, Lists, lists_layout(size.n_labels, size.n_pairs), fill_positives)
    return problem, positives


def _fill_problem(problem: Problem, features: Matrix | None) -> None:
    """Copy the rows and turn them into columns, in place."""
    if features is not None:
        np.copyto(problem.row_start, features.indptr)
        np.copyto(problem.row_feature, features.indices)
        np.copyto(problem.row_value, features.values)
        transpose(*problem)


def _fill_positives(positives: Lists, dataset: Dataset | None) -> None:
    if dataset is not None:
        transpose(*dataset.labels, NO_VALUES, *positives, np.empty(0, np.float32))


def _names(settings: TrainSettings, found: Names, of: Dataset | DatasetHeader) -> Names:
    return choose_names(found, settings.label_names, settings.feature_names, of.n_labels, of.n_features)


def size_of_source(source: Source, header: DatasetHeader | None = None) -> Size:
    """Return how large a data set is: a dataset file says it, the beginning of other files lets it be estimated."""
    if source.format == "hdf5":
        return _size_of(header or read_dataset_header(source.paths[0]))
    return estimate_size(source)


def _size_of(header: DatasetHeader) -> Size:
    size = Size(header.n_instances, header.n_features, header.n_labels, header.n_entries, header.n_pairs)
    return size._replace(reading_bytes=size.labels_bytes)


def check_fit(settings: TrainSettings, world: World, size: Size, n_threads: int, is_exact: bool) -> int:
    """Print the memory that a node needs, and refuse what cannot fit; before reading it is an estimate. Collective."""
    shared = {
        "features by instance": size.rows_bytes,
        "by feature": size.columns_bytes,
        "labels": size.positives_bytes,
    }
    reading_bytes = size.reading_bytes + (0 if is_exact else size.rows_bytes + size.labels_bytes)
    with world.first_of_node_first():
        workspace = workspace_bytes(settings.method, size.n_instances, size.n_features, size.n_entries)
    private = {
        "workspaces": n_threads * workspace,
        "reading": reading_bytes if world.is_first else 0,
    }
    return check_memory(world, shared, private, is_exact)
