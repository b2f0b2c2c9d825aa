"""XMC text in pieces: files larger than the memory, and lines that arrive one by one.

A piece holds consecutive instances. Complaints name the same line and say the same as when a file is read at once.
"""

import os
from collections.abc import Iterator
from typing import NamedTuple

from proxml_mpi.data.dataset import Dataset
from proxml_mpi.data.files import Path, pad_content, read_chunks
from proxml_mpi.data.text_lines import parse_lines
from proxml_mpi.data.text_reference import Form, parse_header
from proxml_mpi.errors import DataError

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_PIPE_BYTES = 1 << 20


class TextStream(NamedTuple):
    """An open file of XMC text: what its header says, and its instances in pieces."""

    form: Form
    pieces: Iterator[Dataset]


def open_text(path: Path, n_per_piece: int, n_threads: int = 1) -> TextStream:
    """Open a file of XMC text, plain or compressed, to read n_per_piece instances at a time."""
    chunks = read_chunks(path)
    buffer = bytearray()
    while b"\n" not in buffer and (chunk := next(chunks, b"")):
        buffer += chunk
    if buffer.startswith(_BYTE_ORDER_MARK):
        del buffer[: len(_BYTE_ORDER_MARK)]
    if not buffer:
        raise DataError(path, "the file is empty, expected the header 'N D L'")
    line, _, rest = bytes(buffer).partition(b"\n")
    form = parse_header(line, path)
    return TextStream(form, _pieces(form, rest, chunks, path, n_per_piece, n_threads))


def _pieces(
    form: Form, rest: bytes, chunks: Iterator[bytes], path: Path, n_per_piece: int, n_threads: int
) -> Iterator[Dataset]:
    """Yield the instances that the header promises; refuse a file that holds fewer or more."""
    n_instances, n_done = form.n_instances or 0, 0
    for text in _cut(rest, chunks, n_per_piece):
        n_lines = text.count(b"\n")
        if n_done + n_lines > n_instances:
            problem = f"found more instances, the header promises {n_instances}; here is the first too many"
            raise DataError(path, problem, line=n_instances + 2)
        yield _parse(text, form._replace(n_instances=n_lines, n_header_lines=1 + n_done), path, n_threads)
        n_done += n_lines
    if n_done < n_instances:
        problem = f"the file ends after {n_done} instances, the header promises {n_instances}"
        raise DataError(path, problem, line=n_done + 1)


def _cut(rest: bytes, chunks: Iterator[bytes], n_per_piece: int) -> Iterator[bytes]:
    """Put chunks together and yield n_per_piece whole lines at a time, then what is left; each line with its end."""
    held, n_lines = [rest], rest.count(b"\n")
    for chunk in chunks:
        held.append(chunk)
        n_lines += chunk.count(b"\n")
        if n_lines >= n_per_piece:
            *pieces, rest = _split(b"".join(held), n_lines // n_per_piece, n_per_piece)
            yield from pieces
            held, n_lines = [rest], n_lines % n_per_piece
    text = b"".join(held)
    if text and not text.endswith(b"\n"):
        text += b"\n"
    yield from filter(None, _split(text, text.count(b"\n") // n_per_piece, n_per_piece))


def _split(text: bytes, n_pieces: int, n_per_piece: int) -> list[bytes]:
    """Cut off n_pieces of n_per_piece lines; what is left comes last."""
    pieces, begin = [], 0
    for _ in range(n_pieces):
        end = begin
        for _ in range(n_per_piece):
            end = text.index(b"\n", end) + 1
        pieces.append(text[begin:end])
        begin = end
    return [*pieces, text[begin:]]


def read_pipe(descriptor: int, name: str, n_features: int, n_labels: int, n_per_piece: int) -> Iterator[Dataset]:
    """Yield lines without a header as they arrive, all that have come in since the last piece, until the end.

    A line is `f:v f:v ...`, or `l1,l2 f:v ...` as in a file, whose labels are read and checked but of no use. The first
    piece is empty: whoever takes it has everything compiled when the first line comes.
    """
    form = Form(None, n_features, n_labels, n_header_lines=0, authority="the model allows")
    yield _parse(b"", form, name, 1)
    rest = b""
    while chunk := os.read(descriptor, _PIPE_BYTES):
        rest += chunk
        whole, end, rest = rest.rpartition(b"\n")
        for text in _cut(whole + end, iter(()), n_per_piece) if end else ():
            yield _parse(_with_label_column(text), form, name, 1)
            form = form._replace(n_header_lines=form.n_header_lines + text.count(b"\n"))
    if rest:
        yield _parse(_with_label_column(rest + b"\n"), form, name, 1)


def _with_label_column(text: bytes) -> bytes:
    """Begin every line whose first word is feature:value with a blank: an empty list of labels."""
    lines = text.split(b"\n")
    return b"\n".join(b" " + line if b":" in line.partition(b" ")[0] else line for line in lines)


def _parse(text: bytes, form: Form, path: Path, n_threads: int) -> Dataset:
    features, labels = parse_lines(pad_content(text), 0, form, path, n_threads)
    return Dataset(features, labels, form.n_features, form.n_labels)
