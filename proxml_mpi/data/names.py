"""Names of labels or features: one a line, the first line for id 0."""

from os import PathLike

from proxml_mpi.data.files import PADDING, read_content
from proxml_mpi.errors import DataError


def read_names(path: str | PathLike[str], n_expected: int) -> tuple[str, ...]:
    """Read the names of all labels or features: UTF-8 text, plain or compressed."""
    content = read_content(path)[:-PADDING].tobytes().removeprefix(b"\xef\xbb\xbf")
    lines = content.removesuffix(b"\n").split(b"\n") if content else []
    if len(lines) != n_expected:
        raise DataError(path, f"found {len(lines)} names, one a line, expected {n_expected}")
    return tuple(_name(line.removesuffix(b"\r"), path, number) for number, line in enumerate(lines, start=1))


def _name(line: bytes, path: str | PathLike[str], number: int) -> str:
    if b"\0" in line:
        raise DataError(path, "found a NUL byte in a name, expected text", line=number)
    try:
        return line.decode()
    except UnicodeDecodeError:
        raise DataError(path, f"found {line[:40]!r}, expected a name in UTF-8", line=number) from None
