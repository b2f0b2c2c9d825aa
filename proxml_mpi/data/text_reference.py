"""The text formats in slow, obvious Python: one line at a time, every complaint worded here.

The kernels read what they are sure of and leave every other line to this parser, which either reads it or says what
is wrong with it. It is also the independent road that the tests hold the kernels against.

    XMC header      N D L                   instances, features, labels
    instance        l1,l2 f:v f:v           0-based ids; no labels: the line begins with a blank
    libsvm          l1,l2 f:v f:v           no header, 1-based ids
    matrix header   N D                     rows and columns, in each of the two files of a pair
    row             f:v f:v                 0-based ids

Blanks are spaces and tabs. Ids are decimal digits, values decimal numbers with optional sign and exponent. The order of
labels and features does not matter; a value of zero says the same as no entry, and is left out.
"""

import re
from os import PathLike
from typing import NamedTuple

import numpy as np

from proxml_mpi.errors import DataError

LARGEST_ID_COUNT = 2**31 - 1
XMC_HEADER = "three whole numbers 'N D L' (instances, features, labels)"
_WHOLE = re.compile(rb"[0-9]+")
_NEGATIVE = re.compile(rb"-[0-9]+")
_NUMBER = re.compile(rb"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_NOT_FINITE = re.compile(rb"[+-]?(nan|inf|infinity)", re.IGNORECASE)
_BLANKS = re.compile(rb"[ \t]+")


class Form(NamedTuple):
    """What the lines of a file look like, and which ids they may hold."""

    n_instances: int | None  # None: as many as there are lines
    n_features: int
    n_labels: int
    first_feature: int = 0  # the smallest id that the file may use, which becomes id 0
    first_label: int = 0
    n_header_lines: int = 1
    has_label_column: bool = True  # a line begins with its labels; otherwise it is a row of a matrix
    entry: str = "feature"  # what a matrix has a column for
    authority: str = "the header allows"  # who says which ids there are

    @property
    def entries(self) -> "Ids":
        return Ids(self.entry, self.first_feature, self.n_features, self.authority)

    @property
    def labels(self) -> "Ids":
        return Ids("label", self.first_label, self.n_labels, self.authority)


class Ids(NamedTuple):
    """The ids of one kind that a file may use."""

    kind: str
    first: int
    n_ids: int
    authority: str

    @property
    def range(self) -> str:
        return f"{self.first} to {self.first + self.n_ids - 1}"


class Instance(NamedTuple):
    """One line: ids ascending, values none of them zero."""

    labels: list[int]
    features: list[int]
    values: list[np.float32]


class _Place(NamedTuple):
    path: str | PathLike[str]
    line: int

    def error(self, problem: str) -> DataError:
        return DataError(self.path, problem, line=self.line)


def parse_header(line: bytes, path: str | PathLike[str]) -> Form:
    """Read the header of XMC text, given without its line end."""
    counts = parse_counts(line, path, 3, XMC_HEADER, "1 instance, 1 feature and 1 label")
    return Form(n_instances=counts[0], n_features=counts[1], n_labels=counts[2])


def parse_counts(line: bytes, path: str | PathLike[str], n_counts: int, expected: str, least: str) -> list[int]:
    """Read a header of whole numbers, given without its line end."""
    place = _Place(path, 1)
    tokens = _tokens(line)
    if len(tokens) != n_counts:
        raise place.error(f"header: found {quote(line)}, expected {expected}")
    return [_count(token, place, expected, least) for token in tokens]


def parse_line(line: bytes, form: Form, path: str | PathLike[str], number: int) -> Instance:
    """Read the instance of one line, given without its line end; number counts the lines of the file from 1."""
    place = _Place(path, number)
    tokens = _tokens(line)
    has_labels = form.has_label_column and bool(tokens) and not line.startswith((b" ", b"\t"))
    labels = _labels(tokens[0], form.labels, place) if has_labels else set()
    entries: dict[int, np.float32] = {}
    for token in tokens[1:] if has_labels else tokens:
        feature, value = _entry(token, form.entries, place)
        if feature in entries:
            again = f"{form.entry} {feature + form.first_feature} is repeated in one instance"
            raise place.error(f"{again}, by {quote(token)}; expected it once")
        entries[feature] = value
    features = sorted(feature for feature, value in entries.items() if value != 0)
    return Instance(sorted(labels), features, [entries[feature] for feature in features])


def _tokens(line: bytes) -> list[bytes]:
    return [token for token in _BLANKS.split(line.removesuffix(b"\r")) if token]


def _labels(token: bytes, ids: Ids, place: _Place) -> set[int]:
    if b":" in token:
        expected = "ids like 3,17; a line without labels begins with a blank"
        raise place.error(f"found {quote(token)} in the place of labels, expected {expected}")
    labels: set[int] = set()
    for part in token.split(b","):
        label = _id(part, ids, token, place)
        if label in labels:
            again = f"label {label + ids.first} is repeated in one instance"
            raise place.error(f"{again}, in {quote(token)}; expected it once")
        labels.add(label)
    return labels


def _entry(token: bytes, ids: Ids, place: _Place) -> tuple[int, np.float32]:
    number, colon, value = token.partition(b":")
    if not colon:
        raise place.error(f"found {quote(token)}, expected {ids.kind}:value (there is no colon)")
    return _id(number, ids, token, place), _value(value, token, ids.kind, place)


def _id(digits: bytes, ids: Ids, token: bytes, place: _Place) -> int:
    """Read an id and answer its distance from the first one."""
    expected = f"a {ids.kind} id from {ids.range}"
    if not digits:
        raise place.error(f"a {ids.kind} id is empty in {quote(token)}, expected {expected}")
    if _NEGATIVE.fullmatch(digits):
        raise place.error(f"{ids.kind} id {quote(digits)} is negative, expected {expected}")
    if not _WHOLE.fullmatch(digits):
        raise place.error(f"{ids.kind} id {quote(digits)} is not a whole number, expected {expected}")
    number = _bounded(digits)
    if number is None or not ids.first <= number < ids.first + ids.n_ids:
        raise place.error(f"{ids.kind} id {quote(digits)} is out of range, {ids.authority} {ids.range}")
    return number - ids.first


def _value(digits: bytes, token: bytes, kind: str, place: _Place) -> np.float32:
    if not digits:
        raise place.error(f"the value is empty in {quote(token)}, expected {kind}:value")
    if _NOT_FINITE.fullmatch(digits):
        raise place.error(f"value {quote(digits)} in {quote(token)} is not finite, expected a finite number")
    if not _NUMBER.fullmatch(digits):
        raise place.error(f"value {quote(digits)} in {quote(token)} is not a number")
    with np.errstate(over="ignore", under="ignore"):
        value = np.float32(float(digits))
    if not np.isfinite(value):
        raise place.error(f"value {quote(digits)} in {quote(token)} is too large, float32 ends at 3.4e38")
    return value


def _count(digits: bytes, place: _Place, expected: str, least: str) -> int:
    if not _WHOLE.fullmatch(digits):
        what = "is negative" if _NEGATIVE.fullmatch(digits) else "is not a whole number"
        raise place.error(f"header: {quote(digits)} {what}, expected {expected}")
    number = _bounded(digits)
    if number is None or number > LARGEST_ID_COUNT:
        raise place.error(f"header: {quote(digits)} is too large, expected at most {LARGEST_ID_COUNT}")
    if number == 0:
        raise place.error(f"header: found {quote(digits)}, expected at least {least}")
    return number


def _bounded(digits: bytes) -> int | None:
    """Convert digits, or answer None when they are too many for any id (Python refuses to convert thousands)."""
    significant = digits.lstrip(b"0")
    return int(significant or b"0") if len(significant) <= 10 else None


def quote(found: bytes) -> str:
    """Quote what was found, on one line of printable ASCII, shortened."""
    shown = found if len(found) <= 40 else found[:37] + b"..."
    return repr(shown)[1:]
