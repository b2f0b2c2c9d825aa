"""Predictions as files, written piece by piece: text, a scipy sparse matrix, or HDF5, as the name asks for.

.txt    a header `N L`, then `label:score label:score ...` for every instance, best first
.npz    CSR [n_instances, n_labels] of scores, as scipy.sparse.load_npz reads it; labels ascend within an instance
.h5     attributes format = "proxml-predictions", format_version, creator, n_labels;
        /labels int32 [n_instances, k], best first, -1 where there is none; /scores float32 alike;
        /names/labels when the model knows them
"""

import io
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

import h5py
import numpy as np
from numpy.typing import NDArray

from proxml_mpi import __version__
from proxml_mpi.files import partial_name, put_in_place, replace_file
from proxml_mpi.store.hdf5 import writing
from proxml_mpi.store.names import Names, write_names
from proxml_mpi.store.prediction_text import prediction_header, prediction_lines

FORMAT, FORMAT_VERSION = "proxml-predictions", 1

Write = Callable[[NDArray[np.int32], NDArray[np.float32]], None]


class PredictionShape(NamedTuple):
    """What is known before the first prediction."""

    n_instances: int
    n_labels: int
    k: int
    label_names: tuple[str, ...] | None = None


def writing_predictions(path: Path, shape: PredictionShape) -> AbstractContextManager[Write]:
    """Open a file of predictions; gives the function that takes labels int32 [n, k] and scores float32 alike.

    The file appears under its name when all is written.
    """
    writers = {".txt": _writing_text, ".npz": _writing_npz, ".h5": _writing_hdf5}
    return writers.get(path.suffix, _writing_text)(path, shape)


@contextmanager
def _writing_text(path: Path, shape: PredictionShape) -> Iterator[Write]:
    with replace_file(path) as stream:
        stream.write(prediction_header(shape.n_instances, shape.n_labels))
        yield lambda labels, scores: _ignore(stream.write(prediction_lines(labels, scores)))


@contextmanager
def _writing_npz(path: Path, shape: PredictionShape) -> Iterator[Write]:
    """Keep indices and scores in nameless files until their number is known."""
    counts = []
    with tempfile.TemporaryFile(dir=path.parent) as indices, tempfile.TemporaryFile(dir=path.parent) as values:

        def write(labels: NDArray[np.int32], scores: NDArray[np.float32]) -> None:
            order = np.argsort(labels, axis=1, kind="stable")
            labels, scores = np.take_along_axis(labels, order, axis=1), np.take_along_axis(scores, order, axis=1)
            there = labels >= 0
            counts.append(np.count_nonzero(there, axis=1))
            indices.write(labels[there].tobytes())
            values.write(scores[there].tobytes())

        with replace_file(path) as stream:
            yield write
            indptr = np.concatenate([[0], np.cumsum(np.concatenate([[], *counts]))]).astype(np.int64)
            with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
                _copy_array(archive, "indices.npy", indices, np.dtype(np.int32), int(indptr[-1]))
                _copy_array(archive, "data.npy", values, np.dtype(np.float32), int(indptr[-1]))
                small = {"indptr": indptr, "format": np.array(b"csr"), "shape": np.array(shape[:2], np.int64)}
                for name, array in small.items():
                    with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                        np.lib.format.write_array(entry, array)


def _copy_array(archive: zipfile.ZipFile, name: str, content: IO[bytes], dtype: "np.dtype[Any]", length: int) -> None:
    """Put raw numbers into an archive as an array."""
    content.seek(0)
    with archive.open(name, "w", force_zip64=True) as entry:
        header = {"descr": dtype.str, "fortran_order": False, "shape": (length,)}
        np.lib.format.write_array_header_1_0(entry, header)
        while chunk := content.read(io.DEFAULT_BUFFER_SIZE * 128):
            entry.write(chunk)


@contextmanager
def _writing_hdf5(path: Path, shape: PredictionShape) -> Iterator[Write]:
    temporary = partial_name(path)
    try:
        with writing(path), h5py.File(temporary, "w") as file:
            file.attrs.update(format=FORMAT, format_version=FORMAT_VERSION, creator=f"proxml-mpi {__version__}")
            file.attrs["n_labels"] = shape.n_labels
            labels = file.create_dataset("labels", (shape.n_instances, shape.k), "i4", fillvalue=-1)
            scores = file.create_dataset("scores", (shape.n_instances, shape.k), "f4")
            write_names(file, Names(labels=shape.label_names))
            begin = 0

            def write(some_labels: NDArray[np.int32], some_scores: NDArray[np.float32]) -> None:
                nonlocal begin
                end = begin + len(some_labels)
                labels[begin:end], scores[begin:end] = some_labels, some_scores
                begin = end

            yield write
        with writing(path):
            put_in_place(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _ignore(_: object) -> None:
    """Drop what a write answers."""
