"""Robustness: open the models, read the test data, check the theorem, count worst errors, change the vocabulary.

Worst cases are those of the model itself, so that rare features are not damped as they are at prediction.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from proxml_mpi.analysis.margins import worst_errors
from proxml_mpi.analysis.theorem import Checked, check_label
from proxml_mpi.analysis.vocabulary import KINDS, change, overlaps
from proxml_mpi.data.dataset import Dataset, Lists, Matrix
from proxml_mpi.data.weighting import Weighting
from proxml_mpi.errors import DataError, ModelError
from proxml_mpi.instances import Piece, check_shape, hand_round
from proxml_mpi.lists import merge_share, reduce_evaluation
from proxml_mpi.progress import Stages
from proxml_mpi.ranks.exchange import collect_rows
from proxml_mpi.ranks.partition import partition, share_of
from proxml_mpi.ranks.shared import share
from proxml_mpi.ranks.threads import choose_threads
from proxml_mpi.ranks.world import World
from proxml_mpi.score.index import Index, build_index, score_top_k
from proxml_mpi.score.metrics import Evaluation, start_evaluation
from proxml_mpi.score.propensity import PRESETS, inverse_propensities
from proxml_mpi.score.warm_up import compile_scoring
from proxml_mpi.settings.robustness import RobustnessSettings
from proxml_mpi.solve.block import Block
from proxml_mpi.store.model_reader import ModelHeader, read_header, read_labels
from proxml_mpi.store.sources import read_dataset

UNCHANGED = "none"


class Change(NamedTuple):
    """What is done to the vocabulary of the test data."""

    kind: str
    fraction: float


class Curve(NamedTuple):
    """The metrics of a model on changed test data, overall and by frequency of the labels."""

    change: Change
    metrics: dict[str, float]
    by_frequency: dict[str, dict[str, float]]


class Measured(NamedTuple):
    """What was found of one model; rows by label are rank 0's alone."""

    header: ModelHeader
    errors: NDArray[np.float64] | None  # [n_labels, len(FACTS) + 2 len(budgets)]
    theorem: NDArray[np.float64] | None  # [n_checked, fields of Checked]
    curves: list[Curve]


class Found(NamedTuple):
    """Everything that was measured."""

    models: list[Measured]
    overlap: NDArray[np.float64] | None  # [n_labels, len(OVERLAP)]
    n_instances: int


def changes_of(settings: RobustnessSettings) -> list[Change]:
    """Return all changes of the vocabulary, none first."""
    fractions = sorted({fraction for fraction in settings.fractions if fraction > 0})
    return [Change(UNCHANGED, 0.0), *(Change(kind, fraction) for kind in KINDS for fraction in fractions)]


def measure(settings: RobustnessSettings, world: World) -> Found:
    """Measure one or two models on test data. Collective: every rank calls this."""
    stages = Stages()
    n_threads = choose_threads(world, settings.threads)
    headers: list[ModelHeader] = []
    dataset = None
    with stages.stage("read") as said:
        with world.together():
            if world.is_first:
                headers = [read_header(path) for path in (settings.model, settings.against) if path is not None]
                dataset = _read_test(settings, headers, n_threads)
        headers, n_instances = world.from_first((headers, 0 if dataset is None else dataset.n_instances))
        said.append(f"{n_instances:,} instances, {len(headers)} models")

    with stages.stage("compile") as said, world.first_of_node_first():
        compile_scoring()
        said.append("scoring")

    models = []
    for number, header in enumerate(headers):
        with stages.stage(f"measure model {number + 1}") as said:
            models.append(_measure_model(settings, world, header, dataset, n_threads, has_theorem=number == 0))
            said.append(f"{len(models[-1].curves)} versions of the test data")

    overlap = None
    if settings.train is not None:
        with stages.stage("overlap") as said:
            overlap = _overlap(settings, world, headers[0], dataset, n_threads)
            said.append(f"{headers[0].n_labels:,} labels")
    return Found(models, overlap, n_instances)


def _read_test(settings: RobustnessSettings, headers: list[ModelHeader], n_threads: int) -> Dataset:
    """Read the test data and make sure that they fit the models, and these each other."""
    first = headers[0]
    for other in headers[1:]:
        for what in ("n_features", "n_labels"):
            found, expected = getattr(other, what), getattr(first, what)
            if found != expected:
                raise ModelError(other.path, f"{what}: found {found}, expected {expected} as in {first.path}")
    dataset = read_dataset(settings.test, settings.format, n_threads, (first.n_features, first.n_labels))
    check_shape(settings.test, first, dataset.n_features, dataset.n_labels)
    if len(dataset.labels.indices) == 0:
        raise DataError(settings.test, "found no labels, expected some to measure by")
    return dataset


def _measure_model(
    settings: RobustnessSettings,
    world: World,
    header: ModelHeader,
    dataset: Dataset | None,
    n_threads: int,
    has_theorem: bool,
) -> Measured:
    """Take all measures of one model; ranks have ranges of labels with about as many weights. Collective."""
    bounds = partition(np.diff(header.indptr) + 1.0, world.size)
    with world.together():
        block = read_labels(header, int(bounds[world.rank]), int(bounds[world.rank + 1]))
    index = build_index(block.indptr, block.indices, block.data, block.bias, header.n_features, block.first_label)
    propensities = inverse_propensities(header.n_positives, header.n_instances, PRESETS[settings.propensity])
    errors, theorem, curves = None, None, []
    pieces = None if dataset is None else _pieces(settings, header, dataset)
    for piece, change_made in zip(hand_round(world, pieces), changes_of(settings), strict=True):
        if change_made.kind == UNCHANGED:
            errors = collect_rows(world, worst_errors(block, piece, header.n_features, settings.budgets))
            if has_theorem:
                theorem = collect_rows(world, _check_theorem(settings, header, block, piece))
        evaluation = start_evaluation(settings.k, propensities, header.n_positives)
        _evaluate(world, index, piece, evaluation, n_threads)
        curves.append(Curve(change_made, evaluation.result(), evaluation.by_frequency()))
    return Measured(header, errors, theorem, curves)


def _pieces(settings: RobustnessSettings, header: ModelHeader, dataset: Dataset) -> Iterator[Piece]:
    """Yield the test data under every change, weighted as the model's training was."""
    weighting = Weighting(header.attributes["weighting"], bool(header.attributes["normalize"]), header.idf)
    for kind, fraction in changes_of(settings):
        features = dataset.features
        if kind != UNCHANGED:
            features = change(features, dataset.n_features, kind, fraction, settings.seed)
        yield Piece(*weighting.apply(features, settings.test), *dataset.labels)


def _evaluate(world: World, index: Index, piece: Piece, evaluation: Evaluation, n_threads: int) -> None:
    """Rank the labels for all instances and add up the metrics. Collective."""
    top = merge_share(world, score_top_k(index, piece[:3], evaluation.ks[-1], n_threads))
    begin, end = share_of(len(piece.indptr) - 1, world.size, world.rank)
    evaluation.update(top.labels, (piece.label_indptr[begin : end + 1], piece.label_indices))
    reduce_evaluation(world, evaluation)


def _check_theorem(
    settings: RobustnessSettings, header: ModelHeader, block: Block, piece: Piece
) -> NDArray[np.float64]:
    """Check the theorem on the drawn labels of this rank: [n_labels, fields of Checked]."""
    with_weights = np.flatnonzero(np.diff(header.indptr) > 0)
    drawn = np.sort(np.random.default_rng(settings.seed).permutation(with_weights)[: settings.theorem_labels])
    n_instances = len(piece.indptr) - 1
    arrays = (piece.values.astype(np.float64), piece.indices, piece.indptr)
    X = scipy.sparse.csr_array(arrays, shape=(n_instances, header.n_features))
    instance_of = np.repeat(np.arange(n_instances), np.diff(piece.label_indptr))
    rows = [np.empty((0, len(Checked._fields)))]
    for label in drawn[(drawn >= block.first_label) & (drawn < block.end_label)].tolist():
        at = label - block.first_label
        weights = slice(block.indptr[at], block.indptr[at + 1])
        y = np.full(n_instances, -1.0)
        y[instance_of[piece.label_indices == label]] = 1.0
        w, b = block.data[weights].astype(np.float64), float(block.bias[at])
        rows.append(np.array([check_label(label, X[:, block.indices[weights]], y, w, b, float(block.lambda_[at]))]))
    return np.concatenate(rows)


class Positives(NamedTuple):
    """Features by instance and positives by label, to be shared."""

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    values: NDArray[np.float32]
    label_indptr: NDArray[np.int64]
    label_indices: NDArray[np.int32]


def _overlap(
    settings: RobustnessSettings, world: World, header: ModelHeader, test: Dataset | None, n_threads: int
) -> NDArray[np.float64] | None:
    """Compare the vocabulary of training and test positives, label by label. Collective."""
    train = None
    with world.together():
        if world.is_first and settings.train is not None:
            train = _read_train(settings.train, settings.format, header, n_threads)
    shared = [share(world, None if x is None else Positives(*x.features, *x.positives)) for x in (train, test)]
    costs = np.diff(shared[0].label_indptr) + np.diff(shared[1].label_indptr) + 1.0
    bounds = partition(costs, world.size)
    mine = range(int(bounds[world.rank]), int(bounds[world.rank + 1]))
    known, tested = ((Matrix(*x[:3]), Lists(*x[3:])) for x in shared)
    return collect_rows(world, overlaps(mine, known, tested, header.n_features))


def _read_train(path: Path, format_name: str, header: ModelHeader, n_threads: int) -> Dataset:
    dataset = read_dataset(path, format_name, n_threads)
    expected = header.attributes["data_digest"]
    if dataset.digest != expected:
        problem = f"has the digest {dataset.digest}, expected {expected}: {header.path} was trained on other data"
        raise DataError(path, problem)
    return dataset
