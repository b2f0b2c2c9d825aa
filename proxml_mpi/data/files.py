"""The bytes of text files: plain, .gz, .xz or .zst, told apart by content."""

import importlib
import lzma
import os
import stat
import zlib
from collections.abc import Callable, Iterator
from io import BufferedReader
from os import PathLike
from pathlib import Path as FilePath
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from proxml_mpi.errors import DataError
from proxml_mpi.files import reason

Path = str | PathLike[str]

PADDING = 64  # newlines after the content, so that a kernel may look ahead without asking where the end is
_CHUNK_BYTES = 1 << 20
_STEP_BYTES = 1 << 12
_MOST_EXPANSION = 64  # of the beginning of a packed file
_MAGIC = {b"\x1f\x8b": "gzip", b"\xfd7zXZ\x00": "xz", b"\x28\xb5\x2f\xfd": "zstd"}


class _Decompressor(Protocol):
    """What zlib, lzma and zstandard agree on; one object unpacks one member (stream, frame)."""

    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, /) -> bytes: ...


def read_content(path: Path) -> NDArray[np.uint8]:
    """Read and unpack a whole file; the array, uint8 [n_bytes + PADDING], ends in PADDING newlines."""
    try:
        with FilePath(path).open("rb") as stream:
            packing = _packing(stream.peek(8))
            if packing is not None:
                return _unpack(stream, path, packing)
            return _read_plain(stream)
    except OSError as error:
        raise DataError(path, f"cannot be read: {reason(error)}") from None


def read_beginning(path: Path, n_bytes: int = 1 << 16) -> bytes:
    """Read and unpack the first bytes of a file, or all when there are fewer; damage further on is not looked for."""
    try:
        if FilePath(path).is_fifo():
            return b""  # what is read from a pipe is gone
        with FilePath(path).open("rb") as stream:
            beginning = stream.read(n_bytes)
    except OSError as error:
        raise DataError(path, f"cannot be read: {reason(error)}") from None
    packing = _packing(beginning)
    if packing is None:
        return beginning
    new_decompressor, failure = _decompressor(path, packing)
    decompressor, content = new_decompressor(), bytearray()
    try:
        # In small steps: a few bytes may unpack to very many.
        for at in range(0, len(beginning), _STEP_BYTES):
            if decompressor.eof or len(content) > _MOST_EXPANSION * n_bytes:
                break
            content += decompressor.decompress(beginning[at : at + _STEP_BYTES])
    except failure as error:
        raise DataError(path, f"damaged {packing} file: {error}") from None
    return bytes(content)


def pad_content(content: bytes | bytearray) -> NDArray[np.uint8]:
    """Put PADDING newlines after the content; returns uint8 [n_bytes + PADDING]."""
    padded = np.full(len(content) + PADDING, ord("\n"), np.uint8)
    padded[: len(content)] = np.frombuffer(content, np.uint8)
    return padded


def _packing(beginning: bytes) -> str | None:
    return next((packing for magic, packing in _MAGIC.items() if beginning.startswith(magic)), None)


def _read_plain(stream: BufferedReader) -> NDArray[np.uint8]:
    """Read a file of known size straight into the padded array; pipes have no size and grow a buffer."""
    status = os.fstat(stream.fileno())
    if not stat.S_ISREG(status.st_mode):
        return pad_content(stream.read())
    padded = np.empty(status.st_size + PADDING, np.uint8)
    free = padded.data[: status.st_size]
    while n_read := stream.readinto(free):
        free = free[n_read:]
    n_bytes = status.st_size - len(free)
    padded[n_bytes:] = ord("\n")
    return padded[: n_bytes + PADDING]


def read_chunks(path: Path) -> Iterator[bytes]:
    """Read and unpack a file piece by piece."""
    try:
        with FilePath(path).open("rb") as stream:
            packing = _packing(stream.peek(8))
            if packing is not None:
                yield from _unpacked(stream, path, packing)
                return
            while chunk := stream.read(_CHUNK_BYTES):
                yield chunk
    except OSError as error:
        raise DataError(path, f"cannot be read: {reason(error)}") from None


def _unpack(stream: BufferedReader, path: Path, packing: str) -> NDArray[np.uint8]:
    """Unpack a whole compressed file into a padded array."""
    content = bytearray()
    for chunk in _unpacked(stream, path, packing):
        content += chunk
    content += b"\n" * PADDING
    return np.frombuffer(content, np.uint8)


def _unpacked(stream: BufferedReader, path: Path, packing: str) -> Iterator[bytes]:
    """Unpack all members of a compressed file; a file that ends inside a member is refused."""
    new_decompressor, failure = _decompressor(path, packing)
    decompressor = new_decompressor()
    n_bytes = 0
    try:
        while chunk := stream.read(_CHUNK_BYTES):
            while chunk:
                if decompressor.eof:
                    # Zero bytes between or after members are padding, in gzip and in xz.
                    chunk = chunk.lstrip(b"\0")
                    if not chunk:
                        break
                    decompressor = new_decompressor()
                unpacked = decompressor.decompress(chunk)
                n_bytes += len(unpacked)
                yield unpacked
                chunk = decompressor.unused_data
    except failure as error:
        raise DataError(path, f"damaged {packing} file: {error}") from None
    if not decompressor.eof:
        raise DataError(path, f"truncated {packing} file: it breaks off after {n_bytes} unpacked bytes")


def _decompressor(path: Path, packing: str) -> tuple[Callable[[], _Decompressor], type[Exception]]:
    if packing == "gzip":
        return lambda: zlib.decompressobj(wbits=31), zlib.error
    if packing == "xz":
        return lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ), lzma.LZMAError
    try:
        zstandard: Any = importlib.import_module("zstandard")
    except ImportError:
        problem = "a zstd file, which needs the Python package 'zstandard' (pip install zstandard, the extra zstd)"
        raise DataError(path, problem) from None
    return lambda: zstandard.ZstdDecompressor().decompressobj(), zstandard.ZstdError
