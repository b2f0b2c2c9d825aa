"""Checksums in HDF5 files: one a label, so that a rank can check the labels it reads; of the header; of other parts."""

import hashlib
import itertools
import zlib
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proxml_mpi.solve.block import Block

HEADER_DIGEST = "header_digest"
FEATURE_COUNTS_DIGEST = "feature_counts_digest"  # an attribute, so that the header's digest covers it
DIGEST = "digest"  # the attribute of a group or dataset that has one of its own


def label_checksums(block: Block) -> NDArray[np.uint32]:
    """Return the CRC-32 of every label's feature ids, weights and facts, uint32 [n_labels]."""
    packed = pack_facts(block)
    indices, data = block.indices.tobytes(), block.data.tobytes()
    ends = (4 * block.indptr).tolist()
    sums = np.empty(block.n_labels, np.uint32)
    for label, (begin, end) in enumerate(itertools.pairwise(ends)):
        sums[label] = zlib.crc32(packed[label], zlib.crc32(data[begin:end], zlib.crc32(indices[begin:end])))
    return sums


def pack_facts(block: Block) -> NDArray[np.uint8]:
    """Return the bytes of all that is known of the labels but their weights and seconds, uint8 [n_labels, n_bytes]."""
    facts = (block.bias, block.n_positives, block.objective, block.duality_gap, block.iterations, block.lambda_)
    columns = [np.ascontiguousarray(array).view(np.uint8).reshape(block.n_labels, array.itemsize) for array in facts]
    return np.hstack([*columns, block.outcome[:, None]])


def header_digest(attributes: Mapping[str, Any], idf: NDArray[np.float32] | None) -> str:
    """Return a digest of the model's attributes, whatever their order, and of the weights of its features."""
    lines = (f"{name}={attributes[name]}\n".encode() for name in sorted(attributes.keys() - {HEADER_DIGEST}))
    return digest_of([*lines, *([] if idf is None else [idf.tobytes()])])


def array_digest(*arrays: NDArray[Any]) -> str:
    """Return a digest of the bytes of arrays, one after the other."""
    return digest_of(np.ascontiguousarray(array).view(np.uint8).data for array in arrays)


def names_digest(names: Iterable[str]) -> str:
    """Return a digest of names and of where they end."""
    return digest_of(f"{name}\n".encode() for name in names)


def digest_of(parts: Iterable[bytes | memoryview]) -> str:
    """Return a digest of bytes, one part after the other."""
    content = hashlib.blake2b(digest_size=16)
    for part in parts:
        content.update(part)
    return content.hexdigest()
