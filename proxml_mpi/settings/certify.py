"""Frozen settings of proxml-analyze certify."""

import math
from dataclasses import dataclass
from pathlib import Path

from proxml_mpi.errors import SettingsError
from proxml_mpi.settings.fields import DATA_SET, FORMAT_HELP, FORMATS, LoggingSettings, argument, option


@dataclass(frozen=True, kw_only=True)
class CertifySettings(LoggingSettings):
    """Compare LIBLINEAR (-s 5) with certified optima, label by label, in the same objective; ranks share the labels."""

    train: Path = argument(f"data set: {DATA_SET}")
    labels: int = option(200, "labels to draw by seed, among those with positives; 0: all of them", metavar="COUNT")
    seed: int = option(0, "of the choice of --labels")
    eps: tuple[float, ...] = option((0.1, 0.01, 0.0001), "tolerances of LIBLINEAR", metavar="EPS,EPS,...")
    max_iterations: tuple[int, ...] = option(
        (1000,),
        "iterations of LIBLINEAR; 1000 is fixed in it, with others scikit-learn's copy of it is run",
        metavar="N,N,...",
    )
    lambda_: float = option(0.1, "regularisation of a label; C = 1 / lambda")
    lambda_exponent: float = option(0.0, "lambda of a label = lambda x positives^EXPONENT (the paper: 0)")
    tolerance: float = option(1e-6, "duality gap of our optima, per positive instance")
    bias: bool = option(True, "give labels a bias")
    weighting: str = option(
        "none", "tfidf: (1 + ln tf) ln(N / df), for data that are counts", choices=("none", "tfidf")
    )
    normalize: bool = option(True, "give every instance unit length")
    format: str = option("auto", FORMAT_HELP, choices=FORMATS)
    json: bool = option(False, "print JSON")
    csv: Path | None = option(None, "write one row a label to FILE", metavar="FILE")
    plot: Path | None = option(
        None, "draw our objective against LIBLINEAR's into FILE (.png, .svg, .pdf)", metavar="FILE"
    )

    def __post_init__(self) -> None:
        for name, number, least in (("--labels", self.labels, 0), ("--seed", self.seed, 0)):
            if number < least:
                raise SettingsError(name, number, f"a whole number, at least {least}")
        for name, value in (("--lambda", self.lambda_), ("--tolerance", self.tolerance)):
            if not 0 < value < math.inf:
                raise SettingsError(name, value, "a finite number above 0")
        if not math.isfinite(self.lambda_exponent):
            raise SettingsError("--lambda-exponent", self.lambda_exponent, "a finite number")
        for eps in self.eps:
            if not 0 < eps < 1:
                raise SettingsError("--eps", eps, "numbers between 0 and 1")
        for limit in self.max_iterations:
            if limit < 1:
                raise SettingsError("--max-iterations", limit, "whole numbers, at least 1")
