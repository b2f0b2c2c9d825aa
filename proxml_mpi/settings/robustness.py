"""Frozen settings of proxml-analyze robustness."""

import math
from dataclasses import dataclass
from pathlib import Path

from proxml_mpi.errors import SettingsError
from proxml_mpi.settings.fields import FORMAT_HELP, FORMATS, LoggingSettings, argument, option


@dataclass(frozen=True, kw_only=True)
class RobustnessSettings(LoggingSettings):
    """Measure how a model stands perturbed features and a changed vocabulary, alone or beside another model."""

    model: Path = argument("model file of proxml-train")
    test: Path = argument("data set with labels, in any of the formats of the training set")
    against: Path | None = option(None, "measure MODEL too, side by side, such as one of --penalty l2", metavar="MODEL")
    train: Path | None = option(
        None, "training data of the model: how much of its positives' vocabulary test positives share", metavar="TRAIN"
    )
    budgets: tuple[float, ...] = option(
        (0.0, 0.0001, 0.0003, 0.001, 0.003, 0.01),
        "how far every feature of an instance may be moved (infinity norm)",
        metavar="EPSILON,EPSILON,...",
    )
    fractions: tuple[float, ...] = option(
        (0.0, 0.1, 0.2, 0.3, 0.5), "shares of the vocabulary to drop, and to replace", metavar="SHARE,SHARE,..."
    )
    theorem_labels: int = option(20, "labels on which to check the theorem, drawn by seed; 0: none", metavar="COUNT")
    seed: int = option(0, "of the features that are dropped or replaced, and of --theorem-labels")
    k: tuple[int, ...] = option((1, 3, 5), "the k of the metrics", metavar="K,K,...")
    propensity: str = option("other", "preset of the propensity model", choices=("wikipedia", "amazon", "other"))
    format: str = option("auto", FORMAT_HELP, choices=FORMATS)
    threads: int | None = option(None, "threads of each rank [its share of the cores]")
    json: bool = option(False, "print JSON")
    csv: Path | None = option(None, "write every number to FILE, one a row", metavar="FILE")
    plot: Path | None = option(None, "draw the curves into FILE (.png, .svg, .pdf)", metavar="FILE")

    def __post_init__(self) -> None:
        for name, number in (("--theorem-labels", self.theorem_labels), ("--seed", self.seed)):
            if number < 0:
                raise SettingsError(name, number, "a whole number, at least 0")
        if self.threads is not None and self.threads < 1:
            raise SettingsError("--threads", self.threads, "a whole number, at least 1")
        for budget in self.budgets:
            if not 0 <= budget < math.inf:
                raise SettingsError("--budgets", budget, "finite numbers from 0")
        for fraction in self.fractions:
            if not 0 <= fraction <= 1:
                raise SettingsError("--fractions", fraction, "numbers from 0 to 1")
        for k in self.k:
            if k < 1:
                raise SettingsError("--k", k, "whole numbers, at least 1")
