"""Which format a file has, told by its content, and which files make a data set."""

import re
from pathlib import Path as FilePath
from typing import NamedTuple

from proxml_mpi.data.files import Path, read_beginning
from proxml_mpi.data.text_reference import quote
from proxml_mpi.errors import DataError

PAIRS = ("two-file", "npz")

_HDF5 = b"\x89HDF\r\n\x1a\n"
_ZIP = b"PK\x03\x04"
_LABELS = re.compile(rb"[0-9]+(,[0-9]+)*")
_UNDECIDED = (
    "expected a header 'N D L' (XMC text), a header 'N D' (two-file form) or 'l1,l2 f:v f:v' (libsvm); "
    "--format says which it is"
)


class Source(NamedTuple):
    """A data set's format and files: one, or that of the features and that of the labels."""

    format: str
    paths: tuple[FilePath, ...]


def find_source(path: Path, format: str = "auto") -> Source:
    """Tell the format of a data set and find all of its files.

    A pair is named FEATURES,LABELS, or by its file of features when that of the labels is named alike: X_Xf and X_Y,
    or X and Y.
    """
    features, labels = _named_pair(FilePath(path))
    if format == "auto":
        format = _sniff(features)
    if format not in PAIRS:
        if labels is not None:
            raise DataError(path, f"found two files, expected one for the format {format}")
        return Source(format, (features,))
    if labels is None:
        labels = _sibling(features, format)
    elif format != (other := _sniff(labels)):
        raise DataError(labels, f"found the format {other}, expected {format} as in {features}")
    return Source(format, (features, labels))


def _named_pair(path: FilePath) -> tuple[FilePath, FilePath | None]:
    """Cut FEATURES,LABELS in two, unless a file has just that name."""
    features, comma, labels = str(path).partition(",")
    if not comma or path.exists():
        return path, None
    if not features or not labels:
        raise DataError(path, "found half a pair, expected FEATURES,LABELS")
    return FilePath(features), FilePath(labels)


def _sibling(features: FilePath, format: str) -> FilePath:
    """Find the labels that belong to features by their names."""
    stem, dot, suffixes = features.name.partition(".")
    wanted = re.sub(r"X_Xf|(?<![^_-])X(?![^_-])", lambda name: "X_Y" if name[0] == "X_Xf" else "Y", stem, count=1)
    labels = features.with_name(f"{wanted}{dot}{suffixes}")
    if wanted == stem:
        raise DataError(features, f"is one half of a data set ({format}): give both as FEATURES,LABELS")
    if not labels.is_file():
        problem = f"is one half of a data set ({format}), but there is no {labels}: give both as FEATURES,LABELS"
        raise DataError(features, problem)
    return labels


def _sniff(path: FilePath) -> str:
    """Tell a format by the first bytes of a file."""
    beginning = read_beginning(path)
    if beginning.startswith(_HDF5):
        return "hdf5"
    if beginning.startswith(_ZIP):
        return "npz"
    line = beginning.removeprefix(b"\xef\xbb\xbf").partition(b"\n")[0].removesuffix(b"\r")
    tokens = line.split()
    if not beginning or (len(tokens) == 3 and b":" not in line):
        return "xmc"
    if len(tokens) == 2 and all(token.isdigit() for token in tokens):
        return "two-file"
    # Instances may have nothing: the first that has something decides.
    lines = (line.removesuffix(b"\r") for line in beginning.split(b"\n"))
    instance = next((line for line in lines if line.strip()), b"")
    if _is_instance(instance, instance.split()):
        return "libsvm"
    raise DataError(path, f"found {quote(line)}, {_UNDECIDED}", line=1)


def _is_instance(line: bytes, tokens: list[bytes]) -> bool:
    """Tell whether a line could be an instance with features; the last token may be cut off."""
    has_labels = bool(tokens) and not line.startswith((b" ", b"\t"))
    entries = tokens[1:] if has_labels else tokens
    if not entries or (has_labels and not _LABELS.fullmatch(tokens[0])):
        return False
    return all(re.match(rb"[0-9]+:", entry) for entry in (entries[:-1] or entries))
