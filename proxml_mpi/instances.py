"""The instances to predict, piece by piece: rank 0 reads the next one while all ranks score the last."""

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from proxml_mpi.data.damping import Damping
from proxml_mpi.data.dataset import Dataset
from proxml_mpi.data.formats import find_source
from proxml_mpi.data.text_stream import open_text, read_pipe
from proxml_mpi.data.weighting import Weighting
from proxml_mpi.errors import DataError
from proxml_mpi.ranks.shared import share
from proxml_mpi.ranks.world import World
from proxml_mpi.store.model_reader import ModelHeader
from proxml_mpi.store.sources import read_source

STANDARD_INPUT = Path("-")


class Piece(NamedTuple):
    """Consecutive instances: weighted and damped features (CSR) and true labels."""

    indptr: NDArray[np.int64]  # [n_instances + 1]
    indices: NDArray[np.int32]
    values: NDArray[np.float32]
    label_indptr: NDArray[np.int64]  # [n_instances + 1]
    label_indices: NDArray[np.int32]


class Instances(NamedTuple):
    """An open data set: the number of its instances, where it is known, and they themselves."""

    n_instances: int | None
    pieces: Iterator[Piece]


def open_instances(
    path: Path, format_name: str, header: ModelHeader, damping: Damping, n_per_piece: int, n_threads: int
) -> Instances:
    """Open a data set, or standard input, to be weighted as training was and damped; refuse what does not fit."""
    weighting = Weighting(header.attributes["weighting"], bool(header.attributes["normalize"]), header.idf)

    def weigh(datasets: Iterator[Dataset], name: Path | str) -> Iterator[Piece]:
        for dataset in datasets:
            yield Piece(*damping.apply(weighting.apply(dataset.features, name)), *dataset.labels)

    if path == STANDARD_INPUT:
        name = "standard input"
        lines = read_pipe(sys.stdin.fileno(), name, header.n_features, header.n_labels, n_per_piece)
        return Instances(None, weigh(lines, name))
    source = find_source(path, format_name)
    if source.format == "xmc":
        stream = open_text(path, n_per_piece, n_threads)
        check_shape(path, header, stream.form.n_features, stream.form.n_labels)
        return Instances(stream.form.n_instances, _read_ahead(weigh(stream.pieces, path)))
    dataset = read_source(source, n_threads, (header.n_features, header.n_labels))
    check_shape(path, header, dataset.n_features, dataset.n_labels)
    whole = next(weigh(iter([dataset]), path))
    return Instances(dataset.n_instances, _cut(whole, n_per_piece))


def check_shape(path: Path, header: ModelHeader, n_features: int, n_labels: int) -> None:
    """Refuse test data of other features or labels than the model's."""
    for what, found, expected in (
        ("features", n_features, header.n_features),
        ("labels", n_labels, header.n_labels),
    ):
        if found != expected:
            raise DataError(path, f"found {found} {what}, expected {expected} as in {header.path}", line=1)


def _cut(whole: Piece, n_per_piece: int) -> Iterator[Piece]:
    """Yield n_per_piece instances at a time, as views."""
    n_instances = len(whole.indptr) - 1
    for first in range(0, n_instances, n_per_piece):
        rows = slice(first, min(first + n_per_piece, n_instances) + 1)
        begin, end = whole.indptr[rows][[0, -1]]
        label_begin, label_end = whole.label_indptr[rows][[0, -1]]
        yield Piece(
            whole.indptr[rows] - begin,
            whole.indices[begin:end],
            whole.values[begin:end],
            whole.label_indptr[rows] - label_begin,
            whole.label_indices[label_begin:label_end],
        )


def _read_ahead(pieces: Iterator[Piece]) -> Iterator[Piece]:
    """Yield pieces while a thread makes the next one ready."""
    with ThreadPoolExecutor(1, "reader") as reader:
        coming = reader.submit(next, pieces, None)
        while (piece := coming.result()) is not None:
            coming = reader.submit(next, pieces, None)
            yield piece


def hand_round(world: World, pieces: Iterator[Piece] | None) -> Iterator[Piece]:
    """Yield rank 0's pieces on every rank, one copy a node, gone with the next one. Collective."""
    n_windows = len(world.windows)
    while True:
        piece = None
        with world.together():
            if pieces is not None:
                piece = next(pieces, None)
        if world.size == 1:
            if piece is None:
                return
            yield piece
            continue
        if world.from_first(piece is None):
            return
        yield share(world, piece)
        world.free_windows(n_windows)
