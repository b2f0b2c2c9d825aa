"""Words that the views of a model share."""

import math
from collections.abc import Sequence
from typing import Any


def naming(number: int, name: str | None) -> str:
    """Return an id with its name, if it has one."""
    return str(number) if name is None else f"{number} {name!r}"


def jsonable(value: Any) -> Any:
    """Return the same with null for numbers that JSON does not have."""
    if isinstance(value, dict):
        return {key: jsonable(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [jsonable(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def aligned(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table, every column as wide as its widest cell."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    return ["  ".join(f"{cell:>{width}}" for cell, width in zip(row, widths, strict=True)) for row in (head, *rows)]
