"""Writing the model file: every rank its own labels, all at once or one after the other.

What parallel HDF5 wants of all ranks together is creating, opening and closing. Rank 0 creates everything, alone, with
exact sizes and its space reserved; all ranks open and close the file, whether they have labels or not. The writes in
between are independent: ranks write disjoint slices of contiguous datasets, each when it likes, and a rank without
labels writes nothing. (A collective write would need every rank in every call, those without rows with an empty
selection, `select_none`, which h5py's slices do not make: they skip the call, and the other ranks wait for ever.)
"""

import itertools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np
from numpy.typing import NDArray

from proxml_mpi import __version__
from proxml_mpi.errors import FileError, ModelError, UserError
from proxml_mpi.files import partial_name, put_in_place
from proxml_mpi.ranks.world import World
from proxml_mpi.solve.block import Block, join_neighbours
from proxml_mpi.store.checksums import (
    FEATURE_COUNTS_DIGEST,
    HEADER_DIGEST,
    array_digest,
    header_digest,
    label_checksums,
)
from proxml_mpi.store.hdf5 import choose_parallel, read_slice, reading, write_slice, writing
from proxml_mpi.store.layout import CHECKSUM, FEATURE_COUNTS, FORMAT, FORMAT_VERSION, PER_LABEL, PER_WEIGHT
from proxml_mpi.store.model_reader import check_labels, read_header
from proxml_mpi.store.names import NO_NAMES, Names, write_names


class ModelFacts(NamedTuple):
    """What the model file says of the whole model; the same on every rank."""

    n_instances: int
    n_features: int
    n_labels: int
    data_digest: str
    command_line: str
    settings: Mapping[str, Any]
    idf: NDArray[np.float32] | None
    feature_counts: NDArray[np.int32] | None = None  # [n_features]: training instances with the feature

    def identity(self) -> dict[str, Any]:
        """Return what a resumed run must have in common with the one that it resumes."""
        names = ("n_instances", "n_features", "n_labels", "data_digest")
        return {name: getattr(self, name) for name in names} | dict(self.settings)


def require_model_of(path: Path, facts: ModelFacts) -> None:
    """Refuse a model that is damaged, or other than what a run with these facts would write."""
    header = read_header(path)
    for name, wanted in facts.identity().items():
        found = header.attributes.get(name)
        if wanted is not None and found != wanted:
            raise ModelError(path, f"is another run's model: {name} is {found}, expected {wanted}")
    check_labels(header)


def write_model(
    world: World, path: Path, blocks: Sequence[Block], facts: ModelFacts, hdf5_io: str, names: Names = NO_NAMES
) -> None:
    """Write this rank's labels; the file appears under its name when it is complete and has been read back.

    Collective: every rank calls this; the blocks of all ranks hold every label once, in whatever order. Rank 0 has the
    names.
    """
    blocks = join_neighbours(blocks)
    all_spans = list(itertools.chain(*world.comm.allgather(_spans(blocks))))
    first_weights, n_weights = _place(blocks, all_spans, facts.n_labels)
    created = world.from_first(_now())
    temporary = partial_name(path)

    def create(file: Any) -> None:
        _create(file, facts, created, n_weights, names)

    def fill(file: Any) -> None:
        if world.is_first:
            _fill_features(file, facts)
        for block, first_weight in zip(blocks, first_weights, strict=True):
            _fill(file, block, first_weight)

    write = _write_at_once if choose_parallel(hdf5_io, world.size) else _write_in_turn
    try:
        with world.together():
            if world.is_first:
                _lay_out(path, create)
        write(world, path, fill)
        with world.together():
            _verify(temporary, blocks, first_weights)
        with world.together():
            if world.is_first:
                with writing(path):
                    put_in_place(temporary, path)
    except UserError:
        if world.is_first:
            temporary.unlink(missing_ok=True)
        raise


def write_model_alone(path: Path, blocks: Sequence[Block], facts: ModelFacts, names: Names = NO_NAMES) -> None:
    """Write a model without MPI; the blocks hold every label once."""
    blocks = join_neighbours(blocks)
    first_weights, n_weights = _place(blocks, _spans(blocks), facts.n_labels)
    temporary = partial_name(path)
    try:
        with writing(path), h5py.File(temporary, "w") as file:
            _create(file, facts, _now(), n_weights, names)
            _fill_features(file, facts)
            for block, first_weight in zip(blocks, first_weights, strict=True):
                _fill(file, block, first_weight)
        _verify(temporary, blocks, first_weights)
        with writing(path):
            put_in_place(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


Span = tuple[int, int, int]  # first label, end label, number of weights


def _spans(blocks: Sequence[Block]) -> list[Span]:
    return [(block.first_label, block.end_label, len(block.indices)) for block in blocks]


def _place(blocks: Sequence[Block], all_spans: Sequence[Span], n_labels: int) -> tuple[list[int], int]:
    """Return where in the file the weights of each of the blocks begin, and the number of all weights."""
    spans = sorted(all_spans)
    ends = [0, *(end for _, end, _ in spans)]
    if [first for first, _, _ in spans] != ends[:-1] or ends[-1] != n_labels:
        raise ValueError("the blocks do not hold every label once")
    begins = dict(zip((first for first, _, _ in spans), np.cumsum([0, *(n for _, _, n in spans)]), strict=False))
    return [int(begins[block.first_label]) for block in blocks], sum(n for _, _, n in spans)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _lay_out(path: Path, create: Callable[[Any], None]) -> None:
    """Create the file and reserve its space: HDF5 hangs or crashes when a disk gets full under ranks that write."""
    temporary = partial_name(path)
    with writing(path):
        with h5py.File(temporary, "w") as file:
            create(file)
        with temporary.open("r+b") as stream:
            os.posix_fallocate(stream.fileno(), 0, temporary.stat().st_size)


def _write_at_once(world: World, path: Path, fill: Callable[[Any], None]) -> None:
    """Let all ranks write their slices of one open file. Collective."""
    parallel = {"driver": "mpio", "comm": world.comm}
    with world.together(), writing(path), h5py.File(partial_name(path), "r+", **parallel) as file:
        fill(file)


def _write_in_turn(world: World, path: Path, fill: Callable[[Any], None]) -> None:
    """Let each rank write its slices, one after the other. Collective."""
    for turn in range(world.size):
        with world.together():
            if turn == world.rank:
                with writing(path), h5py.File(partial_name(path), "r+") as file:
                    fill(file)


def _create_dataset(file: Any, name: str, length: int, dtype: Any) -> None:
    """Create a dataset that has its place in the file at once, before anything is written to it."""
    early = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    early.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    file.create_dataset(name, (length,), dtype, dcpl=early)


def _create(file: Any, facts: ModelFacts, created: str, n_weights: int, names: Names) -> None:
    """Write attributes and names, and lay out empty datasets."""
    file.attrs["format"] = FORMAT
    file.attrs["format_version"] = FORMAT_VERSION
    file.attrs["creator"] = f"proxml-mpi {__version__}"
    file.attrs["created"] = created
    file.attrs["command_line"] = facts.command_line
    for name in ("n_instances", "n_features", "n_labels", "data_digest"):
        file.attrs[name] = getattr(facts, name)
    for name, value in facts.settings.items():
        if value is not None:
            file.attrs[name] = value
    write_names(file, names)
    if facts.feature_counts is not None:
        file.attrs[FEATURE_COUNTS_DIGEST] = array_digest(facts.feature_counts)
    file.attrs[HEADER_DIGEST] = header_digest(dict(file.attrs), facts.idf)
    _create_dataset(file, "weights/indptr", facts.n_labels + 1, "i8")
    _create_dataset(file, CHECKSUM, facts.n_labels, "u4")
    for name, (_, dtype) in PER_WEIGHT.items():
        _create_dataset(file, name, n_weights, dtype)
    for name, (_, dtype) in PER_LABEL.items():
        _create_dataset(file, name, facts.n_labels, dtype)
    for name, values in _by_feature(facts):
        _create_dataset(file, name, facts.n_features, values.dtype)


def _by_feature(facts: ModelFacts) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield what the model says of its features: name of the dataset, values [n_features]."""
    if facts.idf is not None:
        yield "features/idf", facts.idf
    if facts.feature_counts is not None:
        yield FEATURE_COUNTS, facts.feature_counts


def _fill_features(file: Any, facts: ModelFacts) -> None:
    """Write what the model says of its features."""
    for name, values in _by_feature(facts):
        write_slice(file[name], 0, values)


def _slices(block: Block, first_weight: int) -> Iterator[tuple[str, int, NDArray[Any]]]:
    """Yield what a block holds of each dataset: its name, where the part begins, and its values."""
    yield "weights/indptr", block.first_label + 1, block.indptr[1:] + first_weight
    for name, (field, _) in PER_WEIGHT.items():
        yield name, first_weight, getattr(block, field)
    for name, (field, _) in PER_LABEL.items():
        yield name, block.first_label, getattr(block, field)
    yield CHECKSUM, block.first_label, label_checksums(block)


def _fill(file: Any, block: Block, first_weight: int) -> None:
    """Write the labels and weights of one block."""
    for name, begin, values in _slices(block, first_weight):
        write_slice(file[name], begin, values)


def _verify(path: Path, blocks: Sequence[Block], first_weights: Sequence[int]) -> None:
    """Read back what was written, and compare every byte."""
    with reading(path) as file:
        for block, first_weight in zip(blocks, first_weights, strict=True):
            for name, begin, values in _slices(block, first_weight):
                if read_slice(file[name], begin, begin + len(values)).tobytes() != values.tobytes():
                    raise FileError(path, f"{name} reads back other than it was written: is the disk in order?")
