"""Writing a model file anew, with more in it or in fewer bytes; its weights and certificates stay, bit for bit."""

from pathlib import Path
from typing import Any

import h5py

from proxml_mpi.files import check_target, partial_name, put_in_place
from proxml_mpi.solve.block import Block
from proxml_mpi.store.checksums import DIGEST
from proxml_mpi.store.hdf5 import read_slice, reading, write_slice, writing
from proxml_mpi.store.layout import INDEX
from proxml_mpi.store.model_reader import StoredIndex, check_labels, index_digest, read_header

CHUNK_ENTRIES = 1 << 15  # what is unpacked at once: ranks read slices, which should not cost them much more
COMPRESSION = {"compression": "gzip", "compression_opts": 9, "shuffle": True}


def rewrite_model(path: Path, index: StoredIndex | None, block: Block, compress: bool) -> None:
    """Replace a model file by one with an index (None: the one that it has, if any), compressed when asked to.

    block: all labels. The new file takes the place of the old one when it has been read back.
    """
    check_target(path, overwrite=True)
    temporary = partial_name(path)
    try:
        with reading(path) as source, writing(path), h5py.File(temporary, "w") as target:
            target.attrs.update(source.attrs)
            names: list[str] = []
            source.visititems(lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None)
            for name in names:
                if index is None or name not in INDEX:
                    _copy(source, target, name, compress)
            if index is not None:
                for name, field in zip(INDEX, index._fields, strict=True):
                    values = getattr(index, field)
                    write_slice(_create(target, name, values.shape, values.dtype, compress), 0, values)
                target["index"].attrs[DIGEST] = index_digest(index, block)
            elif "index" in source:
                target["index"].attrs.update(source["index"].attrs)
        check_labels(read_header(temporary))
        with writing(path):
            put_in_place(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _copy(source: Any, target: Any, name: str, compress: bool) -> None:
    """Copy one dataset; strings as they are."""
    dataset = source[name]
    if not compress or dataset.ndim != 1 or h5py.check_string_dtype(dataset.dtype) is not None:
        source.copy(name, target, name)
        return
    copy = _create(target, name, dataset.shape, dataset.dtype, compress)
    copy.attrs.update(dataset.attrs)
    write_slice(copy, 0, read_slice(dataset, 0, len(dataset)))


def _create(target: Any, name: str, shape: tuple[int, ...], dtype: Any, compress: bool) -> Any:
    if not compress or shape[0] == 0:
        return target.create_dataset(name, shape, dtype)
    return target.create_dataset(name, shape, dtype, chunks=(min(shape[0], CHUNK_ENTRIES),), **COMPRESSION)
