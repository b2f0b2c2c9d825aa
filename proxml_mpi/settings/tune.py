"""Frozen settings of proxml-tune: what to try, how to judge it, and everything of training and scoring in between."""

import dataclasses
import re
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from proxml_mpi.errors import SettingsError
from proxml_mpi.score.table import ROWS
from proxml_mpi.settings.fields import LoggingSettings, argument, like, option
from proxml_mpi.settings.predict import PredictSettings
from proxml_mpi.settings.train import RULE, TrainSettings

METRICS = (*ROWS, "coverage_of_best", "coverage_of_all")
NO_MODEL = Path("model.h5")  # stands in where none is written
PATH = (10.0, 3.0, 1.0, 0.3, 0.1)
AROUND_THE_RULE = (0.7, 0.2, 0.07, 0.02)  # lambdas to try with the exponent and the ridge of proxml-train's default


@dataclass(frozen=True, kw_only=True)
class TuneSettings(LoggingSettings):
    """One path over lambda."""

    train: Path = argument(next(f for f in dataclasses.fields(TrainSettings) if f.name == "train").metadata["help"])
    lambda_: tuple[float, ...] | None = option(
        None,
        "the lambdas to try, from the largest down, each label starting from where it was [with neither this nor the "
        "exponent nor the ridge, around the default of proxml-train: 1,0.3,0.1,0.03 with its exponent and its ridge; "
        "else, and for l2: 10,3,1,0.3,0.1]",
        metavar="X,X,...",
    )
    lambda_exponent: tuple[float, ...] | None = option(
        None,
        "the exponents to try: lambda of a label = lambda x positives^EXPONENT [with --lambda or --ridge: 0]",
        metavar="X,X,...",
    )
    ridge: tuple[float, ...] | None = option(
        None,
        "the ridges to try, as ratios to lambda: see proxml-train [with --lambda or --lambda-exponent: 0]",
        metavar="RATIO,RATIO,...",
    )
    cold: bool = option(False, "start every lambda from nothing, as proxml-train does, to the same bits")
    metric: str = option("P@1", f"what to choose the best by: NAME@K, NAME one of {', '.join(METRICS)}", metavar="NAME")
    fraction: float = option(0.2, "share of the instances to validate on, as 'proxml-data split' draws them")
    folds: int | None = option(
        None, "cross-validate: deal the instances out to K parts, each to validate on once", metavar="K"
    )
    seed: int = option(0, "of the split, and of the choice of --negatives")
    k: tuple[int, ...] = option((1, 3, 5), "further k of the metrics that are reported", metavar="K,K,...")
    propensity: str | None = like(PredictSettings, "propensity")
    propensity_a: float | None = like(PredictSettings, "propensity_a")
    propensity_b: float | None = like(PredictSettings, "propensity_b")
    rerank_by_propensity: bool = like(PredictSettings, "rerank_by_propensity")
    damping: float = like(PredictSettings, "damping")
    calibrate: bool = like(PredictSettings, "calibrate")
    skip_unlabelled: bool = like(PredictSettings, "skip_unlabelled")
    model: Path | None = option(
        None, "then train on all instances with the best lambda and write the model to FILE", metavar="FILE"
    )
    overwrite: bool = option(False, "replace an existing model")
    json: bool = option(False, "print JSON")
    csv: Path | None = option(None, "write a row for every fold and lambda, all metrics in it, to FILE", metavar="FILE")
    plot: Path | None = option(
        None,
        "draw the metric over lambda, of all labels and by frequency, into FILE (.png, .svg, .pdf)",
        metavar="FILE",
    )
    penalty: str = like(TrainSettings, "penalty")
    solver: str = like(TrainSettings, "solver")
    tolerance: float = like(TrainSettings, "tolerance")
    max_iterations: int | None = like(TrainSettings, "max_iterations")
    prune: float | None = like(TrainSettings, "prune")
    negatives: float = like(TrainSettings, "negatives")
    bias: bool = like(TrainSettings, "bias")
    weighting: str = like(TrainSettings, "weighting")
    normalize: bool = like(TrainSettings, "normalize")
    format: str = like(TrainSettings, "format")
    label_names: Path | None = like(TrainSettings, "label_names", help="with --model: names of the labels, one a line")
    feature_names: Path | None = like(
        TrainSettings, "feature_names", help="with --model: names of the features, one a line"
    )
    threads: int | None = like(TrainSettings, "threads")

    def __post_init__(self) -> None:
        tried = (("--lambda", self.lambda_), ("--lambda-exponent", self.lambda_exponent), ("--ridge", self.ridge))
        for name, values in tried:
            if values == ():
                raise SettingsError(name, "", "at least one number")
        match = re.fullmatch(r"(\w+)@(\d{1,6})", self.metric)
        if match is None or match[1] not in METRICS or int(match[2]) < 1:
            raise SettingsError("--metric", self.metric, f"NAME@K with a NAME of {', '.join(METRICS)} and K from 1")
        if not 0 < self.fraction < 1:
            raise SettingsError("--fraction", self.fraction, "a number between 0 and 1")
        if self.folds is not None and self.folds < 2:
            raise SettingsError("--folds", self.folds, "a whole number, at least 2")
        if self.seed < 0:
            raise SettingsError("--seed", self.seed, "a whole number, at least 0")
        for flag, value in (("--label-names", self.label_names), ("--feature-names", self.feature_names)):
            if value is not None and self.model is None:
                raise SettingsError(flag, str(value), "to be given with --model")
        if self.overwrite and self.model is None:
            raise SettingsError("--overwrite", "no --model", "to be given with --model")
        if self.plot is not None and self.plot.suffix not in (".png", ".svg", ".pdf"):
            raise SettingsError("--plot", str(self.plot), "a name that ends in .png, .svg or .pdf")
        for ridge, exponent, lambda_ in product(self.ridges, self.exponents, self.path):
            self.training(lambda_, exponent, ridge)
        self.scoring()

    @property
    def _follows_the_rule(self) -> bool:
        """Tell whether nothing is said of what to try, so that it is the default of proxml-train and its neighbours."""
        return self.penalty == "l1" and self.lambda_ is None and self.lambda_exponent is None and self.ridge is None

    @property
    def path(self) -> tuple[float, ...]:
        """Return the lambdas in the order of the path."""
        return tuple(sorted(set(self.lambda_ or (AROUND_THE_RULE if self._follows_the_rule else PATH)), reverse=True))

    @property
    def exponents(self) -> tuple[float, ...]:
        """Return the exponents, each once."""
        default = RULE["l1"][1] if self._follows_the_rule else 0.0
        return tuple(dict.fromkeys(self.lambda_exponent or (default,)))

    @property
    def ridges(self) -> tuple[float, ...]:
        """Return the ridges, each once."""
        default = RULE["l1"][2] if self._follows_the_rule else 0.0
        return tuple(dict.fromkeys(self.ridge or (default,)))

    @property
    def paths(self) -> tuple[tuple[float, float], ...]:
        """Return ridge and exponent of every path."""
        return tuple(product(self.ridges, self.exponents))

    @property
    def first(self) -> TrainSettings:
        """Return the settings of proxml-train where the first path begins."""
        return self.training(self.path[0], self.exponents[0], self.ridges[0])

    def training(self, lambda_: float, exponent: float, ridge: float) -> TrainSettings:
        """Return the settings of proxml-train at one point of the path; what they refuse raises SettingsError."""
        own = {field.name for field in dataclasses.fields(self)}
        kept = {f.name: getattr(self, f.name) for f in dataclasses.fields(TrainSettings) if f.name in own}
        chosen: dict[str, Any] = {"lambda_": lambda_, "lambda_exponent": exponent or None, "ridge": ridge or None}
        chosen["model"] = self.model or NO_MODEL
        return TrainSettings(**kept | chosen)

    def scoring(self) -> PredictSettings:
        """Return the settings of proxml-predict; what they refuse raises SettingsError."""
        names = ["propensity", "propensity_a", "propensity_b"]
        names += ["rerank_by_propensity", "damping", "calibrate", "skip_unlabelled", "threads"]
        ks = tuple(sorted({*self.k, int(self.metric.partition("@")[2])}))
        kept: dict[str, Any] = {name: getattr(self, name) for name in names}
        return PredictSettings(model=self.model or NO_MODEL, test=self.train, k=ks, top_k=max(*ks, 1), **kept)
