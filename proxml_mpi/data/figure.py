"""The power law of a data set as a picture: how often the label, and the feature, of each rank occurs."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from proxml_mpi.data.dataset import Dataset, Int64
from proxml_mpi.data.statistics import TAIL, feature_counts, label_counts
from proxml_mpi.errors import FileError, UserError
from proxml_mpi.files import reason


def plot(path: Path, dataset: Dataset) -> None:
    """Draw both curves into a file, whose name tells the kind of picture."""
    with drawing(path, 9, 4) as figure:
        left, right = figure.subplots(1, 2)
        _draw(left, label_counts(dataset), "label", "positives")
        left.axhline(TAIL, linestyle=":", color="gray")
        _draw(right, feature_counts(dataset), "feature", "instances")


@contextmanager
def drawing(path: Path, width: float, height: float, option: str = "--plot") -> Iterator[Any]:
    """Yield a figure, in inches, and save it; option is what the user asked for it with."""
    figure_class, canvas = _matplotlib(option)
    figure = figure_class(figsize=(width, height), layout="constrained")
    canvas(figure)
    yield figure
    try:
        figure.savefig(path)
    except OSError as error:
        raise FileError(path, f"cannot be written: {reason(error)}") from error
    except ValueError as error:
        raise FileError(path, f"cannot be drawn: {error}") from None


def check_drawing(option: str = "--plot") -> None:
    """Refuse, before any work is done for a picture, when there is nothing to draw it with."""
    _matplotlib(option)


def _matplotlib(option: str) -> tuple[Any, Any]:
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise UserError(f"{option} needs the Python package matplotlib: pip install 'proxml-mpi[plots]'") from None
    return Figure, FigureCanvasAgg


def _draw(axes: Any, counts: Int64, what: str, unit: str) -> None:
    ranked = np.sort(counts[counts > 0])[::-1]
    axes.loglog(np.arange(1, len(ranked) + 1), ranked, drawstyle="steps-post")
    axes.set_xlabel(f"rank of the {what}")
    axes.set_ylabel(unit)
    axes.grid(visible=True, which="major", alpha=0.3)
