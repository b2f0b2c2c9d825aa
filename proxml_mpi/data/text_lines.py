"""The lines of text formats, read in two passes over ranges of them, each on as many threads as wanted.

The first pass counts what bounds the sizes of the arrays, the second fills them. The formats and their complaints are
those of `text_reference`, whatever the number of threads.
"""

import itertools
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from proxml_mpi.data.complaints import Complain, insist
from proxml_mpi.data.dataset import Float32, Int32, Int64, Lists, Matrix
from proxml_mpi.data.files import PADDING, Path
from proxml_mpi.data.text_kernels import count_marks, next_line, read_lines
from proxml_mpi.data.text_reference import Form, Instance, parse_line
from proxml_mpi.errors import DataError

_RANGES_PER_THREAD = 4
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_NOTHING = Instance([], [], [])

Bytes = NDArray[np.uint8]
_Scalar = TypeVar("_Scalar", bound=np.generic)


class _Range(NamedTuple):
    """Consecutive lines of the file and the places of the arrays that they may fill."""

    begin: int  # position of the first line
    instance: int  # number of the first line's instance
    end_instance: int
    place: int  # of the first feature
    end_place: int
    label_place: int
    end_label_place: int


class _Arrays(NamedTuple):
    """What the threads fill, with gaps where a range stays below its bounds."""

    counts: Int64  # [2, n_instances]: features and labels of every instance
    features: Int32
    values: Float32
    labels: Int32


def split_header(text: Bytes, path: Path, expected: str) -> tuple[bytes, int]:
    """Return the first line, and where the second begins; refuse an empty file."""
    begin = first_line(text)
    if len(text) - PADDING == begin:
        raise DataError(path, f"the file is empty, expected {expected}")
    end = int(next_line(text, begin))
    return text[begin : end - 1].tobytes(), end


def first_line(text: Bytes) -> int:
    """Return where the first line begins: after the byte order mark, if there is one."""
    return len(_BYTE_ORDER_MARK) if text[:3].tobytes() == _BYTE_ORDER_MARK else 0


def parse_lines(
    text: Bytes, begin: int, form: Form, path: Path, n_threads: int, complain: Complain = insist
) -> tuple[Matrix, Lists]:
    """Parse all lines from a position on; instances that were complained of are left empty."""
    size = len(text) - PADDING
    if size > begin and text[size - 1] != ord("\n"):
        size += 1  # the first newline of the padding ends the last line
    with ThreadPoolExecutor(n_threads) as pool:
        borders = _borders(text, begin, size, n_threads * _RANGES_PER_THREAD)
        marks = list(pool.map(lambda part: count_marks(text, *part), itertools.pairwise(borders)))
        n_lines = sum(n for n, _, _ in marks)
        ranges = _ranges(borders, marks, n_lines if form.n_instances is None else form.n_instances)
        arrays = _allocate(ranges)
        # The pool answers in the order of the file: so does the first complaint.
        filled = list(pool.map(lambda part: _fill(part, text, form, arrays, path, complain), ranges))
    if form.n_instances is not None:
        _check_count(n_lines, form.n_instances, form.n_header_lines, path, complain)
    return _assemble(arrays, ranges, filled)


def _borders(text: Bytes, begin: int, end: int, n_ranges: int) -> list[int]:
    """Cut a text at beginnings of lines into about equal ranges."""
    targets = [begin + (end - begin) * part // n_ranges for part in range(1, n_ranges)]
    inner = {min(int(next_line(text, target - 1)), end) for target in targets if target > begin}
    return [begin, *sorted(inner - {begin, end}), end]


def _ranges(borders: list[int], marks: list[tuple[int, int, int]], n_instances: int) -> list[_Range]:
    """Give every range its instances and its places: a feature needs a colon, a label the line or a comma."""
    ranges = []
    instance = place = label_place = 0
    for begin, (n_lines, n_colons, n_commas) in zip(borders, marks, strict=False):
        end_instance = min(instance + n_lines, n_instances)
        end_place, end_label_place = place + n_colons, label_place + n_commas + n_lines
        ranges.append(_Range(begin, instance, end_instance, place, end_place, label_place, end_label_place))
        instance, place, label_place = end_instance, end_place, end_label_place
    return ranges


def _allocate(ranges: list[_Range]) -> _Arrays:
    last = ranges[-1]
    return _Arrays(
        np.zeros((2, last.end_instance), np.int64),
        np.empty(last.end_place, np.int32),
        np.empty(last.end_place, np.float32),
        np.empty(last.end_label_place, np.int32),
    )


def _fill(part: _Range, text: Bytes, form: Form, arrays: _Arrays, path: Path, complain: Complain) -> tuple[int, int]:
    """Read the lines of a range into its places; returns where its features and labels end."""
    kernel_form = (form.first_feature, form.n_features, form.first_label, form.n_labels, int(form.has_label_column))
    position, instance, place, label_place = part.begin, part.instance, part.place, part.label_place
    while True:
        position, instance, place, label_place = read_lines(
            text, position, instance, part.end_instance, kernel_form, *arrays, place, label_place
        )
        if instance == part.end_instance:
            return place, label_place
        end = next_line(text, position)
        found = _NOTHING
        try:
            line = text[position : end - 1].tobytes()
            found = parse_line(line, form, path, instance + 1 + form.n_header_lines)
        except DataError as error:
            complain(error)
        end_place, end_label_place = place + len(found.features), label_place + len(found.labels)
        arrays.counts[:, instance] = len(found.features), len(found.labels)
        arrays.features[place:end_place] = found.features
        arrays.values[place:end_place] = found.values
        arrays.labels[label_place:end_label_place] = found.labels
        position, instance, place, label_place = end, instance + 1, end_place, end_label_place


def _check_count(n_lines: int, n_promised: int, n_header_lines: int, path: Path, complain: Complain) -> None:
    if n_lines < n_promised:
        problem = f"the file ends after {n_lines} instances, the header promises {n_promised}"
        complain(DataError(path, problem, line=n_lines + n_header_lines))
    if n_lines > n_promised:
        problem = f"found {n_lines} instances, the header promises {n_promised}; here is the first too many"
        complain(DataError(path, problem, line=n_promised + n_header_lines + 1))


def _assemble(arrays: _Arrays, ranges: list[_Range], filled: list[tuple[int, int]]) -> tuple[Matrix, Lists]:
    spans = [(part.place, end) for part, (end, _) in zip(ranges, filled, strict=True)]
    label_spans = [(part.label_place, end) for part, (_, end) in zip(ranges, filled, strict=True)]
    indptr, label_indptr = np.zeros((2, arrays.counts.shape[1] + 1), np.int64)
    np.cumsum(arrays.counts[0], out=indptr[1:])
    np.cumsum(arrays.counts[1], out=label_indptr[1:])
    features = Matrix(indptr, _close_gaps(arrays.features, spans), _close_gaps(arrays.values, spans))
    return features, Lists(label_indptr, _close_gaps(arrays.labels, label_spans))


def _close_gaps(array: NDArray[_Scalar], spans: list[tuple[int, int]]) -> NDArray[_Scalar]:
    if sum(end - begin for begin, end in spans) == len(array):
        return array
    return np.concatenate([array[begin:end] for begin, end in spans])
