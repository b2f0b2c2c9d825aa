"""Verification: read model and training data, recompute every certificate, say which hold."""

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proxml_mpi.analysis.words import jsonable, naming
from proxml_mpi.data.dataset import Lists
from proxml_mpi.errors import ModelError, UserError
from proxml_mpi.loading import load
from proxml_mpi.output import show
from proxml_mpi.progress import Progress, Stages
from proxml_mpi.ranks.exchange import collect_rows
from proxml_mpi.ranks.partition import partition
from proxml_mpi.ranks.shared import share
from proxml_mpi.ranks.threads import choose_threads
from proxml_mpi.ranks.world import World
from proxml_mpi.settings.inspect import InspectSettings
from proxml_mpi.settings.train import TrainSettings
from proxml_mpi.solve.block import Block
from proxml_mpi.solve.problem import Outcome, Problem, Start
from proxml_mpi.solve.solvers import Plan, sum_negatives
from proxml_mpi.solve.verification import SLACK, Check, Verifier, compile_verifier
from proxml_mpi.store.model_reader import ModelHeader, read_header, read_labels
from proxml_mpi.store.names import read_names

LABELS_AT_ONCE = 4096  # of a rank, between two looks at the progress
COLUMNS = len(Check._fields)


def verify(settings: InspectSettings, world: World) -> None:
    """Recompute objective and gap of every label; UserError, on every rank, when any fails. Collective."""
    stages = Stages()
    header, training = None, None
    with world.together():
        if world.is_first:
            header = read_header(settings.model)
            training = training_settings(header, settings)
    header, training = world.from_first((header, training))
    n_threads = choose_threads(world, settings.threads)

    with stages.stage("read") as said:
        loaded = load(training, world, n_threads)
        with world.together():
            _require_trained_on(header, loaded.facts.digest, training)
        said.append(f"{loaded.facts.n_instances:,} instances, {loaded.facts.n_labels:,} labels")

    with stages.stage("compile") as said:
        with world.first_of_node_first():
            compile_verifier(training.method)
        verifier = _verifier(training, world, loaded.problem)
        said.append(f"method {training.method}")

    with stages.stage("verify") as said:
        checks = collect_rows(world, _check_share(header, training, world, verifier, loaded.positives, n_threads))
        said.append(f"{header.n_labels:,} labels")

    n_failed = 0
    with world.together():
        if checks is not None:
            facts = judge(header, checks, np.diff(loaded.positives.indptr), training)
            show(json.dumps(jsonable(facts), indent=2) if settings.json else page(facts, settings.top))
            n_failed = len(facts["failed"])
    if world.from_first(n_failed):
        error = UserError(f"{settings.model}: the certificates of {world.from_first(n_failed):,} labels do not hold")
        error.is_shared = True
        raise error


def training_settings(header: ModelHeader, settings: InspectSettings) -> TrainSettings:
    """Return the settings that the model was trained with, as far as they define its problems."""
    names = ("penalty", "lambda", "ridge", "negatives", "seed", "bias", "weighting", "normalize", "prune")
    for name in names:
        if name not in header.attributes:
            raise ModelError(header.path, f"attribute {name}: found nothing, expected a setting of the training")
    kept: dict[str, Any] = {name: np.asarray(header.attributes[name]).item() for name in names}
    kept["lambda_"] = kept.pop("lambda")
    if kept["penalty"] == "l1":
        del kept["prune"]
    files: dict[str, Any] = {"train": settings.verify, "model": settings.model, "format": settings.format}
    return TrainSettings(**files, **kept)


def _require_trained_on(header: ModelHeader, digest: str, training: TrainSettings) -> None:
    """Refuse other data than those of the training."""
    expected = header.attributes["data_digest"]
    if digest != expected:
        problem = f"has the digest {digest}, expected {expected}: {header.path} was trained on other data"
        raise ModelError(training.train, problem)


def _verifier(training: TrainSettings, world: World, problem: Problem) -> Verifier:
    """Make the verifier; what it derives from the data is there once a node. Collective."""
    limits = (training.tolerance, training.iteration_limit, training.bias)
    plan = Plan(training.method, *limits, ridge=training.label_ridge)
    if training.penalty == "l2":
        return Verifier(problem, plan)
    sums = sum_negatives(problem, training.negatives, training.seed) if world.is_first else None
    return Verifier(problem, plan, share(world, sums))


def _check_share(
    header: ModelHeader,
    training: TrainSettings,
    world: World,
    verifier: Verifier,
    positives: Lists,
    n_threads: int,
) -> NDArray[np.float64]:
    """Check this rank's labels: [n_labels of this rank, COLUMNS], nan where there is nothing to check. Collective."""
    # Labels with weights cost about the same; the others, next to nothing.
    bounds = partition(np.where(np.diff(header.indptr) > 0, 1.0, 1e-3), world.size)
    first, end = int(bounds[world.rank]), int(bounds[world.rank + 1])
    rows = np.full((end - first, COLUMNS), np.nan)
    is_pruned = training.smallest_weight > 0
    progress = Progress("verify", "labels of rank 0", end - first, speaks=world.is_first)
    spaces = [verifier.space() for _ in range(n_threads)]
    with world.together(), ThreadPoolExecutor(n_threads) as threads:
        for begin in range(first, end, LABELS_AT_ONCE):
            block = read_labels(header, begin, min(begin + LABELS_AT_ONCE, end))

            def check_some(thread: int, block: Block = block) -> None:
                for at in range(thread, block.n_labels, n_threads):
                    label = block.first_label + at
                    instances = positives.indices[positives.indptr[label] : positives.indptr[label + 1]]
                    if block.outcome[at] in (Outcome.converged, Outcome.iteration_limit) and len(instances):
                        claim = (float(block.objective[at]), float(block.duality_gap[at]), is_pruned)
                        penalty = float(block.lambda_[at])
                        rows[label - first] = verifier.check(
                            spaces[thread], instances, penalty, _stored(block, at), *claim
                        )

            list(threads.map(check_some, range(n_threads)))
            progress.show(block.end_label - first)
    progress.close()
    return rows


def _stored(block: Block, at: int) -> Start:
    weights = slice(block.indptr[at], block.indptr[at + 1])
    return Start(block.indices[weights], block.data[weights], float(block.bias[at]))


def judge(
    header: ModelHeader, checks: NDArray[np.float64], n_positives: NDArray[np.int64], training: TrainSettings
) -> dict[str, Any]:
    """Compare what was recomputed, [n_labels, COLUMNS], with what the model says; return the facts."""
    block = read_labels(header, 0, header.n_labels)
    objective, own_bound, bound, attained = checks.T
    is_checked = ~np.isnan(objective)
    claimed = block.objective - np.where(is_checked, block.duality_gap, 0.0)
    slack = SLACK * np.maximum(block.objective, objective)
    is_pruned = training.smallest_weight > 0
    if is_pruned:
        # What was certified is not what is stored; the two must enclose the same optimum.
        holds = (bound <= block.objective + slack) & (claimed <= attained + slack)
    else:
        holds = (np.abs(objective - block.objective) <= slack) & (bound >= claimed - slack)
    is_untrained = block.outcome == Outcome.not_trained
    is_empty = (block.outcome == Outcome.no_positives) & (n_positives == 0)
    failed = np.flatnonzero(~is_untrained & ~is_empty & ~(is_checked & holds) | (block.n_positives != n_positives))
    by_itself = is_checked & holds & (own_bound >= claimed - slack)
    names = read_names(header.path, header.n_labels, header.n_features).labels
    gaps = (objective - bound)[is_checked] / block.n_positives[is_checked]
    return {
        "model": str(header.path),
        "certificate_of": str(header.attributes.get("certificate_of", "")),
        "is_pruned": is_pruned,
        "n_labels": header.n_labels,
        "n_checked": int(is_checked.sum()),
        "n_hold": int((is_checked & holds).sum()),
        "n_hold_by_weights_alone": 0 if is_pruned else int(by_itself.sum()),
        "n_without_positives": int(is_empty.sum()),
        "n_not_trained": int(is_untrained.sum()),
        "largest_gap_per_positive": float(gaps.max(initial=0.0)),
        "failed": [
            {
                "label": int(label),
                "name": names[label] if names else None,
                "n_positives": {"stored": int(block.n_positives[label]), "found": int(n_positives[label])},
                "objective": {"stored": float(block.objective[label]), "found": float(objective[label])},
                "duality_gap": {
                    "stored": float(block.duality_gap[label]),
                    "found": float(objective[label] - bound[label]),
                },
            }
            for label in failed
        ],
    }


def page(facts: dict[str, Any], top: int) -> str:
    """Return the facts for people: how many labels hold, and the first of those that do not."""
    by_itself, hold = facts["n_hold_by_weights_alone"], facts["n_hold"]
    lines = [f"{hold:,} of {facts['n_checked']:,} certificates hold"]
    if facts["is_pruned"]:
        lines.append("they are of the weights before pruning: the optimum was found again, and is where they say")
    else:
        lines.append(f"{by_itself:,} by the stored weights alone, {hold - by_itself:,} by going on from them")
    if facts["certificate_of"] == "sampled negatives":
        lines.append("they are of the problem with sampled negatives")
    if facts["n_without_positives"] or facts["n_not_trained"]:
        lines.append(
            f"{facts['n_without_positives']:,} labels have no positives, {facts['n_not_trained']:,} no training"
        )
    what = "stored weights from the optimum, at most" if facts["is_pruned"] else "gap / positives, largest found"
    lines.append(f"{what} {facts['largest_gap_per_positive']:.1e}" + (" x positives" if facts["is_pruned"] else ""))
    for label in facts["failed"][:top]:
        changes = (
            f"{what.replace('_', ' ')} {label[what]['stored']:.9g}, found {label[what]['found']:.9g}"
            for what in ("n_positives", "objective", "duality_gap")
            if not np.isclose(label[what]["stored"], label[what]["found"], rtol=SLACK, atol=0.0)
        )
        lines.append(f"does not hold: label {naming(label['label'], label['name'])}: {'; '.join(changes)}")
    if len(facts["failed"]) > top:
        lines.append(f"and {len(facts['failed']) - top:,} more (--json names all)")
    return "\n".join(lines)
