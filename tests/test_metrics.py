"""Metrics against a worked example, against napkinXC, and against themselves over splits of the instances."""

from math import isnan, log, log2, nan

import napkinxc.metrics as napkinxc
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxml_mpi.errors import SettingsError
from proxml_mpi.score.metrics import FREQUENCY_BINS, start_evaluation
from proxml_mpi.score.propensity import (
    PRESETS,
    Propensity,
    inverse_propensities,
    reorder_by_propensity,
    score_by_propensity,
)
from proxml_mpi.score.topk import TopK


def as_lists(truth):
    lengths = [len(labels) for labels in truth]
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return indptr, np.array([label for labels in truth for label in labels], np.int32)


def evaluate(ks, inverse_propensity, n_positives, labels, truth, reordered=None):
    evaluation = start_evaluation(ks, inverse_propensity, n_positives)
    evaluation.update(np.array(labels, np.int32), as_lists(truth), reordered)
    return evaluation


# Worked example: one label in each frequency bin.
N_POSITIVES = np.array([200, 50, 10, 3, 1, 0])
INVERSE_PROPENSITY = np.array([1, 1.5, 2, 3, 5, 8])
TRUTH = [[0, 3], [2], [], [1, 4, 5]]
TOP = [[0, 1, 3], [1, 2, 4], [0, 1, 2], [4, -1, -1]]


def worked_example():
    return evaluate([3, 1, 3], INVERSE_PROPENSITY, N_POSITIVES, TOP, TRUTH)


def test_worked_example():
    second = 1 / log2(3)  # discount at rank 2; rank 1 has 1, rank 3 has 1/2
    expected = {
        "P@1": 2 / 4,  # hits at rank 1: label 0 of the first instance, label 4 of the last
        "P@3": 4 / 12,  # hits 2, 1, 0, 1
        "nDCG@1": 2 / 4,
        "nDCG@3": (1.5 / (1 + second) + second / 1 + 1 / (1.5 + second)) / 4,
        "recall@1": (1 / 2 + 1 / 3) / 4,
        "recall@3": (2 / 2 + 1 / 1 + 1 / 3) / 4,
        "PSP@1": (1 + 5) / (3 + 2 + 8),
        "PSP@3": (1 + 3 + 2 + 5) / (3 + 1 + 2 + 8 + 5 + 1.5),
        "PSnDCG@1": (1 + 5) / (3 + 2 + 8),
        "PSnDCG@3": ((1 + 3 / 2) / (1 + second) + 2 * second + 5 / (1.5 + second))
        / ((3 + second) / (1 + second) + 2 + (8 + 5 * second + 1.5 / 2) / (1.5 + second)),
        "PSR@1": (1 / 2 + 5 / 3) / (3 / 2 + 2 / 1 + 8 / 3),
        "PSR@3": (4 / 2 + 2 / 1 + 5 / 3) / (4 / 2 + 2 / 1 + 14.5 / 3),
        "coverage@1": 2 / 6,  # labels 0 and 4, of the six in the truth
        "coverage@3": 4 / 6,  # and 3 and 2
        "coverage_of_best@1": 2 / 3,  # the best labels of the instances are 3, 2, 5
        "coverage_of_best@3": 4 / 6,
        "coverage_of_all@1": 2 / 6,
        "coverage_of_all@3": 4 / 6,
        "covered@1": 2 / 100,
        "covered@3": 4 / 100,
    }
    evaluation = worked_example()
    assert evaluation.result() == pytest.approx({key: 100 * value for key, value in expected.items()}, abs=1e-12)
    assert (evaluation.n_instances, evaluation.n_unlabelled) == (4, 1)


def test_worked_example_without_unlabelled_instances():
    result = worked_example().result(skip_unlabelled=True)
    assert result["P@1"] == 100 * 2 / 3
    assert result["P@3"] == 100 * 4 / 9
    assert result["recall@3"] == pytest.approx(100 * 7 / 9)
    assert result["PSP@3"] == worked_example().result()["PSP@3"]


def test_worked_example_by_frequency():
    bins = worked_example().by_frequency()
    assert list(bins) == list(FREQUENCY_BINS)
    # Label 3 is true in the first instance only, hit at rank 3 (discount 1/2).
    few = bins["2-5"]
    assert (few["n_labels"], few["n_instances"]) == (1, 1)
    assert (few["P@1"], few["P@3"]) == (0, pytest.approx(100 / 12))
    assert (few["recall@1"], few["recall@3"], few["nDCG@3"]) == (0, 100, 50)
    assert (few["PSP@1"], few["PSP@3"], few["PSR@3"], few["PSnDCG@3"]) == (0, 100, 100, 50)
    assert (few["coverage@1"], few["coverage@3"], few["covered@3"]) == (0, 100, 1)
    assert bins["0"]["recall@3"] == bins["0"]["coverage@3"] == 0


def test_order_of_the_keys_is_by_k():
    keys = list(worked_example().result())
    assert keys[:6] == ["P@1", "nDCG@1", "PSP@1", "PSnDCG@1", "recall@1", "PSR@1"]
    assert all(key.endswith("@3") for key in keys[len(keys) // 2 :])


def test_missing_places_are_wrong():
    result = evaluate([5], INVERSE_PROPENSITY, N_POSITIVES, TOP, TRUTH).result()
    assert result["P@5"] == 100 * 4 / 20


def test_nothing_to_divide_by_is_nan():
    nothing = start_evaluation([1], INVERSE_PROPENSITY, N_POSITIVES)
    assert all(isnan(nothing.result()[key]) for key in ("P@1", "nDCG@1", "PSP@1", "recall@1", "coverage@1"))
    unlabelled = evaluate([1], INVERSE_PROPENSITY, N_POSITIVES, [[0, 1]], [[]])
    assert unlabelled.result()["P@1"] == 0
    assert isnan(unlabelled.result(skip_unlabelled=True)["P@1"])


def random_case(seed, n_instances=60, n_labels=40, width=7):
    """Make ranked lists, some of them short, and truths, some of them empty, that meet often enough."""
    random = np.random.default_rng(seed)
    n_positives = random.integers(0, 150, n_labels) // random.integers(1, 100, n_labels)
    truth = [random.choice(n_labels, random.integers(0, 9), replace=False).tolist() for _ in range(n_instances)]
    labels = np.array([random.permutation(n_labels)[:width] for _ in range(n_instances)], np.int32)
    labels[np.arange(width) >= random.integers(width // 2, 2 * width, n_instances)[:, None]] = -1
    return n_positives, inverse_propensities(n_positives, 500, PRESETS["other"]), labels, truth


def napkinxc_metrics(labels, truth, inverse_propensity, k):
    """The same metrics by napkinXC, at 1 to k, in percent; it too counts unlabelled instances as zero."""
    predicted = [[int(label) for label in row if label >= 0] for row in labels]
    return {
        "P": 100 * napkinxc.precision_at_k(truth, predicted, k=k),
        "nDCG": 100 * napkinxc.ndcg_at_k(truth, predicted, k=k),
        "recall": 100 * napkinxc.recall_at_k(truth, predicted, k=k),
        "PSP": 100 * napkinxc.psprecision_at_k(truth, predicted, inverse_propensity, k=k),
        "PSnDCG": 100 * napkinxc.psndcg_at_k(truth, predicted, inverse_propensity, k=k),
        "PSR": 100 * napkinxc.psrecall_at_k(truth, predicted, inverse_propensity, k=k),
        "coverage": 100 * napkinxc.coverage_at_k(truth, predicted, k=k),
    }


@pytest.mark.parametrize("seed", range(20))
def test_metrics_equal_napkinxc(seed):
    n_positives, inverse_propensity, labels, truth = random_case(seed)
    evaluation = evaluate(range(1, 11), inverse_propensity, n_positives, labels, truth)
    labelled = [i for i in range(len(truth)) if truth[i]]
    for skip_unlabelled, kept in ((False, range(len(truth))), (True, labelled)):
        result = evaluation.result(skip_unlabelled)
        expected = napkinxc_metrics([labels[i] for i in kept], [truth[i] for i in kept], inverse_propensity, 10)
        for name, values in expected.items():
            found = [result[f"{name}@{k}"] for k in range(1, 11)]
            np.testing.assert_allclose(found, values, rtol=0, atol=1e-9, err_msg=name)


@pytest.mark.parametrize("seed", range(5))
def test_bins_equal_napkinxc_on_restricted_labels(seed):
    n_positives, inverse_propensity, labels, truth = random_case(seed, n_instances=150)
    evaluation = evaluate([1, 3, 5], inverse_propensity, n_positives, labels, truth)
    ranges = {"0": (0, 0), "1": (1, 1), "2-5": (2, 5), "6-20": (6, 20), "21-100": (21, 100), ">100": (101, 10**9)}
    total = evaluation.result()
    bins = evaluation.by_frequency()
    for k in (1, 3, 5):
        assert sum(metrics[f"P@{k}"] for metrics in bins.values()) == pytest.approx(total[f"P@{k}"], abs=1e-9)
    for name, (fewest, most) in ranges.items():
        inside = {label for label, count in enumerate(n_positives) if fewest <= count <= most}
        kept = [i for i in range(len(truth)) if inside.intersection(truth[i])]
        assert (bins[name]["n_labels"], bins[name]["n_instances"]) == (len(inside), len(kept))
        if not kept:
            continue
        restricted = [[label for label in truth[i] if label in inside] for i in kept]
        predicted = [[label if label >= 0 else 10**6 for label in labels[i]] for i in kept]
        expected = napkinxc_metrics(predicted, restricted, inverse_propensity, 5)
        for metric in ("nDCG", "recall", "PSP", "PSnDCG", "PSR", "coverage"):
            found = [bins[name][f"{metric}@{k}"] for k in (1, 3, 5)]
            np.testing.assert_allclose(found, expected[metric][[0, 2, 4]], rtol=0, atol=1e-9, err_msg=metric)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 9))
def test_any_split_of_instances_gives_the_same_bits(seed, n_parts):
    n_positives, inverse_propensity, labels, truth = random_case(seed)
    whole = evaluate([1, 3, 5], inverse_propensity, n_positives, labels, truth)
    random = np.random.default_rng(seed)
    sums = start_evaluation([1, 3, 5], inverse_propensity, n_positives)
    for part in np.array_split(random.permutation(len(truth)), n_parts):
        sums.add(evaluate([1, 3, 5], inverse_propensity, n_positives, labels[part], [truth[i] for i in part]))
    np.testing.assert_array_equal(sums.sums, whole.sums)
    np.testing.assert_array_equal(sums.best_ranks, whole.best_ranks)
    assert repr(sums.result()) == repr(whole.result())
    assert repr(sums.by_frequency()) == repr(whole.by_frequency())


def test_rounds_over_slices_of_the_truth_add_up():
    n_positives, inverse_propensity, labels, truth = random_case(3)
    whole = evaluate([1, 5], inverse_propensity, n_positives, labels, truth)
    indptr, indices = as_lists(truth)
    rounds = start_evaluation([1, 5], inverse_propensity, n_positives)
    for i in range(0, len(truth), 25):
        rounds.update(labels[i : i + 25], (indptr[i : i + 26], indices))
    assert rounds.result() == whole.result()


@pytest.mark.parametrize("propensity", PRESETS.values())
def test_inverse_propensities_equal_napkinxc(propensity):
    truth = [labels for labels in random_case(1)[3] if labels]
    n_positives = np.bincount(np.concatenate(truth))
    found = inverse_propensities(n_positives, len(truth), propensity)
    expected = napkinxc.Jain_et_al_inverse_propensity(truth, propensity.a, propensity.b)
    np.testing.assert_allclose(found, expected, rtol=1e-14)


def test_inverse_propensity_by_hand():
    # N = 1000, N_l = 0 and 8, A = 0.5, B = 0.4.
    c = (log(1000) - 1) * 1.4**0.5
    found = inverse_propensities(np.array([0, 8], np.int32), 1000, PRESETS["wikipedia"])
    np.testing.assert_allclose(found, [1 + c / 0.4**0.5, 1 + c / 8.4**0.5], rtol=1e-15)
    assert inverse_propensities(np.array([0, 1]), 2, PRESETS["other"]).tolist() == [1, 1]


@pytest.mark.parametrize(
    ("a", "b", "option"),
    [(0, 1, "--propensity-a"), (-1, 1, "--propensity-a"), (nan, 1, "--propensity-a"), (1, 0, "--propensity-b")],
)
def test_bad_propensities_are_refused(a, b, option):
    with pytest.raises(SettingsError, match=f"{option}: found .* expected a number above 0"):
        Propensity(a, b)


@pytest.mark.parametrize("ks", [[], [0, 1], [-1]])
def test_bad_lists_of_k_are_refused(ks):
    with pytest.raises(SettingsError, match="--k"):
        start_evaluation(ks, INVERSE_PROPENSITY, N_POSITIVES)


def reorder_literally(labels, scores, inverse_propensity):
    """The published rule, word by word, for one list."""
    remaining = list(zip(labels, scores, strict=True))
    emitted = []
    while remaining:
        chosen = 0
        for later in range(1, len(remaining)):
            label, score = remaining[later]
            if score > 0 and inverse_propensity[label] > inverse_propensity[remaining[chosen][0]]:
                chosen = later
        emitted.append(remaining.pop(chosen))
    return emitted


@pytest.mark.parametrize("seed", range(30))
def test_reordering_follows_the_rule(seed):
    random = np.random.default_rng(seed)
    inverse_propensity = random.integers(1, 6, 40).astype(np.float64)
    labels = np.array([random.permutation(40)[:5] for _ in range(50)], np.int32)
    scores = -np.sort(-random.integers(-3, 4, labels.shape) / 2).astype(np.float32)
    labels[:5, 4], scores[:5, 4] = -1, -np.inf
    found = reorder_by_propensity(TopK(labels, scores), inverse_propensity)
    for i in range(len(labels)):
        pairs = list(zip(found.labels[i], found.scores[i], strict=True))
        assert pairs == reorder_literally(labels[i], scores[i], inverse_propensity)


def test_scores_times_propensity_rank_anew():
    labels = np.array([[2, 0, 1, 3], [1, 0, -1, -1]], np.int32)
    scores = np.array([[1, 0.5, -0.5, -2], [-1.5, -3, -np.inf, -np.inf]], np.float32)
    found = score_by_propensity(TopK(labels, scores), np.array([1.0, 20, 1, 99]), 3)
    # 4 x 1, 2.25 x 1, 0.25 x 20, nothing; and scores below -1 are all alike.
    assert found.labels.tolist() == [[1, 2, 0], [1, 0, -1]]
    assert found.scores.tolist() == [[5, 4, 2.25], [0, 0, -np.inf]]


def test_reordering_changes_propensity_metrics_only():
    n_positives, inverse_propensity, labels, truth = random_case(8, n_instances=400, width=5)
    scores = np.where(labels >= 0, np.array([0.9, 0.5, 0.1, -0.2, -0.3], np.float32), np.float32(-np.inf))
    reordered = reorder_by_propensity(TopK(labels, scores), inverse_propensity).labels
    plain = evaluate([1, 3, 5], inverse_propensity, n_positives, labels, truth).result()
    paper = evaluate([1, 3, 5], inverse_propensity, n_positives, labels, truth, reordered).result()
    on_reordered = evaluate([1, 3, 5], inverse_propensity, n_positives, reordered, truth).result()
    for key in plain:
        assert paper[key] == (on_reordered if key.startswith("PS") else plain)[key]
    assert paper["PSP@1"] > plain["PSP@1"]
    assert paper["PSP@5"] == pytest.approx(plain["PSP@5"], abs=1e-12)
