"""Seeded data sets shaped like the real ones: long-tailed labels, Zipf words, and rare labels that can be learned.

Labels follow Zipf's law over a floor of two positives (as far as the average allows), so that most have a handful. An
instance is a text: every one of its labels speaks a few of the label's own words, the rest is background noise in
which, again, the word of rank r has a share of about 1 / r. Values are counts: fit for tfidf or for normalising alone.
"""

import numpy as np

from proxml_mpi.data.dataset import Dataset, Float32, Int32, Int64, Lists, Matrix
from proxml_mpi.errors import SettingsError

_ZIPF_SHIFT = 5.0  # Mandelbrot's: keeps the first few labels from owning every instance
_MOST_REPEATS = 3
_CHUNK_INSTANCES = 1 << 15


def synthesize(
    n_instances: int,
    n_features: int,
    n_labels: int,
    seed: int = 0,
    *,
    labels_per_instance: float = 3.0,
    features_per_instance: float = 75.0,
    words_per_label: int = 6,
) -> Dataset:
    """Make a data set of any size; the averages per instance are aimed at, not met exactly."""
    for option, size in (("instances", n_instances), ("features", n_features), ("labels", n_labels)):
        if not 1 <= size < 2**31:
            raise SettingsError(f"number of {option}", size, "a whole number from 1 to 2147483647")
    for option, average in (("labels", labels_per_instance), ("features", features_per_instance)):
        if not 0 < average < np.inf:
            raise SettingsError(f"{option} per instance", average, "a positive number")
    if words_per_label < 1:
        raise SettingsError("words per label", words_per_label, "at least 1")
    generator = np.random.default_rng(seed)
    labels = _draw_labels(generator, n_instances, n_labels, labels_per_instance)
    words = generator.integers(n_features, size=(n_labels, words_per_label), dtype=np.int32)
    spoken = words_per_label * labels_per_instance * _MOST_REPEATS / (_MOST_REPEATS + 1)
    n_background = max(features_per_instance - spoken, 0.2 * features_per_instance)
    vocabulary = generator.permutation(n_features).astype(np.int32)
    chunks = [
        _draw_words(generator, _rows(labels, begin, begin + _CHUNK_INSTANCES), words, vocabulary, n_background)
        for begin in range(0, n_instances, _CHUNK_INSTANCES)
    ]
    return Dataset(_stack(chunks), labels, n_features, n_labels)


def _draw_labels(generator: np.random.Generator, n_instances: int, n_labels: int, average: float) -> Lists:
    """Deal the positives of all labels out to the instances, one to each as far as they go."""
    n_pairs = max(round(n_instances * average), 1)
    floor = min(2, 3 * n_pairs // (4 * n_labels))
    share = 1 / (np.arange(n_labels) + _ZIPF_SHIFT)
    n_positives = floor + generator.multinomial(n_pairs - floor * n_labels, share / share.sum())
    dealt = generator.permutation(np.repeat(generator.permutation(n_labels), n_positives))
    one_each = generator.permutation(n_instances)[:n_pairs]
    anywhere = generator.integers(n_instances, size=n_pairs - len(one_each))
    pairs = np.unique(np.concatenate([one_each, anywhere]) * n_labels + dealt)
    indptr = np.searchsorted(pairs, np.arange(n_instances + 1) * n_labels)
    return Lists(indptr.astype(np.int64), (pairs % n_labels).astype(np.int32))


def _rows(lists: Lists, begin: int, end: int) -> Lists:
    indptr = lists.indptr[begin : end + 1]
    return Lists(indptr - indptr[0], lists.indices[indptr[0] : indptr[-1]])


def _draw_words(
    generator: np.random.Generator, labels: Lists, words: Int32, vocabulary: Int32, n_background: float
) -> Matrix:
    """Write the texts of some instances: a word is one key, row and feature; how often it occurs is its count."""
    n_rows, n_features = len(labels.indptr) - 1, len(vocabulary)
    row_keys = np.arange(n_rows + 1) * n_features
    keys = np.repeat(row_keys[:-1], np.diff(labels.indptr))[:, None] + words[labels.indices]
    label_keys = np.repeat(keys.ravel(), generator.integers(_MOST_REPEATS + 1, size=keys.size))
    n_words = generator.poisson(n_background, n_rows)
    # Ranks uniform in the logarithm: the density of rank r is about 1 / r.
    ranks = np.exp(generator.random(n_words.sum()) * np.log(n_features + 1)) - 1
    noise = vocabulary[np.minimum(ranks.astype(np.int64), n_features - 1)]
    spoken = np.sort(np.concatenate([label_keys, np.repeat(row_keys[:-1], n_words) + noise]))
    first = np.flatnonzero(np.diff(spoken, prepend=-1))
    counts = np.diff(first, append=len(spoken))
    keys = spoken[first]
    indptr = np.searchsorted(keys, row_keys)
    indices = keys - np.repeat(row_keys[:-1], np.diff(indptr))
    return Matrix(indptr.astype(np.int64), indices.astype(np.int32), counts.astype(np.float32))


def _stack(chunks: list[Matrix]) -> Matrix:
    """Put matrices on top of each other."""
    lengths: list[Int64] = [np.diff(chunk.indptr) for chunk in chunks]
    indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.concatenate(lengths))])
    indices: Int32 = np.concatenate([chunk.indices for chunk in chunks])
    values: Float32 = np.concatenate([chunk.values for chunk in chunks])
    return Matrix(indptr, indices, values)
