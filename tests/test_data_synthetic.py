"""Synthetic data: valid at any size, long-tailed, learnable in the tail; splitting; what a data set derives."""

import numpy as np
import pytest
from scipy import sparse

from proxml_mpi.data.dataset import Dataset, Lists, Matrix
from proxml_mpi.data.split import select, split
from proxml_mpi.data.synthetic import synthesize
from proxml_mpi.data.weighting import Weighting
from proxml_mpi.errors import SettingsError


def csr(lists, values, n_columns):
    return sparse.csr_array((values, lists.indices, lists.indptr), shape=(len(lists.indptr) - 1, n_columns))


def check_valid(dataset):
    for lists, n_columns in ((dataset.features, dataset.n_features), (dataset.labels, dataset.n_labels)):
        assert (lists.indptr.dtype, lists.indices.dtype) == (np.int64, np.int32)
        assert lists.indptr[0] == 0 and lists.indptr[-1] == len(lists.indices) and np.all(np.diff(lists.indptr) >= 0)
        rows = np.repeat(np.arange(dataset.n_instances), np.diff(lists.indptr))
        assert np.all(np.diff(rows * n_columns + lists.indices) > 0)
        assert len(lists.indices) == 0 or (lists.indices.min() >= 0 and lists.indices.max() < n_columns)
    values = dataset.features.values
    assert values.dtype == np.float32 and len(values) == len(dataset.features.indices)
    assert np.all(values >= 1) and np.all(values == np.rint(values))


@pytest.mark.parametrize(
    "shape", [(1, 1, 1), (1, 1, 50), (2, 1, 1), (5, 2, 300), (300, 2, 5), (3, 1000, 2), (40_000, 50, 3)]
)
def test_any_size(shape):
    dataset = synthesize(*shape, seed=3)
    assert (dataset.n_instances, dataset.n_features, dataset.n_labels) == shape
    check_valid(dataset)


def test_seed_decides():
    assert synthesize(200, 300, 100, 1).digest == synthesize(200, 300, 100, 1).digest
    assert synthesize(200, 300, 100, 1).digest != synthesize(200, 300, 100, 2).digest


def test_long_tail_and_averages():
    dataset = synthesize(5000, 8000, 4000, 0, labels_per_instance=4.0, features_per_instance=60.0)
    check_valid(dataset)
    n_positives = np.diff(dataset.positives.indptr)
    assert n_positives.min() >= 1 and np.median(n_positives) <= 5 and n_positives.max() > 100
    assert abs(np.diff(dataset.labels.indptr).mean() - 4) < 0.3
    assert abs(np.diff(dataset.features.indptr).mean() - 60) < 12
    assert np.diff(dataset.labels.indptr).min() >= 1


@pytest.mark.parametrize(("kind", "share"), [("none", 0.25), ("tfidf", 0.5)])
def test_rare_labels_are_learnable(kind, share):
    train, test = split(synthesize(4000, 5000, 2000, 0), 0.25, 0)
    weighting = Weighting.fit(train, kind, normalize=True)
    features, test_features = (weighting.apply(part.features) for part in (train, test))
    X = csr(features, features.values, train.n_features)
    Y = csr(train.positives, np.ones(len(train.positives.indices)), train.n_instances)
    centroids = Y @ X
    norms = np.maximum(sparse.linalg.norm(centroids, axis=1), 1e-12)
    scores = (csr(test_features, test_features.values, train.n_features) @ centroids.T).toarray() / norms
    top = np.argsort(-scores, axis=1)[:, :5]
    n_positives = np.diff(train.positives.indptr)
    hits = [
        label in top[row]
        for row in range(test.n_instances)
        for label in test.labels.indices[test.labels.indptr[row] : test.labels.indptr[row + 1]]
        if 2 <= n_positives[label] <= 5
    ]
    # Even the nearest centroid finds them; chance is 5 in 2000.
    assert len(hits) > 100 and np.mean(hits) > share


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((0, 1, 1), {}, "number of instances: found 0, expected a whole number from 1"),
        ((1, 2**31, 1), {}, "number of features: found 2147483648"),
        ((1, 1, -1), {}, "number of labels: found -1"),
        ((1, 1, 1), {"labels_per_instance": 0.0}, "labels per instance: found 0.0, expected a positive number"),
        ((1, 1, 1), {"features_per_instance": np.inf}, "features per instance: found inf"),
        ((1, 1, 1), {"words_per_label": -1}, "words per label: found -1"),
    ],
)
def test_impossible_sizes(arguments, options, message):
    with pytest.raises(SettingsError, match=message):
        synthesize(*arguments, 0, **options)


def test_split_is_a_partition():
    dataset = synthesize(101, 50, 20, 0)
    train, test = split(dataset, 0.3, 5)
    assert (train.n_instances, test.n_instances) == (71, 30)
    check_valid(train)
    check_valid(test)
    whole, *parts = (csr(part.features, part.features.values, 50).toarray().tolist() for part in (dataset, train, test))
    assert sorted(parts[0] + parts[1]) == sorted(whole)
    assert split(dataset, 0.3, 5)[1].digest == test.digest != split(dataset, 0.3, 6)[1].digest


def test_split_leaves_neither_part_empty():
    dataset = synthesize(3, 5, 2, 0)
    assert [part.n_instances for part in split(dataset, 0.001, 0)] == [2, 1]
    assert [part.n_instances for part in split(dataset, 0.999, 0)] == [1, 2]
    with pytest.raises(SettingsError, match=r"test fraction: found 1\.0, expected a number between 0 and 1"):
        split(dataset, 1.0, 0)
    with pytest.raises(SettingsError, match="number of instances to split: found 1, expected at least 2"):
        split(synthesize(1, 5, 2, 0), 0.5, 0)


def test_select_keeps_order_and_names():
    features = Matrix(np.array([0, 2, 2, 3]), np.array([0, 2, 1], np.int32), np.array([1, 2, 3], np.float32))
    labels = Lists(np.array([0, 1, 3, 3]), np.array([1, 0, 1], np.int32))
    chosen = select(Dataset(features, labels, 3, 2, ("a", "b")), np.array([2, 0, 1]))
    assert chosen.features.indptr.tolist() == [0, 1, 3, 3]
    assert chosen.features.values.tolist() == [3, 1, 2]
    assert chosen.labels.indptr.tolist() == [0, 0, 1, 3]
    assert chosen.labels.indices.tolist() == [1, 0, 1]
    assert chosen.label_names == ("a", "b")


def test_positives_and_digest():
    dataset = synthesize(300, 40, 30, 0)
    dense = csr(dataset.labels, np.ones(len(dataset.labels.indices)), 30).toarray()
    positives = dataset.positives
    for label in range(30):
        expected = np.flatnonzero(dense[:, label]).tolist()
        assert positives.indices[positives.indptr[label] : positives.indptr[label + 1]].tolist() == expected
    wider = Dataset(dataset.features, dataset.labels, 41, 30)
    assert dataset.digest == select(dataset, np.arange(300)).digest != wider.digest
