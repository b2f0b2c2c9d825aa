"""The weighting against dense numpy, and the promises of its docstring."""

import numpy as np
import pytest
from scipy import sparse

from proxml_mpi.data.dataset import Dataset, Lists, Matrix
from proxml_mpi.data.weighting import Weighting
from proxml_mpi.errors import DataError, SettingsError


def make(dense):
    csr = sparse.csr_array(np.asarray(dense, np.float32))
    features = Matrix(csr.indptr.astype(np.int64), csr.indices.astype(np.int32), csr.data)
    return Dataset(features, Lists(np.zeros(len(dense) + 1, np.int64), np.zeros(0, np.int32)), len(dense[0]), 1)


def dense_of(matrix, n_features):
    shape = (len(matrix.indptr) - 1, n_features)
    return sparse.csr_array((matrix.values, matrix.indices, matrix.indptr), shape=shape).toarray()


def random_counts(seed, n_rows=40, n_columns=25):
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, 9, (n_rows, n_columns)) * (rng.random((n_rows, n_columns)) < 0.3)
    counts[:, 3] = 0
    counts[7] = 0
    counts[:, 5] = 2
    return counts


def test_tfidf_equals_dense_numpy_on_training_and_test_data():
    train, test = random_counts(0), random_counts(1)
    test[4, 3] = 6
    df = np.count_nonzero(train, axis=0)
    idf = np.zeros(len(df))
    idf[df > 0] = np.log(len(train) / df[df > 0])
    weighting = Weighting.fit(make(train), "tfidf", normalize=True)
    np.testing.assert_allclose(weighting.idf, idf, rtol=1e-6)
    for counts in (train, test):
        expected = np.where(counts > 0, 1 + np.log(np.maximum(counts, 1)), 0) * idf
        norms = np.linalg.norm(expected, axis=1, keepdims=True)
        expected /= np.where(norms > 0, norms, 1)
        np.testing.assert_allclose(dense_of(weighting.apply(make(counts).features), 25), expected, rtol=1e-5)


def test_vanished_entries_are_left_out_and_rows_stay():
    weighting = Weighting.fit(make([[1, 1, 0], [1, 0, 0]]), "tfidf", normalize=True)
    weighted = weighting.apply(make([[5, 2, 0], [1, 0, 1]]).features)
    assert weighted.indptr.tolist() == [0, 1, 1]
    assert weighted.indices.tolist() == [1]
    assert weighted.values.tolist() == [1.0]


def test_stored_idf_gives_the_same_bits():
    train = make(random_counts(0))
    fitted = Weighting.fit(train, "tfidf", normalize=True)
    stored = Weighting("tfidf", True, np.frombuffer(fitted.idf.tobytes(), np.float32))
    for one, other in zip(fitted.apply(train.features), stored.apply(train.features), strict=True):
        assert one.tobytes() == other.tobytes()


def test_normalizing_twice_is_normalizing_once():
    rng = np.random.default_rng(0)
    once = Weighting("none", True)
    first = once.apply(make(rng.lognormal(0, 3, (500, 30)) * (rng.random((500, 30)) < 0.5)).features)
    second = once.apply(first)
    assert first.values.tobytes() == second.values.tobytes()
    squares = np.add.reduceat(first.values.astype(np.float64) ** 2, first.indptr[:-1])
    np.testing.assert_allclose(squares, 1, atol=1e-5)


def test_unit_rows_printed_with_six_digits_are_not_touched():
    dense = np.random.default_rng(0).random((200, 20))
    dense /= np.linalg.norm(dense, axis=1, keepdims=True)
    printed = make([[float(f"{value:.6g}") for value in row] for row in dense]).features
    assert Weighting("none", True).apply(printed).values.tobytes() == printed.values.tobytes()


def test_extreme_values_normalize_without_overflow():
    features = make([[3e38, 3e38], [1e-40, 0], [0, 0]]).features
    weighted = Weighting("none", True).apply(features)
    np.testing.assert_allclose(weighted.values, [np.sqrt(0.5), np.sqrt(0.5), 1], rtol=1e-6)


def test_none_without_normalize_changes_nothing():
    features = make(random_counts(0)).features
    weighted = Weighting.fit(make(random_counts(0)), "none", normalize=False).apply(features)
    assert all(one.tobytes() == other.tobytes() for one, other in zip(features, weighted, strict=True))


def test_input_is_not_changed():
    dataset = make(random_counts(0))
    before = dataset.features.values.copy()
    Weighting.fit(dataset, "tfidf", normalize=True).apply(dataset.features)
    np.testing.assert_array_equal(dataset.features.values, before)


def test_weighted_data_are_refused():
    weighted = make([[1, 2, 0], [0, 0, 0], [3, 0, 0.25]])
    message = "x.txt: instance 2, feature 2: found the value 0.25, expected counts of at least 1 .* weighted already"
    with pytest.raises(DataError, match=message):
        Weighting.fit(weighted, "tfidf", normalize=True, path="x.txt")
    fitted = Weighting.fit(make([[1, 2, 0], [0, 1, 1]]), "tfidf", normalize=True)
    with pytest.raises(DataError, match=r"test\.txt: instance 2, feature 2: found the value 0\.25"):
        fitted.apply(weighted.features, "test.txt")
    Weighting.fit(weighted, "none", normalize=True)


def test_foreign_features_and_kinds_are_refused():
    fitted = Weighting.fit(make([[1, 2], [0, 1]]), "tfidf", normalize=True)
    with pytest.raises(DataError, match=r"test\.txt: found feature 2, expected ids from 0 to 1 as in training"):
        fitted.apply(make([[0, 0, 1]]).features, "test.txt")
    with pytest.raises(SettingsError, match="weighting: found 'bm25', expected none or tfidf"):
        Weighting.fit(make([[1]]), "bm25", normalize=True)
