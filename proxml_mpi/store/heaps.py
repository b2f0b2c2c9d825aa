"""A look at where HDF5 keeps strings of any length, before HDF5 itself looks: damaged, they make it loop for ever.

They lie in global heap collections, which have no checksum: "GCOL", version, 3 bytes, size of the collection (8 bytes);
then objects: number (2 bytes), references (2), nothing (4), size (8), content padded to 8 bytes. Object 0 is the free
rest, its size that of all of it. HDF5 adds up sizes until the collection ends, and a free rest of size 0 has no end.
"""

import mmap
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py

SIGNATURE = b"GCOL"
HEADER = 16  # bytes, of a collection as of an object


def check_heaps(path: Path, file: Any) -> None:
    """Refuse, by ValueError, an open file with a heap that HDF5 would never find its way out of."""
    with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
        for begin, end in _gaps(_data_spans(file), len(content)):
            at = content.find(SIGNATURE, begin, end)
            while at >= 0:
                if at % 8 == 0:  # as everything that HDF5 allocates
                    _check_heap(content, at)
                at = content.find(SIGNATURE, at + 1, end)


def _check_heap(content: mmap.mmap, at: int) -> None:
    if at + HEADER > len(content):
        raise ValueError(f"a heap of strings at byte {at} is cut off")
    (size,) = struct.unpack_from("<Q", content, at + 8)
    end, place = at + size, at + HEADER
    while place + HEADER <= min(end, len(content)):
        number, n_bytes = struct.unpack_from("<H6xQ", content, place)
        step = n_bytes if number == 0 else HEADER + (n_bytes + 7) // 8 * 8
        if step == 0 or place + step > end:
            raise ValueError(f"a heap of strings at byte {at} is damaged")
        place += step


def _data_spans(file: Any) -> list[tuple[int, int]]:
    """Return where in the file the datasets are: numbers may look like anything."""
    spans: list[tuple[int, int]] = []

    def note(_: str, item: Any) -> None:
        if not isinstance(item, h5py.Dataset):
            return
        if item.chunks is None:
            begin = item.id.get_offset()
            if begin is not None:
                spans.append((begin, begin + item.id.get_storage_size()))
        else:
            chunks = (item.id.get_chunk_info(number) for number in range(item.id.get_num_chunks()))
            spans.extend((chunk.byte_offset, chunk.byte_offset + chunk.size) for chunk in chunks)

    file.visititems(note)
    return sorted(spans)


def _gaps(spans: list[tuple[int, int]], n_bytes: int) -> Iterator[tuple[int, int]]:
    """Yield the stretches of a file that no span covers."""
    place = 0
    for begin, end in spans:
        if begin > place:
            yield place, min(begin, n_bytes)
        place = max(place, end)
    if place < n_bytes:
        yield place, n_bytes
