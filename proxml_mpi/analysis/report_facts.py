"""What the report of a model is made of: numbers and choices, no words."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from proxml_mpi.data.damping import Damping
from proxml_mpi.data.dataset import Dataset
from proxml_mpi.data.statistics import TAIL
from proxml_mpi.errors import FileError, ModelError
from proxml_mpi.files import reason
from proxml_mpi.instances import Piece, open_instances
from proxml_mpi.ranks.partition import partition
from proxml_mpi.score.index import build_index, score_top_k
from proxml_mpi.score.metrics import BIN_ENDS, FREQUENCY_BINS, Evaluation, start_evaluation
from proxml_mpi.score.propensity import Propensity, choose_propensity, inverse_propensities
from proxml_mpi.score.topk import TopK
from proxml_mpi.settings.report import ReportSettings
from proxml_mpi.solve.block import Block
from proxml_mpi.solve.labels import expected_costs
from proxml_mpi.solve.problem import Outcome
from proxml_mpi.store.model_reader import ModelHeader
from proxml_mpi.store.names import Names

RANKS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


class Example(NamedTuple):
    """An instance with its weighted and damped features, what was predicted, and what is true."""

    number: int  # in the test data
    features: NDArray[np.int32]  # the largest first
    values: NDArray[np.float32]
    predicted: NDArray[np.int32]  # the best first
    scores: NDArray[np.float32]
    true: NDArray[np.int32]


class Tested(NamedTuple):
    """The model on test data."""

    evaluation: Evaluation
    propensity: Propensity
    damping: float  # that was in effect
    label_counts: NDArray[np.int64]  # [n_labels]: test instances with the label
    n_entries: int  # of the features
    examples: list[Example]


class Subject(NamedTuple):
    """All that a page is about."""

    settings: ReportSettings
    header: ModelHeader
    block: Block
    names: Names
    run: dict[str, Any] | None
    train: Dataset | None
    tested: Tested | None


def has_truth(tested: Tested) -> bool:
    """Return whether any test instance has a label."""
    return tested.evaluation.n_unlabelled < tested.evaluation.n_instances


def is_solved(block: Block) -> NDArray[np.bool_]:
    """Return which labels have a solution, bool [n_labels]."""
    return np.isin(block.outcome, (Outcome.converged, Outcome.iteration_limit))


def bin_of(n_positives: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return the frequency bin of every label, int64 [n_labels]."""
    return np.searchsorted(BIN_ENDS, n_positives)


def spread(values: NDArray[Any]) -> tuple[float, float, float]:
    """Return median, 90 % quantile and largest of some values."""
    if len(values) == 0:
        return 0.0, 0.0, 0.0
    return float(np.median(values)), float(np.quantile(values, 0.9)), float(values.max())


def label_statistics(n_positives: NDArray[np.integer], n_instances: int) -> dict[str, float]:
    """Return what the counts of labels say of a data set."""
    n_pairs = int(n_positives.sum())
    is_tail = (n_positives > 0) & (n_positives < TAIL)
    n_seen = int(np.count_nonzero(n_positives))
    return {
        "labels_seen": n_seen,
        "labels_once": int(np.count_nonzero(n_positives == 1)),
        "labels_per_instance": n_pairs / max(n_instances, 1),
        "positives_per_label": n_pairs / max(n_seen, 1),
        "tail_labels": int(is_tail.sum()) / max(n_seen, 1),
        "tail_pairs": int(n_positives[is_tail].sum()) / max(n_pairs, 1),
    }


def balance(block: Block) -> list[tuple[float, float]]:
    """Return, for numbers of ranks, the share of the time that ranks would work rather than wait for the slowest.

    Labels are dealt out as training does, by what they are expected to cost, and cost what they cost; ranks of one node
    do better, because they help each other.
    """
    costs = expected_costs(block.n_positives.astype(np.int64), block.lambda_)
    sums = np.concatenate([[0.0], np.cumsum(block.seconds.astype(np.float64))])
    found = []
    for n_ranks in (n for n in RANKS if n <= max(block.n_labels, 1)):
        loads = np.diff(sums[partition(costs, n_ranks)])
        found.append((float(n_ranks), 100 * float(loads.mean() / loads.max()) if loads.max() > 0 else 100.0))
    return found


def choose_labels(block: Block, n_of_bin: int, seed: int) -> list[NDArray[np.int64]]:
    """Draw solved labels of every frequency bin, by falling number of positives, the bin of frequent ones first."""
    random = np.random.default_rng(seed)
    bins = bin_of(block.n_positives)
    found = []
    for number in reversed(range(len(FREQUENCY_BINS))):
        labels = np.flatnonzero(is_solved(block) & (bins == number))
        labels = np.sort(random.choice(labels, min(n_of_bin, len(labels)), replace=False))
        found.append(labels[np.argsort(-block.n_positives[labels], kind="stable")])
    return found


def evaluate(settings: ReportSettings, path: Path, header: ModelHeader, block: Block) -> Tested:
    """Score the test data as proxml-predict does, and keep some instances to show."""
    scoring = settings.scoring()
    propensity = choose_propensity(settings.propensity, settings.propensity_a, settings.propensity_b)
    damping = Damping.of_model(header.feature_counts, scoring.damping, header.path)
    instances = open_instances(path, settings.format, header, damping, scoring.instances_per_round, settings.threads)
    weights = inverse_propensities(header.n_positives, header.n_instances, propensity)
    evaluation = start_evaluation(settings.k, weights, header.n_positives)
    n_positives = block.n_positives if scoring.calibrate else None
    index = build_index(block.indptr, block.indices, block.data, block.bias, header.n_features, 0, n_positives)
    wanted = _draw(instances.n_instances or 0, settings)
    label_counts, n_entries, n_done, examples = np.zeros(header.n_labels, np.int64), 0, 0, []
    for piece in instances.pieces:
        top = score_top_k(index, piece[:3], scoring.top_k, settings.threads)
        evaluation.update(top.labels, piece[3:], None, n_done)
        label_counts += np.bincount(piece.label_indices, minlength=header.n_labels)
        n_entries += len(piece.indices)
        n_rows = len(piece.indptr) - 1
        mine = wanted[(wanted >= n_done) & (wanted < n_done + n_rows)]
        examples += [_example(piece, top, int(number - n_done), n_done, settings.top) for number in mine]
        n_done += n_rows
    return Tested(evaluation, propensity, damping.level, label_counts, n_entries, examples)


def _draw(n_instances: int, settings: ReportSettings) -> NDArray[np.int64]:
    random = np.random.default_rng(settings.seed)
    return np.sort(random.choice(n_instances, min(settings.instances, n_instances), replace=False))


def _example(piece: Piece, top: TopK, row: int, n_before: int, n_features: int) -> Example:
    entries = slice(piece.indptr[row], piece.indptr[row + 1])
    order = np.argsort(-np.abs(piece.values[entries]), kind="stable")[:n_features]
    true = piece.label_indices[piece.label_indptr[row] : piece.label_indptr[row + 1]]
    is_there = top.labels[row] >= 0
    return Example(
        n_before + row,
        piece.indices[entries][order],
        piece.values[entries][order],
        top.labels[row][is_there],
        top.scores[row][is_there],
        true.copy(),
    )


def read_run(path: Path, header: ModelHeader) -> dict[str, Any]:
    """Read what proxml-train --report wrote of the run that made the model; refuse another run's."""
    try:
        run = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise FileError(path, f"cannot be read: {reason(error)}") from None
    except ValueError as error:
        raise FileError(path, f"found no JSON, expected a report of proxml-train: {error}") from None
    numbers = {"ranks": int, "nodes": int, "threads": int, "peak_memory_bytes": int, "seconds": dict}
    for name, kind in numbers.items():
        if not isinstance(run, dict) or not isinstance(run.get(name), kind):
            raise FileError(path, f"{name}: found nothing of use, expected a report of proxml-train")
    seconds = [*run["seconds"].values(), *run.get("solver_seconds_by_rank", [])]
    if not all(isinstance(value, int | float) and 0 <= value < np.inf for value in seconds):
        raise FileError(path, "seconds: found something else than numbers, expected a report of proxml-train")
    for name in ("data_digest", "n_labels"):
        found, expected = run.get(name), header.attributes.get(name)
        if found != expected:
            raise FileError(path, f"{name}: found {found}, expected {expected}: another run than that of {header.path}")
    return dict(run)


def require_trained_on(path: Path, digest: str, header: ModelHeader) -> None:
    """Refuse other data than those of the training."""
    expected = header.attributes["data_digest"]
    if digest != expected:
        raise ModelError(path, f"has the digest {digest}, expected {expected}: {header.path} was trained on other data")
