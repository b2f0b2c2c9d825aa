"""Frozen settings of proxml-analyze report."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from proxml_mpi.errors import SettingsError
from proxml_mpi.settings.fields import FORMAT_HELP, FORMATS, argument, option, optional_argument
from proxml_mpi.settings.predict import CALIBRATE_HELP, DAMPING, DAMPING_HELP, PredictSettings


@dataclass(frozen=True, kw_only=True)
class ReportSettings:
    """Write one HTML page about a model: run, data, certificates, sparsity, time, metrics, examples."""

    model: Path = argument("model file of proxml-train")
    test: Path | None = optional_argument("data set to evaluate the model on, in any format of the training data")
    output: Path | None = option(None, "page to write [MODEL with the ending .html]", metavar="FILE")
    overwrite: bool = option(False, "replace an existing page")
    train: Path | None = option(None, "describe the training data too, their features included", metavar="TRAIN")
    run: Path | None = option(
        None,
        "what 'proxml-train --report FILE' wrote: ranks, stages, memory, the seconds of every rank",
        metavar="FILE",
    )
    labels: int = option(3, "labels to show of every frequency bin", metavar="COUNT")
    instances: int = option(10, "instances of TEST to show", metavar="COUNT")
    top: int = option(8, "features to show of each of them", metavar="COUNT")
    seed: int = option(0, "of the choice of labels and instances")
    k: tuple[int, ...] = option((1, 3, 5), "the k of the metrics", metavar="K,K,...")
    propensity: str | None = option(
        None, "preset of the propensity model [other]", choices=("wikipedia", "amazon", "other")
    )
    propensity_a: float | None = option(None, "A of the propensity model", metavar="A")
    propensity_b: float | None = option(None, "B of the propensity model", metavar="B")
    damping: float = option(DAMPING, DAMPING_HELP, metavar="D")
    calibrate: bool = option(True, CALIBRATE_HELP)
    format: str = option("auto", f"of TEST and --train: {FORMAT_HELP}", choices=FORMATS)
    threads: int = option(1, "threads that read text and score")

    def __post_init__(self) -> None:
        for name in ("labels", "instances", "top", "threads"):
            if getattr(self, name) < 1:
                raise SettingsError(f"--{name}", getattr(self, name), "a whole number, at least 1")
        if str(self.test) == "-":
            raise SettingsError("TEST", "-", "a file")
        if self.seed < 0:
            raise SettingsError("--seed", self.seed, "a whole number, at least 0")
        if self.output is not None and self.output.suffix not in (".html", ".htm"):
            raise SettingsError("--output", str(self.output), "a name that ends in .html")
        self.scoring()

    @property
    def page(self) -> Path:
        """Return the file to write."""
        return self.output or self.model.with_suffix(".html")

    def scoring(self) -> PredictSettings:
        """Return the settings of proxml-predict; what they refuse raises SettingsError."""
        names = ("propensity", "propensity_a", "propensity_b", "damping", "calibrate")
        kept: dict[str, Any] = {name: getattr(self, name) for name in names}
        test = self.test or self.model
        return PredictSettings(model=self.model, test=test, k=self.k, top_k=max(self.k, default=1), **kept)
