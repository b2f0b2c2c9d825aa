"""Prediction: open the model, read, score in rounds, merge, evaluate, report."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from proxml_mpi.data.damping import NO_DAMPING, Damping
from proxml_mpi.errors import SettingsError
from proxml_mpi.files import check_target
from proxml_mpi.findings import report
from proxml_mpi.instances import STANDARD_INPUT, Instances, hand_round, open_instances
from proxml_mpi.lists import merge_share, reduce_evaluation
from proxml_mpi.progress import Progress, Stages
from proxml_mpi.ranks.exchange import collect_rows
from proxml_mpi.ranks.partition import partition, share_of
from proxml_mpi.ranks.threads import choose_threads
from proxml_mpi.ranks.world import World
from proxml_mpi.score.index import Index, build_index, score_top_k, stored_index
from proxml_mpi.score.metrics import Evaluation, start_evaluation
from proxml_mpi.score.propensity import (
    N_RESCORED,
    choose_propensity,
    inverse_propensities,
    reorder_by_propensity,
    score_by_propensity,
)
from proxml_mpi.score.warm_up import compile_scoring
from proxml_mpi.settings.predict import PredictSettings
from proxml_mpi.store.model_reader import ModelHeader, read_header, read_index, read_labels
from proxml_mpi.store.names import read_names
from proxml_mpi.store.prediction_file import PredictionShape, Write, writing_predictions
from proxml_mpi.store.prediction_text import write_lines


def predict(settings: PredictSettings, world: World) -> None:
    """Predict and evaluate as the settings say. Collective: every rank calls this."""
    began = time.monotonic()
    stages = Stages()
    propensity = choose_propensity(settings.propensity, settings.propensity_a, settings.propensity_b)
    with world.together():
        if settings.test == STANDARD_INPUT and world.size > 1:
            raise SettingsError("TEST", "-", "a file under mpirun: lines of standard input go to one process")
        for path in (settings.metrics, settings.output):
            if world.is_first and path is not None:
                check_target(path, overwrite=True)
    n_threads = choose_threads(world, settings.threads)

    with stages.stage("compile") as said, world.first_of_node_first():
        compile_scoring()
        said.append("scoring")

    with stages.stage("open") as said:
        header, index = _open(settings, world)
        said.append(f"{header.n_labels:,} labels, {len(index.weights):,} of {header.indptr[-1]:,} weights on this rank")

    instances, damping = None, NO_DAMPING
    with world.together():
        if world.is_first:
            per_round = settings.instances_per_round
            damping = Damping.of_model(header.feature_counts, settings.damping, header.path)
            instances = open_instances(settings.test, settings.format, header, damping, per_round, n_threads)

    with stages.stage("score") as said:
        weights = inverse_propensities(header.n_positives, header.n_instances, propensity)
        evaluation = start_evaluation(settings.k, weights, header.n_positives, settings.bootstrap)
        _score(settings, world, header, index, instances, evaluation, n_threads)
        reduce_evaluation(world, evaluation)
        said.append(f"top {settings.top_k} of {evaluation.n_instances:,} instances")

    if world.is_first and settings.test != STANDARD_INPUT:
        facts = {"damping": damping.level, "calibrate": settings.calibrate, "seconds": time.monotonic() - began}
        facts |= {"ranks": world.size, "threads": n_threads}
        report(settings, header, evaluation, propensity, facts)


def _open(settings: PredictSettings, world: World) -> tuple[ModelHeader, Index]:
    """Read the facts of the model, and this rank's labels: ranges hold about the same number of weights. Collective."""
    header = None
    with world.together():
        if world.is_first:
            header = read_header(settings.model)
    header = world.from_first(header)
    if world.size == 1 and (stored := read_index(header)) is not None:
        index, block = stored
        return header, stored_index(*index, block.bias, block.n_positives if settings.calibrate else None)
    bounds = partition(np.diff(header.indptr) + 1.0, world.size)
    with world.together():
        block = read_labels(header, int(bounds[world.rank]), int(bounds[world.rank + 1]))
    weights = (block.indptr, block.indices, block.data, block.bias)
    n_positives = block.n_positives if settings.calibrate else None
    return header, build_index(*weights, header.n_features, block.first_label, n_positives)


def _score(
    settings: PredictSettings,
    world: World,
    header: ModelHeader,
    index: Index,
    instances: Instances | None,
    evaluation: Evaluation,
    n_threads: int,
) -> None:
    """Score all instances against this rank's labels; each round, ranks swap lists and merge a share. Collective."""
    n_instances = (instances.n_instances if instances else None) or 0
    shape = PredictionShape(n_instances, header.n_labels, settings.top_k)
    progress = Progress("score", "instances", n_instances, speaks=world.is_first and n_instances > 0)
    n_scored = max(settings.top_k, N_RESCORED) if settings.score_by_propensity else settings.top_k
    n_done = 0
    with _writing(settings, world, header, shape) as write:
        for piece in hand_round(world, instances.pieces if instances else None):
            top = merge_share(world, score_top_k(index, piece[:3], n_scored, n_threads))
            if settings.score_by_propensity:
                top = score_by_propensity(top, evaluation.inverse_propensity, settings.top_k)
            n_rows = len(piece.indptr) - 1
            begin, end = share_of(n_rows, world.size, world.rank)
            reordered = None
            if settings.rerank_by_propensity:
                reordered = reorder_by_propensity(top, evaluation.inverse_propensity).labels
            truth = (piece.label_indptr[begin : end + 1], piece.label_indices)
            evaluation.update(top.labels, truth, reordered, n_done + begin)
            if settings.is_written:
                labels, scores = collect_rows(world, top.labels), collect_rows(world, top.scores)
                with world.together():
                    if labels is not None and scores is not None:
                        write(labels, scores)
            n_done += n_rows
            progress.show(n_done)
    progress.close()


@contextmanager
def _writing(settings: PredictSettings, world: World, header: ModelHeader, shape: PredictionShape) -> Iterator[Write]:
    """Open what predictions are written to, on rank 0: a file, or standard output for lines of standard input."""
    if not world.is_first or not settings.is_written:
        yield lambda labels, scores: None
    elif settings.output is None:
        yield write_lines
    else:
        names = None
        if settings.output.suffix == ".h5":
            names = read_names(header.path, header.n_labels, header.n_features).labels
        with writing_predictions(settings.output, shape._replace(label_names=names)) as write:
            yield write
