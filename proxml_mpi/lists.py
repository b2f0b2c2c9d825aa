"""Ranked lists and metrics of all ranks: each has those of its labels, then those of its share of the instances."""

from proxml_mpi.ranks.exchange import exchange_rows
from proxml_mpi.ranks.world import World
from proxml_mpi.score.metrics import Evaluation
from proxml_mpi.score.topk import TopK, merge_top_k


def merge_share(world: World, top: TopK) -> TopK:
    """Merge everybody's lists of this rank's share of the instances. Collective."""
    labels, scores = exchange_rows(world, top.labels), exchange_rows(world, top.scores)
    parts = [TopK(labels[rank], scores[rank]) for rank in range(world.size)]
    return merge_top_k(parts, top.labels.shape[1])


def reduce_evaluation(world: World, evaluation: Evaluation) -> None:
    """Give every rank the sums of all. Collective."""
    world.sum_up(evaluation.sums)
    world.take_smallest(evaluation.best_ranks)
    if evaluation.bootstrap is not None:
        world.sum_up(evaluation.bootstrap.sums)
