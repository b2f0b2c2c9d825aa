"""A model file for people: its attributes and datasets, as h5ls shows them, and what its certificates say."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from proxml_mpi.solve.block import Block
from proxml_mpi.solve.problem import Outcome
from proxml_mpi.store.hdf5 import reading


def list_file(path: Path) -> Iterator[str]:
    """Yield a line for every attribute and every dataset of an HDF5 file."""
    with reading(path) as file:
        for name, value in file.attrs.items():
            yield f"{'@' + name:<24} {value}"
        names: list[str] = []
        file.visit(names.append)
        for name in names:
            if hasattr(file[name], "shape"):
                yield _describe(file[name])


def describe_file(path: Path) -> dict[str, Any]:
    """Return the attributes and the datasets of an HDF5 file, ready for JSON."""
    with reading(path) as file:
        datasets: dict[str, Any] = {}

        def describe(name: str, item: Any) -> None:
            if hasattr(item, "shape"):
                datasets[name] = {"dtype": str(item.dtype), "shape": list(item.shape), "bytes": int(item.nbytes)}

        file.visititems(describe)
        attributes = {name: np.asarray(value).tolist() for name, value in file.attrs.items()}
    return {"attributes": attributes, "datasets": datasets}


def list_certificates(block: Block) -> Iterator[str]:
    """Yield what the labels of a model have in common: outcomes, gaps, sparsity, time."""
    for outcome in Outcome:
        count = int(np.count_nonzero(block.outcome == outcome))
        if count:
            yield f"{outcome.name.replace('_', ' '):<24} {count:,} labels"
    solved = np.isin(block.outcome, (Outcome.converged, Outcome.iteration_limit))
    if solved.any():
        gaps = block.duality_gap[solved] / block.n_positives[solved]
        yield f"{'gap / positives':<24} {_spread(gaps, '.1e')}"
        yield f"{'weights per label':<24} {_spread(np.diff(block.indptr)[solved], ',.0f')}"
        yield f"{'seconds per label':<24} {_spread(block.seconds[solved], '.4f')}, sum {block.seconds.sum():,.1f}"


def _describe(dataset: Any) -> str:
    shape = ", ".join(map(str, dataset.shape))
    return f"{dataset.name:<24} {dataset.dtype!s:<8} {{{shape}}}  {dataset.nbytes:,} bytes"


def _spread(values: Any, form: str) -> str:
    low, high = np.quantile(values, [0.5, 0.9])
    return f"median {low:{form}}, 90 % {high:{form}}, largest {values.max():{form}}"
