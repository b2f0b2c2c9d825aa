"""The label graph: an edge between labels that co-occur, as heavy as the number of instances that have both.

With Y the instances x labels matrix of zeros and ones, the adjacency matrix is A = Y'Y: a_lm counts the instances with
labels l and m, a self-loop a_ll the positives of l. The degree is the sum of a row, its self-loop included,
d_l = sum_m a_lm, and the normalised Laplacian is

    I - D^(-1/2) A D^(-1/2):    1 - a_ll / d_l on the diagonal,    -a_lm / sqrt(d_l d_m) beside it.

A is never made: D^(-1/2) A D^(-1/2) = B'B with B = Y D^(-1/2), as sparse as the data. Neither are edges needed for the
components: labels are connected when their instances are.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from proxml_mpi.data.dataset import Dataset

Vector = NDArray[np.float64]
Pairs = Any  # scipy.sparse.csr_array of float64 ones, [n_instances, n_labels]

PRODUCTS_AT_ONCE = 1 << 24  # entries of a piece of A before those of the same place are added up


class Similarity(NamedTuple):
    """The matrix D^(-1/2) A D^(-1/2) as a function, and the degrees, none of them zero."""

    multiply: Callable[[Vector], Vector]
    degrees: Vector  # [n_labels]


def label_pairs(dataset: Dataset) -> Pairs:
    """Return Y."""
    indptr, indices = dataset.labels
    return scipy.sparse.csr_array(
        (np.ones(len(indices)), indices, indptr), shape=(dataset.n_instances, dataset.n_labels)
    )


def find_components(pairs: Pairs) -> NDArray[np.int64]:
    """Return the component of every label [n_labels]: 0 is the largest, -1 labels that no instance has."""
    n_instances, n_labels = pairs.shape
    both = scipy.sparse.block_array([[None, pairs], [pairs.T, None]], format="csr")
    found = connected_components(both, directed=False)[1][n_instances:]
    is_seen = np.bincount(pairs.indices, minlength=n_labels) > 0
    sizes = np.bincount(found[is_seen], minlength=int(found.max(initial=-1)) + 1)
    place = np.empty(len(sizes), np.int64)
    place[np.argsort(-sizes, kind="stable")] = np.arange(len(sizes))
    return np.where(is_seen, place[found], -1)


def count_neighbours(pairs: Pairs) -> NDArray[np.int64]:
    """Count the other labels that each label co-occurs with [n_labels], from A a few rows at a time."""
    by_label = pairs.T.tocsr()
    n_products = np.cumsum(by_label @ np.diff(pairs.indptr))
    neighbours, first = np.zeros(pairs.shape[1], np.int64), 0
    while first < len(neighbours):
        done = n_products[first - 1] if first else 0
        end = max(first + 1, int(np.searchsorted(n_products, done + PRODUCTS_AT_ONCE, side="right")))
        neighbours[first:end] = np.diff((by_label[first:end] @ pairs).indptr)
        first = end
    neighbours[neighbours > 0] -= 1  # itself
    return neighbours


def restrict(pairs: Pairs, labels: NDArray[np.int64]) -> Pairs:
    """Return the columns of some labels, and the rows of the instances that have any of them."""
    part = pairs[:, labels].tocsr()
    return part[np.diff(part.indptr) > 0]


def similarity(pairs: Pairs, has_loops: bool = True, is_unweighted: bool = False) -> Similarity:
    """Return D^(-1/2) A D^(-1/2) of one component of at least two labels."""
    if is_unweighted:
        return _unweighted(pairs, has_loops)
    by_label = pairs.T.tocsr()
    loops = np.zeros(pairs.shape[1]) if has_loops else np.diff(by_label.indptr).astype(np.float64)
    degrees = by_label @ np.diff(pairs.indptr).astype(np.float64) - loops
    scale = 1 / np.sqrt(degrees)

    def multiply(x: Vector) -> Vector:
        y = scale * x
        product: Vector = scale * (by_label @ (pairs @ y) - loops * y)
        return product

    return Similarity(multiply, degrees)


def _unweighted(pairs: Pairs, has_loops: bool) -> Similarity:
    adjacency = (pairs.T.tocsr() @ pairs).tocsr()
    adjacency.data[:] = 1.0
    if not has_loops:
        adjacency.setdiag(0.0)
    degrees = adjacency @ np.ones(adjacency.shape[0])
    scale = 1 / np.sqrt(degrees)
    return Similarity(lambda x: scale * (adjacency @ (scale * x)), degrees)
