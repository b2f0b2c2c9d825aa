"""Frozen settings of proxml-analyze's commands."""

from dataclasses import dataclass
from pathlib import Path

from proxml_mpi.errors import SettingsError
from proxml_mpi.settings.data import InputSettings
from proxml_mpi.settings.fields import option


@dataclass(frozen=True, kw_only=True)
class GraphSettings(InputSettings):
    """Print the components and the spectrum of the label graph of a data set, and its row of the paper's Table 1."""

    eigenvalues: int = option(6, "eigenvalues above 0 of the largest component to find", metavar="COUNT")
    tolerance: float = option(1e-6, "residual at which an eigenvalue is done")
    max_restarts: int = option(50, "restarts after which eigenvalues are taken as they are", metavar="COUNT")
    self_loops: bool = option(True, "count a label's own positives among its co-occurrences, as the paper does")
    unweighted: bool = option(False, "let labels co-occur or not, however often; holds the adjacency matrix in memory")
    json: bool = option(False, "print JSON")
    plot: Path | None = option(None, "draw the spectrum into FILE (.png, .svg, .pdf)", metavar="FILE")

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, value in (("--eigenvalues", self.eigenvalues), ("--max-restarts", self.max_restarts)):
            if value < 1:
                raise SettingsError(name, value, "a whole number, at least 1")
        if not 0 < self.tolerance < 1:
            raise SettingsError("--tolerance", self.tolerance, "a number between 0 and 1")
