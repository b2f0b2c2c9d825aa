"""Training: read, share, compile, solve, store, report."""

import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from proxml_mpi import __version__
from proxml_mpi.compiling import Kernels
from proxml_mpi.data.dataset import Lists
from proxml_mpi.errors import ModelError, SettingsError, StoppedError
from proxml_mpi.files import check_target, replace_text
from proxml_mpi.loading import Facts, load
from proxml_mpi.progress import Stages, log, mebibytes, peak_memory_bytes
from proxml_mpi.ranks.shared import share
from proxml_mpi.ranks.threads import choose_threads
from proxml_mpi.ranks.world import World
from proxml_mpi.settings.train import TrainSettings
from proxml_mpi.solve.block import Block, untrained_block
from proxml_mpi.solve.labels import Solver, label_penalties
from proxml_mpi.solve.problem import COLD, Outcome, Problem, Start
from proxml_mpi.solve.solvers import Plan, compile_solver, make_solver, sum_negatives
from proxml_mpi.stopping import StopSignals
from proxml_mpi.store.hdf5 import choose_parallel
from proxml_mpi.store.journal import Journal, journal_folder
from proxml_mpi.store.model_writer import ModelFacts, require_model_of, write_model
from proxml_mpi.store.warm_start import read_starts
from proxml_mpi.work import Work, labels_left, read_finished, solve_blocks


def train(settings: TrainSettings, world: World, command_line: str) -> None:
    """Train a model as the settings say and write it. Collective: every rank calls this."""
    with StopSignals(settings.time_limit, began=time.monotonic()) as signals:
        _train(settings, world, command_line, signals)


def _train(settings: TrainSettings, world: World, command_line: str, signals: StopSignals) -> None:
    stages, kernels = Stages(), Kernels(world)
    _refuse_early(settings, world)
    n_threads = choose_threads(world, settings.threads)

    with stages.stage("read") as said:
        loaded = load(settings, world, n_threads)
        problem, positives = loaded.problem, loaded.positives
        starts, start_digest = _starts(settings, world, loaded.facts.n_features)
        facts = _facts(settings, loaded.facts, command_line, start_digest)
        n_bytes = sum(array.nbytes for array in (*problem, *positives))
        said.append(f"{facts.n_instances:,} instances, {facts.n_features:,} features, {facts.n_labels:,} labels")
        said.append(f"{mebibytes(n_bytes)} on each of {world.n_nodes} nodes")
    if _is_done(settings, world, facts):
        return

    with stages.stage("compile") as said:
        kernels.make_ready(lambda: compile_solver(settings.method))
        said.append(f"method {settings.method}")

    with stages.stage("solve") as said:
        work = _work(settings, positives, facts.n_labels)
        journal = Journal(journal_folder(settings.model, settings.scratch), facts.identity())
        with world.together():
            if world.is_first:
                journal.open(settings.model, settings.resume, settings.overwrite)
        blocks = read_finished(world, journal)
        left = labels_left(world, work, blocks)
        said.append(f"{work.end_label - work.first_label - len(left):,} labels found in the journal")
        solver = shared_solver(settings, world, problem)
        blocks += solve_blocks(world, work, solver, starts, left, journal, signals, n_threads)
        n_left = len(labels_left(world, work, blocks))
        said.append(f"{len(left) - n_left:,} solved")
    if n_left:
        journal.close()
        raise StoppedError(_how_to_go_on(settings, world, signals, n_left, journal))

    with stages.stage("store") as said:
        if world.is_first:
            blocks += _left_out(work)
        write_model(world, settings.model, blocks, facts, settings.hdf5_io, loaded.names)
        if world.is_first:
            journal.remove()
        said.append(f"{settings.model}, {mebibytes(settings.model.stat().st_size)}")

    report = _report(settings, world, stages, facts, blocks, n_threads)
    report |= {"estimated_memory_bytes": loaded.estimated_bytes, "start": kernels.report()}
    with world.together():
        if settings.report is not None and world.is_first:
            replace_text(settings.report, json.dumps(report, indent=2) + "\n")


def _refuse_early(settings: TrainSettings, world: World) -> None:
    """Find the mistakes that would otherwise show after hours of work. Collective."""
    with world.together():
        choose_parallel(settings.hdf5_io, world.size)
        if world.is_first:
            folder = journal_folder(settings.model, settings.scratch)
            check_target(settings.model, settings.overwrite or settings.resume)
            check_target(folder / "run.json" if folder.exists() else folder, overwrite=True)
            if settings.report is not None:
                check_target(settings.report, overwrite=True)


def _starts(settings: TrainSettings, world: World, n_features: int) -> tuple[Callable[[int], Start], str | None]:
    """Read where labels start from, one copy a node, and what identifies the model that it is. Collective."""
    if settings.warm_start is None:
        return (lambda label: COLD), None
    starts, digest = None, None
    with world.together():
        if world.is_first:
            starts, digest = read_starts(settings.warm_start, n_features)
    return share(world, starts).of, world.from_first(digest)


def shared_solver(settings: TrainSettings, world: World, problem: Problem) -> Solver:
    """Make the solver; what it derives from the data is there once a node. Collective."""
    limits = (settings.tolerance, settings.iteration_limit, settings.bias)
    plan = Plan(settings.method, *limits, settings.smallest_weight, settings.label_ridge)
    if plan.method != "newton":
        return make_solver(plan, problem)
    sums = sum_negatives(problem, settings.negatives, settings.seed) if world.is_first else None
    return make_solver(plan, problem, share(world, sums))


def _facts(settings: TrainSettings, facts: Facts, command_line: str, start_digest: str | None) -> ModelFacts:
    """Return what the model file says; every rank finds the same."""
    if settings.first_label > facts.n_labels:
        mistake = SettingsError("--first-label", settings.first_label, f"at most {facts.n_labels}")
        mistake.is_shared = True
        raise mistake
    shape = (facts.n_instances, facts.n_features, facts.n_labels)
    attributes = settings.model_attributes() | {"warm_start": start_digest}
    return ModelFacts(*shape, facts.digest, command_line, attributes, facts.idf, facts.feature_counts)


def _is_done(settings: TrainSettings, world: World, facts: ModelFacts) -> bool:
    """Return whether the run to resume has finished already. Collective."""
    is_done = False
    with world.together():
        if world.is_first and settings.resume and settings.model.exists():
            journal = Journal(journal_folder(settings.model, settings.scratch), facts.identity())
            has_journal = journal.folder.exists()
            try:
                require_model_of(settings.model, facts)
                is_done = True
            except ModelError:
                # A run that is to replace the model that is there goes on.
                if not has_journal:
                    raise
            if is_done and has_journal:  # the run was killed while it removed its journal
                journal.open(settings.model, resume=True, overwrite=False)
                journal.remove()
    if not world.from_first(is_done):
        return False
    log.info("%s is complete: nothing to resume", settings.model)
    return True


def _work(settings: TrainSettings, positives: Lists, n_labels: int) -> Work:
    n_positives = np.diff(positives.indptr)
    penalties = label_penalties(n_positives, settings.label_lambda, settings.label_exponent)
    end = n_labels if settings.num_labels is None else min(n_labels, settings.first_label + settings.num_labels)
    return Work(positives, n_positives, penalties, settings.first_label, end, settings.block_size)


def _left_out(work: Work) -> list[Block]:
    """Return the labels before and after the part that was to be trained."""
    spans = ((0, work.first_label), (work.end_label, len(work.n_positives)))
    return [
        untrained_block(first, work.n_positives[first:end], work.penalties[first:end])
        for first, end in spans
        if first < end
    ]


def _how_to_go_on(settings: TrainSettings, world: World, signals: StopSignals, n_left: int, journal: Journal) -> str:
    """Say why the run ends here and how to go on. Collective."""
    reasons = [reason for reason in world.comm.allgather(signals.reason) if reason]
    return (
        f"stopped because {reasons[0] if reasons else 'another rank was asked to'}: {n_left:,} labels are left, the "
        f"others are safe in {journal.folder}; run the same command with --resume to go on"
    )


def _report(
    settings: TrainSettings,
    world: World,
    stages: Stages,
    facts: ModelFacts,
    blocks: list[Block],
    n_threads: int,
) -> dict[str, Any]:
    """Gather the facts of the run, and warn of labels without a certificate. Collective."""
    outcome = np.concatenate([np.empty(0, np.uint8), *(block.outcome for block in blocks)])
    counts = np.array(world.comm.allgather(np.bincount(outcome, minlength=len(Outcome)))).sum(axis=0)
    outcomes = {kind.name: int(counts[kind]) for kind in Outcome}
    seconds = world.comm.allgather(sum(float(block.seconds.sum()) for block in blocks))
    uncertified = outcomes[Outcome.iteration_limit.name]
    if uncertified and world.is_first:
        log.warning(
            "%s labels met --max-iterations %d before their gap was below --tolerance %g x positives; "
            "their true gaps are in /labels/duality_gap",
            f"{uncertified:,}",
            settings.iteration_limit,
            settings.tolerance,
        )
    return {
        "version": __version__,
        "command_line": facts.command_line,
        "model": str(settings.model),
        "n_instances": facts.n_instances,
        "n_features": facts.n_features,
        "n_labels": facts.n_labels,
        "n_weights": world.total(sum(len(block.indices) for block in blocks)),
        "data_digest": facts.data_digest,
        "settings": dict(facts.settings),
        "outcomes": outcomes,
        "solver_seconds": sum(seconds),
        "solver_seconds_by_rank": seconds,
        "seconds": stages.seconds,
        "processor_seconds": {name: world.total(value) for name, value in stages.processor_seconds.items()},
        "ranks": world.size,
        "nodes": world.n_nodes,
        "threads": n_threads,
        "peak_memory_bytes": world.largest(peak_memory_bytes()),
    }
