"""The story of tuning: read, split, follow every path of lambdas on every fold, choose, report, train."""

import dataclasses
import logging
import shlex
import time
from typing import Any

from proxml_mpi import __version__
from proxml_mpi.compiling import Kernels
from proxml_mpi.data.damping import Damping
from proxml_mpi.data.dataset import Dataset
from proxml_mpi.data.figure import check_drawing
from proxml_mpi.data.formats import find_source
from proxml_mpi.data.sizes import Size
from proxml_mpi.data.split import fold, split
from proxml_mpi.data.weighting import Weighting
from proxml_mpi.errors import DataError, StoppedError
from proxml_mpi.files import check_target
from proxml_mpi.instances import Piece
from proxml_mpi.loading import check_fit, share_training, size_of_source
from proxml_mpi.progress import Stages
from proxml_mpi.ranks.shared import share
from proxml_mpi.ranks.threads import choose_threads
from proxml_mpi.ranks.world import World
from proxml_mpi.score.propensity import choose_propensity
from proxml_mpi.score.warm_up import compile_scoring
from proxml_mpi.settings.train import TrainSettings
from proxml_mpi.settings.tune import TuneSettings
from proxml_mpi.solve.solvers import compile_solver
from proxml_mpi.store.sources import read_source
from proxml_mpi.train import shared_solver, train
from proxml_mpi.tune.choice import choose, summarize
from proxml_mpi.tune.page import report
from proxml_mpi.tune.path import Fold, Scored, follow_path

log = logging.getLogger("proxml")


def tune(settings: TuneSettings, world: World) -> None:
    """Find the best lambda, and train with it when asked to. Collective: every rank calls this."""
    began = time.monotonic()
    stages, kernels = Stages(), Kernels(world)
    first = settings.first
    _refuse_early(settings, world)
    n_threads = choose_threads(world, settings.threads)

    with stages.stage("read") as said:
        dataset = _read(first, world, n_threads)
        if dataset is not None:
            said.append(f"{dataset.n_instances:,} instances, {dataset.n_labels:,} labels")

    with stages.stage("compile") as said:
        kernels.make_ready(lambda: compile_solver(first.method))
        kernels.make_ready(compile_scoring)
        said.append(f"method {first.method}")

    rows = []
    for number in range(settings.folds or 1):
        rows += _follow_fold(settings, world, dataset, number, n_threads)

    points = summarize(settings, rows)
    best = choose(points)
    chosen = settings.training(best["lambda"], best["lambda_exponent"], best["ridge"])
    command_line = training_command(chosen)
    facts = {
        "train": str(settings.train),
        "metric": settings.metric,
        "fraction": None if settings.folds else settings.fraction,
        "folds": settings.folds,
        "seed": settings.seed,
        "damping": settings.damping,
        "calibrate": settings.calibrate,
        "best": best,
        "points": points,
        "rows": rows,
        "train_with": command_line,
        "seconds": time.monotonic() - began,
        "ranks": world.size,
        "threads": n_threads,
        "version": __version__,
    }
    with world.together():
        if world.is_first:
            report(settings, facts)
    if settings.model is not None:
        try:
            train(chosen, world, command_line)
        except StoppedError as error:
            resumed = training_command(dataclasses.replace(chosen, overwrite=False, resume=True))
            raise StoppedError(f"{error}, which is now: {resumed}") from None


def _refuse_early(settings: TuneSettings, world: World) -> None:
    """Find the mistakes that would otherwise show after hours of work. Collective."""
    with world.together():
        if world.is_first:
            if settings.model is not None:
                check_target(settings.model, settings.overwrite)
            for path in (settings.csv, settings.plot):
                if path is not None:
                    check_target(path, overwrite=True)
            if settings.plot is not None:
                check_drawing()


def _read(settings: TrainSettings, world: World, n_threads: int) -> Dataset | None:
    """Read the data on rank 0, once it is known that they fit. Collective."""
    source, size = None, None
    with world.together():
        if world.is_first:
            source = find_source(settings.train, settings.format)
            size = size_of_source(source)
    check_fit(settings, world, world.from_first(size), n_threads, is_exact=False)
    dataset = None
    with world.together():
        if source is not None:
            dataset = read_source(source, n_threads)
    return dataset


def _follow_fold(
    settings: TuneSettings, world: World, dataset: Dataset | None, number: int, n_threads: int
) -> list[dict[str, Any]]:
    """Follow the paths of all ridges and exponents on one split; return a row for every point. Collective."""
    n_windows = len(world.windows)
    shared = _share_fold(settings, world, dataset, number, n_threads)
    propensity = choose_propensity(settings.propensity, settings.propensity_a, settings.propensity_b)
    scoring = (settings.scoring(), propensity)
    place = f"fold {number + 1} of {settings.folds}, " if settings.folds else ""
    rows = []
    for ridge, exponent in settings.paths:
        n_shared = len(world.windows)
        solver = shared_solver(settings.training(settings.path[0], exponent, ridge), world, shared.problem)
        what = f"{place}exponent {exponent:g}" + (f", ridge {ridge:g}" if len(settings.ridges) > 1 else "")
        path = (settings.path, exponent, scoring, n_threads, what, settings.cold)
        for scored in follow_path(world, shared, solver, *path):
            row = _row(settings, number, (ridge, exponent), scored)
            rows.append(row)
            log.info(
                "%s, lambda %g: %s %.2f %%, %s weights (%.1f s)",
                what,
                scored.lambda_,
                settings.metric,
                row["metrics"][settings.metric],
                f"{scored.n_weights:,}",
                scored.seconds,
            )
        del solver
        world.free_windows(n_shared)
    del shared
    world.free_windows(n_windows)
    return rows


def _share_fold(settings: TuneSettings, world: World, dataset: Dataset | None, number: int, n_threads: int) -> Fold:
    """Split the data, weight both parts by what training knows, and share them. Collective."""
    first = settings.first
    training, features, size, piece = None, None, None, None
    with world.together():
        if dataset is not None:
            if settings.folds:
                training, validation = fold(dataset, settings.folds, number, settings.seed)
            else:
                training, validation = split(dataset, settings.fraction, settings.seed)
            if len(validation.labels.indices) == 0:
                raise DataError(settings.train, "found no label in the instances to validate on, expected some")
            weighting = Weighting.fit(training, settings.weighting, settings.normalize, settings.train)
            features = weighting.apply(training.features, settings.train)
            damping = Damping.from_counts(training.feature_counts, settings.damping)
            piece = Piece(*damping.apply(weighting.apply(validation.features, settings.train)), *validation.labels)
            shape = (training.n_instances, training.n_features, training.n_labels)
            size = Size(*shape, len(features.indices), len(training.labels.indices))
            log.info("%s instances to train on, %s to validate on", f"{shape[0]:,}", f"{validation.n_instances:,}")
    size = world.from_first(size)
    check_fit(first, world, size, n_threads, is_exact=True)
    return Fold(*share_training(world, size, training, features), share(world, piece))


def _row(settings: TuneSettings, number: int, of_path: tuple[float, float], scored: Scored) -> dict[str, Any]:
    return {
        "fold": number + 1,
        "ridge": of_path[0],
        "lambda_exponent": of_path[1],
        "lambda": scored.lambda_,
        "metrics": scored.evaluation.result(settings.skip_unlabelled),
        "by_frequency": scored.evaluation.by_frequency(settings.skip_unlabelled),
        "n_weights": scored.n_weights,
        "n_uncertified": scored.n_uncertified,
        "solver_seconds": scored.solver_seconds,
        "seconds": scored.seconds,
    }


def training_command(chosen: TrainSettings) -> str:
    """Return the command line that trains with these settings: what differs from the defaults."""
    words = ["proxml-train", str(chosen.train), str(chosen.model)]
    for field in dataclasses.fields(chosen):
        value = getattr(chosen, field.name)
        is_of_this_run = field.name.startswith("log_") or field.name == "overwrite"
        if field.default is dataclasses.MISSING or value == field.default or is_of_this_run:
            continue
        flag = "--" + field.name.rstrip("_").replace("_", "-")
        if isinstance(value, bool):
            words.append(flag if value else flag.replace("--", "--no-", 1))
        else:
            words += [flag, str(value).removesuffix(".0")]
    return shlex.join(words)
