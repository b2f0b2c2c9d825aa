"""Joining models of parts of the labels into the model of all."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from proxml_mpi.errors import ModelError
from proxml_mpi.files import check_target
from proxml_mpi.solve.block import Block
from proxml_mpi.solve.problem import Outcome
from proxml_mpi.store.checksums import FEATURE_COUNTS_DIGEST, HEADER_DIGEST
from proxml_mpi.store.layout import FEATURE_COUNTS
from proxml_mpi.store.model_reader import ModelHeader, read_header, read_labels
from proxml_mpi.store.model_writer import ModelFacts, write_model_alone
from proxml_mpi.store.names import KINDS, read_names

OF_ONE_FILE = (
    "format",
    "format_version",
    "creator",
    "created",
    "command_line",
    "first_label",
    "num_labels",
    KINDS,
    FEATURE_COUNTS_DIGEST,
    HEADER_DIGEST,
)


def merge_models(parts: Sequence[Path], merged: Path, overwrite: bool, command_line: str) -> None:
    """Write the model whose labels are each trained in exactly one of the parts."""
    check_target(merged, overwrite)
    headers = [read_header(path) for path in parts]
    for header in headers[1:]:
        _require_same_run(headers[0], header)
    blocks = [block for header in headers for block in _trained_blocks(header)]
    blocks.sort(key=lambda block: block.first_label)
    _require_each_label_once(headers[0], blocks)
    names = read_names(parts[0], headers[0].n_labels, headers[0].n_features)
    write_model_alone(merged, blocks, _facts(headers[0], command_line), names)


def _require_same_run(first: ModelHeader, other: ModelHeader) -> None:
    """Refuse parts of other data or other settings."""
    names = (first.attributes.keys() | other.attributes.keys()) - set(OF_ONE_FILE)
    for name in sorted(names):
        expected, found = first.attributes.get(name), other.attributes.get(name)
        if found != expected:
            raise ModelError(other.path, f"{name} is {found}, expected {expected} as in {first.path}")
    of_features = {
        "features/idf": (first.idf, other.idf),
        FEATURE_COUNTS: (first.feature_counts, other.feature_counts),
    }
    for name, (one, another) in of_features.items():
        if (one is None) != (another is None) or not np.array_equal(one, another):  # type: ignore[arg-type]
            raise ModelError(other.path, f"{name} differs from that of {first.path}")


def _trained_blocks(header: ModelHeader) -> list[Block]:
    """Return the labels that a part has trained, as runs of neighbours."""
    outcome = read_labels(header, 0, header.n_labels).outcome
    trained = np.flatnonzero(outcome != Outcome.not_trained)
    runs = np.split(trained, np.flatnonzero(np.diff(trained) != 1) + 1)
    return [read_labels(header, int(run[0]), int(run[-1]) + 1) for run in runs if len(run)]


def _require_each_label_once(header: ModelHeader, blocks: Sequence[Block]) -> None:
    end = 0
    for block in blocks:
        if block.first_label < end:
            raise ModelError(header.path, f"label {block.first_label} is trained in more than one part")
        if block.first_label > end:
            raise ModelError(header.path, f"labels {end} to {block.first_label - 1} are trained in no part")
        end = block.end_label
    if end < header.n_labels:
        raise ModelError(header.path, f"labels {end} to {header.n_labels - 1} are trained in no part")


def _facts(header: ModelHeader, command_line: str) -> ModelFacts:
    counts = (header.n_instances, header.n_features, header.n_labels)
    known = {*OF_ONE_FILE, "n_instances", "n_features", "n_labels", "data_digest"}
    settings = {name: value for name, value in header.attributes.items() if name not in known}
    settings["first_label"] = 0
    of_features = (header.idf, header.feature_counts)
    return ModelFacts(*counts, header.attributes["data_digest"], command_line, settings, *of_features)
