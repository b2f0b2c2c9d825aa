"""Frozen settings of proxml-train."""

import dataclasses
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from proxml_mpi.errors import SettingsError
from proxml_mpi.settings.fields import (
    DATA_SET,
    FORMAT_HELP,
    FORMATS,
    LoggingSettings,
    argument,
    option,
    public_name,
    require_at_least,
    require_finite,
)

PAPER_LAMBDA = {"l1": 0.1, "l2": 1.0}
# Lambda of a label = lambda x positives^exponent, and the ridge: what generalises best at the exact optimum
# (docs/quality.md), and without a ridge.
RULE = {"l1": (0.07, 0.3, 3.0), "l2": (1.0, 0.0, 0.0)}
L1_ALONE = (0.3, 0.2, 0.0)
DEFAULT_ITERATIONS = {"newton": 200, "forward-backward": 1000, "truncated-newton": 200}  # by method
DISMEC_PRUNE = 0.01


def _by_name(defaults: dict[str, Any]) -> str:
    return "[" + ", ".join(f"{name}: {value:g}" for name, value in defaults.items()) + "]"


@dataclass(frozen=True, kw_only=True)
class TrainSettings(LoggingSettings):
    """One training run."""

    train: Path = argument(f"data set: {DATA_SET}")
    model: Path = argument("model file to write (HDF5)")
    penalty: str = option(
        "l1",
        "l1: PRoXML; l2: DiSMEC, lambda/2 (|w|^2 + b^2) + the same loss",
        choices=tuple(RULE),
        shapes_model=True,
    )
    lambda_: float | None = option(
        None,
        "regularisation of all labels [with neither this nor the exponent: 0.07 x positives^0.3, with --ridge 0 "
        "0.3 x positives^0.2, for l2 1; with the exponent, as in the paper: 0.1, for l2 1]",
        shapes_model=True,
    )
    lambda_exponent: float | None = option(
        None, "lambda of a label = lambda x positives^EXPONENT [with --lambda, as in the paper: 0]", shapes_model=True
    )
    ridge: float | None = option(
        None,
        "with --penalty l1: add RATIO x the label's lambda / 2 |w|^2, an elastic net; 0: the paper's objective [3; "
        "with --lambda or --lambda-exponent 0]",
        metavar="RATIO",
        shapes_model=True,
    )
    solver: str = option(
        "newton",
        "newton: exact and fast; forward-backward: the paper's Algorithm 1",
        choices=("newton", "forward-backward"),
        shapes_model=True,
    )
    tolerance: float = option(1e-3, "duality gap at which a label is done, per positive instance", shapes_model=True)
    max_iterations: int | None = option(
        None, f"iterations after which a label ends uncertified {_by_name(DEFAULT_ITERATIONS)}", shapes_model=True
    )
    prune: float | None = option(
        None, f"with --penalty l2: drop weights below DELTA [{DISMEC_PRUNE}]", metavar="DELTA", shapes_model=True
    )
    negatives: float = option(
        1.0, "share of the instances that serve as negatives; certificates are then of that problem", shapes_model=True
    )
    seed: int = option(0, "of the choice of --negatives", shapes_model=True)
    warm_start: Path | None = option(None, "start from the weights of MODEL, labels matched by id", metavar="MODEL")
    bias: bool = option(True, "give labels a bias", shapes_model=True)
    weighting: str = option(
        "none", "tfidf: (1 + ln tf) ln(N / df), for data that are counts", choices=("none", "tfidf"), shapes_model=True
    )
    normalize: bool = option(True, "give every instance unit length", shapes_model=True)
    format: str = option("auto", FORMAT_HELP, choices=FORMATS)
    label_names: Path | None = option(None, "names of the labels, one a line, to keep in the model", metavar="FILE")
    feature_names: Path | None = option(None, "names of the features, one a line, to keep in the model", metavar="FILE")
    threads: int | None = option(None, "threads of each rank [its share of the cores]")
    block_size: int = option(512, "labels that are journalled together, at most", metavar="B")
    time_limit: float | None = option(
        None, "stop cleanly after so long (3h, 90m, 30s), with status 75", metavar="TIME", is_duration=True
    )
    resume: bool = option(False, "go on with an interrupted run of the same data and settings")
    overwrite: bool = option(False, "replace an existing model or journal")
    scratch: Path | None = option(None, "keep the journal in DIR rather than beside the model", metavar="DIR")
    first_label: int = option(0, "train labels from A on only (parts merge)", metavar="A", shapes_model=True)
    num_labels: int | None = option(None, "train so many labels only [all]", metavar="M", shapes_model=True)
    hdf5_io: str = option(
        "auto",
        "how the model is written: by all ranks at once or by one after the other",
        choices=("auto", "parallel", "serial"),
    )
    report: Path | None = option(None, "write the facts of the run to FILE as JSON", metavar="FILE")

    def __post_init__(self) -> None:
        require_finite("--lambda", self.label_lambda, above=0.0)
        require_finite("--lambda-exponent", self.label_exponent)
        if not 0 <= self.label_ridge < math.inf:
            raise SettingsError("--ridge", self.ridge, "a finite number, at least 0")
        if self.label_ridge > 0 and self.penalty == "l2":
            raise SettingsError("--ridge", self.ridge, "0: --penalty l2 is a ridge already")
        require_finite("--tolerance", self.tolerance, above=0.0)
        require_at_least("--first-label", self.first_label, 0)
        require_at_least("--block-size", self.block_size, 1)
        for name, value in (
            ("--max-iterations", self.max_iterations),
            ("--threads", self.threads),
            ("--num-labels", self.num_labels),
        ):
            if value is not None:
                require_at_least(name, value, 1)
        if not 0 < self.negatives <= 1:
            raise SettingsError("--negatives", self.negatives, "a share above 0 and at most 1")
        if self.negatives < 1 and self.method != "newton":
            raise SettingsError("--negatives", self.negatives, "1: only the L1 solver newton samples negatives")
        if self.penalty == "l2" and self.solver != "newton":
            raise SettingsError("--solver", self.solver, "newton, which --penalty l2 truncates")
        if self.prune is not None and self.penalty != "l2":
            raise SettingsError("--prune", self.prune, "to be given with --penalty l2")
        require_finite("--prune", self.smallest_weight, above=-1e-300)
        if self.resume and self.overwrite:
            raise SettingsError("--overwrite", "--resume", "one of the two: --resume keeps, --overwrite throws away")

    @property
    def method(self) -> str:
        """Return the method that solver and penalty ask for."""
        return "truncated-newton" if self.penalty == "l2" else self.solver

    @property
    def label_lambda(self) -> float:
        """Return --lambda, or what stands for it."""
        return self._rule[0] if self.lambda_ is None else self.lambda_

    @property
    def label_exponent(self) -> float:
        """Return --lambda-exponent, or what stands for it."""
        return self._rule[1] if self.lambda_exponent is None else self.lambda_exponent

    @property
    def label_ridge(self) -> float:
        """Return --ridge, or what stands for it."""
        return self._rule[2] if self.ridge is None else self.ridge

    @property
    def _rule(self) -> tuple[float, float, float]:
        """Return what stands for lambda, exponent and ridge where not given: beside a given one the paper's."""
        if self.lambda_ is not None or self.lambda_exponent is not None:
            return PAPER_LAMBDA[self.penalty], 0.0, 0.0
        return L1_ALONE if self.penalty == "l1" and self.ridge == 0 else RULE[self.penalty]

    @property
    def smallest_weight(self) -> float:
        """Return --prune, or DiSMEC's own."""
        return (DISMEC_PRUNE if self.penalty == "l2" else 0.0) if self.prune is None else self.prune

    @property
    def iteration_limit(self) -> int:
        """Return --max-iterations, or the method's own."""
        return self.max_iterations or DEFAULT_ITERATIONS[self.method]

    def model_attributes(self) -> dict[str, Any]:
        """Return the settings that shape the model, under their public names."""
        fields = dataclasses.fields(self)
        values = {public_name(f): getattr(self, f.name) for f in fields if f.metadata.get("shapes_model")}
        chosen = {"lambda": self.label_lambda, "lambda_exponent": self.label_exponent, "ridge": self.label_ridge}
        chosen |= {"max_iterations": self.iteration_limit, "prune": self.smallest_weight}
        return values | chosen | {"certificate_of": "all instances" if self.negatives == 1 else "sampled negatives"}
