"""Parts of a data set: chosen instances, and the seeded split into training and test data."""

import numpy as np

from proxml_mpi.data.dataset import Dataset, Int64, Lists, Matrix
from proxml_mpi.errors import SettingsError


def select(dataset: Dataset, instances: Int64) -> Dataset:
    """Take some instances, in the order given; features, labels and names keep their ids."""
    indptr, entries = _gather(dataset.features.indptr, instances)
    label_indptr, label_entries = _gather(dataset.labels.indptr, instances)
    return Dataset(
        Matrix(indptr, dataset.features.indices[entries], dataset.features.values[entries]),
        Lists(label_indptr, dataset.labels.indices[label_entries]),
        dataset.n_features,
        dataset.n_labels,
        dataset.label_names,
        dataset.feature_names,
    )


def split(dataset: Dataset, test_fraction: float, seed: int) -> tuple[Dataset, Dataset]:
    """Draw training and test instances by seed; both keep the order of the data set, and neither is empty."""
    if not 0 < test_fraction < 1:
        raise SettingsError("test fraction", test_fraction, "a number between 0 and 1")
    n_instances = dataset.n_instances
    if n_instances < 2:
        raise SettingsError("number of instances to split", n_instances, "at least 2")
    n_test = min(max(round(test_fraction * n_instances), 1), n_instances - 1)
    is_test = np.zeros(n_instances, np.bool_)
    is_test[np.random.default_rng(seed).permutation(n_instances)[:n_test]] = True
    return select(dataset, np.flatnonzero(~is_test)), select(dataset, np.flatnonzero(is_test))


def fold(dataset: Dataset, n_folds: int, number: int, seed: int) -> tuple[Dataset, Dataset]:
    """Deal the instances out to folds by seed; return all others and those of fold `number`, in their order."""
    if not 2 <= n_folds <= dataset.n_instances:
        raise SettingsError("--folds", n_folds, f"2 to {dataset.n_instances}, the number of instances")
    fold_of = np.empty(dataset.n_instances, np.int64)
    fold_of[np.random.default_rng(seed).permutation(dataset.n_instances)] = np.arange(dataset.n_instances) % n_folds
    return select(dataset, np.flatnonzero(fold_of != number)), select(dataset, np.flatnonzero(fold_of == number))


def _gather(indptr: Int64, rows: Int64) -> tuple[Int64, Int64]:
    """The row pointer of chosen rows, and the entries that they consist of."""
    lengths = (indptr[1:] - indptr[:-1])[rows]
    chosen = np.zeros(len(rows) + 1, np.int64)
    np.cumsum(lengths, out=chosen[1:])
    return chosen, np.arange(chosen[-1]) + np.repeat(indptr[rows] - chosen[:-1], lengths)
