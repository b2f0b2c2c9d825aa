"""Metrics as files: one JSON object a run, or one CSV row a run that later runs append to."""

import csv
import io
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from proxml_mpi.errors import FileError
from proxml_mpi.files import reason, replace_text


def write_metrics(path: Path, result: Mapping[str, Any]) -> None:
    """Write the metrics of one run, as the name of the file asks for."""
    if path.suffix == ".csv":
        _append_row(path, result)
    else:
        replace_text(path, json.dumps(_without_nan(result), indent=2, allow_nan=False) + "\n")


def _append_row(path: Path, result: Mapping[str, Any]) -> None:
    """Add one row: the facts, then the metrics; the columns of an existing file must be the same."""
    facts = {name: value for name, value in result.items() if not isinstance(value, Mapping)}
    bounds = {
        f"{name} {side}": value
        for name, interval in result.get("intervals", {}).items()
        for side, value in zip(("low", "high"), interval, strict=True)
    }
    row = {name: _text(value) for name, value in (facts | result["metrics"] | bounds).items()}
    try:
        before = path.read_text(encoding="utf-8") if path.exists() else ""
    except OSError as error:
        raise FileError(path, f"cannot be read: {reason(error)}") from error
    text = io.StringIO()
    writer = csv.DictWriter(text, list(row), lineterminator="\n")
    if not before:
        writer.writeheader()
    elif next(csv.reader([before.splitlines()[0]])) != list(row):
        raise FileError(path, "has other columns than this run's metrics: give another name", line=1)
    writer.writerow(row)
    replace_text(path, before + text.getvalue())


def _text(value: Any) -> Any:
    return " ".join(map(str, value)) if isinstance(value, list | tuple) else value


def _without_nan(value: Any) -> Any:
    """JSON has no nan: a metric without anything to divide by is null."""
    if isinstance(value, Mapping):
        return {name: _without_nan(part) for name, part in value.items()}
    return None if isinstance(value, float) and math.isnan(value) else value
