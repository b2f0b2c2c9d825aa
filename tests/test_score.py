"""Scoring and merging against dense numpy, whatever the split of labels and the number of threads."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxml_mpi.score.index import build_index, score_top_k
from proxml_mpi.score.topk import TopK, merge_top_k


def random_matrix(random, n_rows, n_columns, density, values):
    """Make a dense float32 matrix and its CSR arrays; values draws what is stored, explicit zeros included."""
    stored = random.random((n_rows, n_columns)) < density
    dense = np.where(stored, values(random, (n_rows, n_columns)), 0).astype(np.float32)
    indptr = np.concatenate([[0], np.cumsum(stored.sum(axis=1))]).astype(np.int64)
    return dense, (indptr, np.nonzero(stored)[1].astype(np.int32), dense[stored])


def coarse(random, shape):
    """Few distinct values: ties and cancellations abound."""
    return random.integers(-2, 3, shape) / 2


def fine(random, shape):
    return random.normal(size=shape) * 10.0 ** random.integers(-6, 6, shape)


def close(random, shape):
    """Values so close that exact sums differ where their float32 roundings are equal."""
    return 1 + random.integers(0, 3, shape) * 2.0**-23


def dense_scores(weights, bias, features):
    """The definition of a score, all labels at once: float64 [n_instances, n_labels] rounded to float32."""
    sums = np.zeros((len(features), len(weights)))
    for feature in range(features.shape[1]):
        sums += features[:, [feature]].astype(np.float64) * weights[:, feature].astype(np.float64)
    return (sums + bias).astype(np.float32)


def dense_top_k(scores, labels, k):
    """Rank by a full sort: score descending, label ascending, without -inf."""
    order = np.lexsort((np.broadcast_to(labels, scores.shape), -scores), axis=-1)[:, :k]
    best = np.take_along_axis(scores, order, axis=1)
    best_labels = np.where(best > -np.inf, labels[order], -1)
    missing = ((0, 0), (0, k - order.shape[1]))
    return TopK(np.pad(best_labels, missing, constant_values=-1), np.pad(best, missing, constant_values=-np.inf))


def assert_same_bits(found, expected):
    assert found.labels.dtype == np.int32
    assert found.scores.dtype == np.float32
    np.testing.assert_array_equal(found.labels, expected.labels)
    np.testing.assert_array_equal(found.scores + np.float32(0), expected.scores + np.float32(0))


def part_of_model(model, bias, first, last, n_features):
    indptr, indices, data = model
    start, stop = indptr[first], indptr[last]
    return build_index(
        indptr[first : last + 1] - start, indices[start:stop], data[start:stop], bias[first:last], n_features, first
    )


cases = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 2**32),
        "n_labels": st.sampled_from([0, 1, 2, 7, 40, 300]),
        "n_features": st.integers(1, 30),
        "n_instances": st.integers(0, 12),
        "k": st.sampled_from([1, 2, 5, 50]),
        "weight_density": st.sampled_from([0.0, 0.01, 0.05, 0.3, 1.0]),
        "feature_density": st.sampled_from([0.0, 0.1, 0.5, 1.0]),
        "values": st.sampled_from([coarse, fine, close]),
        "never_predicted": st.sampled_from([0.0, 0.5, 1.0]),
    }
)


def make_case(case):
    random = np.random.default_rng(case["seed"])
    draw = case["values"]
    weights, model = random_matrix(random, case["n_labels"], case["n_features"], case["weight_density"], draw)
    features, rows = random_matrix(random, case["n_instances"], case["n_features"], case["feature_density"], draw)
    bias = draw(random, case["n_labels"]).astype(np.float32)
    bias[random.random(case["n_labels"]) < case["never_predicted"]] = -np.inf
    return weights, model, bias, features, rows


@settings(max_examples=300, deadline=None)
@given(cases)
def test_scoring_equals_dense_numpy(case):
    weights, model, bias, features, rows = make_case(case)
    index = build_index(*model, bias, case["n_features"], 1000)
    expected = dense_top_k(dense_scores(weights, bias, features), 1000 + np.arange(case["n_labels"]), case["k"])
    assert_same_bits(score_top_k(index, rows, case["k"]), expected)


@settings(max_examples=60, deadline=None)
@given(cases, st.sampled_from([2, 3, 5]))
def test_any_split_of_labels_and_any_threads_give_the_same_bits(case, n_parts):
    _, model, bias, _, rows = make_case(case)
    n_labels, n_features, k = case["n_labels"], case["n_features"], case["k"]
    whole = score_top_k(part_of_model(model, bias, 0, n_labels, n_features), rows, k)
    cuts = np.sort(np.random.default_rng(case["seed"]).integers(0, n_labels + 1, n_parts - 1))
    bounds = [0, *cuts.tolist(), n_labels]
    parts = [
        score_top_k(part_of_model(model, bias, bounds[p], bounds[p + 1], n_features), rows, k, n_threads=1 + p % 3)
        for p in range(n_parts)
    ]
    merged = merge_top_k(parts, k)
    assert merged.labels.tobytes() == whole.labels.tobytes()
    assert merged.scores.tobytes() == whole.scores.tobytes()


def test_index_holds_every_weight_by_feature():
    random = np.random.default_rng(5)
    weights, model = random_matrix(random, 50, 20, 0.2, fine)
    index = build_index(*model, np.zeros(50, np.float32), 20, 0)
    for feature in range(20):
        entries = slice(index.indptr[feature], index.indptr[feature + 1])
        labels = index.label_at[index.positions[entries]]
        np.testing.assert_array_equal(np.sort(labels), np.nonzero(weights[:, feature])[0])
        assert (np.diff(index.positions[entries]) > 0).all()
        np.testing.assert_array_equal(index.weights[entries], weights[labels, feature])


def test_ties_across_touched_and_untouched_labels_go_by_label():
    # Feature 0 lifts labels 1 and 3 from -1 to 0; labels 0 and 4 have bias 0; label 2 stays below; label 5 is barred.
    indptr = np.array([0, 0, 1, 1, 2, 2, 3], np.int64)
    weights = (indptr, np.zeros(3, np.int32), np.ones(3, np.float32))
    bias = np.array([0, -1, -0.5, -1, 0, -np.inf], np.float32)
    index = build_index(*weights, bias, 1, 0)
    rows = (np.array([0, 1, 1], np.int64), np.zeros(1, np.int32), np.ones(1, np.float32))
    top = score_top_k(index, rows, 6)
    assert top.labels.tolist() == [[0, 1, 3, 4, 2, -1], [0, 4, 2, 1, 3, -1]]
    assert top.scores.tolist() == [[0, 0, 0, 0, -0.5, -np.inf], [0, 0, -0.5, -1, -1, -np.inf]]


def test_sums_that_cancel_list_a_label_once():
    # 40 labels of bias 0. Label 7: 1 - 1 + 0.5, zero on the way; label 9: 1 - 1, zero at the end.
    indptr = np.array([0] * 8 + [3] * 2 + [5] * 31, np.int64)
    weights = (indptr, np.array([0, 1, 2, 0, 1], np.int32), np.array([1, -1, 0.5, 1, -1], np.float32))
    index = build_index(*weights, np.zeros(40, np.float32), 3, 0)
    rows = (np.array([0, 3], np.int64), np.arange(3, dtype=np.int32), np.ones(3, np.float32))
    top = score_top_k(index, rows, 12)
    assert top.labels.tolist() == [[7, 0, 1, 2, 3, 4, 5, 6, 8, 9, 10, 11]]
    assert top.scores.tolist() == [[0.5] + [0] * 11]


def test_scores_that_round_to_the_same_float32_are_ties():
    # In float64 label 1 is ahead by 2^-40; both round to 1, so label 0 comes first, as a reader of scores expects.
    weights = (np.array([0, 1, 3], np.int64), np.array([0, 0, 1], np.int32), np.array([1, 1, 2**-40], np.float32))
    index = build_index(*weights, np.zeros(2, np.float32), 2, 0)
    rows = (np.array([0, 2], np.int64), np.array([0, 1], np.int32), np.ones(2, np.float32))
    assert score_top_k(index, rows, 1).labels.tolist() == [[0]]
    assert score_top_k(index, rows, 2).labels.tolist() == [[0, 1]]


@pytest.mark.parametrize("n_threads", [2, 3, 16])
def test_threads_and_slices_of_instances_change_nothing(n_threads):
    random = np.random.default_rng(11)
    _, model = random_matrix(random, 2000, 300, 0.02, coarse)
    _, rows = random_matrix(random, 150, 300, 0.1, coarse)
    index = build_index(*model, coarse(random, 2000).astype(np.float32), 300, 0)
    whole = score_top_k(index, rows, 5)
    assert_same_bits(score_top_k(index, rows, 5, n_threads), whole)
    rounds = [score_top_k(index, (rows[0][i : i + 51], *rows[1:]), 5, n_threads) for i in range(0, 150, 50)]
    assert_same_bits(TopK(*map(np.concatenate, zip(*rounds, strict=True))), whole)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32), st.lists(st.integers(1, 6), min_size=1, max_size=6), st.integers(1, 12))
def test_merging_equals_a_full_sort(seed, widths, k):
    random = np.random.default_rng(seed)
    labels = np.array([random.permutation(100)[: sum(widths)] for _ in range(8)], np.int32)
    scores = coarse(random, labels.shape).astype(np.float32)
    empty = random.random(labels.shape) < 0.3
    labels[empty], scores[empty] = -1, -np.inf
    ends = np.cumsum(widths)[:-1]
    parts = [TopK(*part) for part in zip(np.split(labels, ends, 1), np.split(scores, ends, 1), strict=True)]
    order = np.lexsort((labels, -scores), axis=-1)[:, :k]
    found = merge_top_k(parts, k)
    n_kept = order.shape[1]
    np.testing.assert_array_equal(found.labels[:, :n_kept], np.take_along_axis(labels, order, 1))
    np.testing.assert_array_equal(found.scores[:, :n_kept], np.take_along_axis(scores, order, 1))
    assert (found.labels[:, n_kept:] == -1).all()
    assert (found.scores[:, n_kept:] == -np.inf).all()
