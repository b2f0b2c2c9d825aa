"""Frozen settings of the two stories: every option, its default and its help, once.

A field is an option of the command line (underscores as dashes) and, where it shapes the model, an attribute of the
model file, letter for letter; a trailing underscore, which Python's keywords ask for, is dropped.
"""

import dataclasses
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from proxml_mpi.errors import SettingsError

PAPER_LAMBDA = {"l1": 0.1, "l2": 1.0}
# Lambda of a label = lambda x positives^exponent, and the ridge: what generalises best at the exact optimum
# (docs/quality.md), and without a ridge.
RULE = {"l1": (0.1, 0.3, 1.5), "l2": (1.0, 0.0, 0.0)}
L1_ALONE = (0.3, 0.2, 0.0)
DEFAULT_ITERATIONS = {"newton": 200, "forward-backward": 1000, "truncated-newton": 200}  # by method
DISMEC_PRUNE = 0.01
DAMPING = 63.0
DAMPING_HELP = (
    "damp features that fewer than D training instances have, d of them, by ln(1 + d) / ln(1 + D); 0: damp nothing"
)


def _by_name(defaults: dict[str, Any]) -> str:
    return "[" + ", ".join(f"{name}: {value:g}" for name, value in defaults.items()) + "]"


def option(default: Any, help: str, **more: Any) -> Any:
    """Describe a settings field for the command line; `shapes_model` marks what the model file records."""
    return dataclasses.field(default=default, metadata={"help": help, **more})


def argument(help: str) -> Any:
    """Describe a settings field without a default: the command line's positional argument."""
    return dataclasses.field(metadata={"help": help})


def optional_argument(help: str) -> Any:
    """Describe a settings field that is a positional argument, or None."""
    return dataclasses.field(default=None, metadata={"help": help, "is_argument": True})


def public_name(field: "dataclasses.Field[Any]") -> str:
    """Return the name of a field as users see it."""
    return field.name.rstrip("_")


FORMATS = ("auto", "xmc", "two-file", "libsvm", "libsvm0", "npz", "hdf5")
FORMAT_HELP = "format of the data set: auto tells it from the content; libsvm0 is libsvm with labels from 0"
DATA_SET = (
    "XMC text (header 'N D L', lines 'l1,l2 f:v f:v'), libsvm multi-label text (no header, ids from 1), "
    "a dataset file of 'proxml-data convert' (HDF5), or a pair FEATURES,LABELS of text matrices (header 'N D', rows "
    "'f:v f:v') or scipy .npz matrices, of which FEATURES alone will do when the names are alike "
    "(train_X_Xf.txt and train_X_Y.txt, X.npz and Y.npz); text may be .gz, .xz or .zst"
)


@dataclass(frozen=True, kw_only=True)
class LoggingSettings:
    """What every command says about itself."""

    log_level: str = option("info", "how much to say", choices=("debug", "info", "warning", "error"))
    log_format: str = option("text", "json: every line of the log an object", choices=("text", "json"))
    log_file: Path | None = option(
        None, "write the log to FILE too; %%r in it becomes the rank, without it only rank 0 writes", metavar="FILE"
    )


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
        "regularisation of all labels [with neither this nor the exponent: 0.1 x positives^0.3, with --ridge 0 "
        "0.3 x positives^0.2, for l2 1; with the exponent, as in the paper: 0.1, for l2 1]",
        shapes_model=True,
    )
    lambda_exponent: float | None = option(
        None, "lambda of a label = lambda x positives^EXPONENT [with --lambda, as in the paper: 0]", shapes_model=True
    )
    ridge: float | None = option(
        None,
        "with --penalty l1: add RATIO x the label's lambda / 2 |w|^2, an elastic net; 0: the paper's objective [1.5; "
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
        _require_finite("--lambda", self.label_lambda, above=0.0)
        _require_finite("--lambda-exponent", self.label_exponent)
        if not 0 <= self.label_ridge < math.inf:
            raise SettingsError("--ridge", self.ridge, "a finite number, at least 0")
        if self.label_ridge > 0 and self.penalty == "l2":
            raise SettingsError("--ridge", self.ridge, "0: --penalty l2 is a ridge already")
        _require_finite("--tolerance", self.tolerance, above=0.0)
        _require_at_least("--first-label", self.first_label, 0)
        _require_at_least("--block-size", self.block_size, 1)
        for name, value in (
            ("--max-iterations", self.max_iterations),
            ("--threads", self.threads),
            ("--num-labels", self.num_labels),
        ):
            if value is not None:
                _require_at_least(name, value, 1)
        if not 0 < self.negatives <= 1:
            raise SettingsError("--negatives", self.negatives, "a share above 0 and at most 1")
        if self.negatives < 1 and self.method != "newton":
            raise SettingsError("--negatives", self.negatives, "1: only the L1 solver newton samples negatives")
        if self.penalty == "l2" and self.solver != "newton":
            raise SettingsError("--solver", self.solver, "newton, which --penalty l2 truncates")
        if self.prune is not None and self.penalty != "l2":
            raise SettingsError("--prune", self.prune, "to be given with --penalty l2")
        _require_finite("--prune", self.smallest_weight, above=-1e-300)
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


@dataclass(frozen=True, kw_only=True)
class PredictSettings(LoggingSettings):
    """One prediction run."""

    model: Path = argument("model file of proxml-train")
    test: Path = argument(
        "data set with the features and labels of the training set, in any of its formats, or without any labels; "
        "-: lines 'f:v f:v ...' from standard input, each answered at once with 'label:score ...'"
    )
    format: str = option("auto", FORMAT_HELP, choices=FORMATS)
    top_k: int = option(5, "labels to predict for each instance")
    output: Path | None = option(
        None, "write predictions to FILE: .txt (label:score ...), .npz (CSR of scores) or .h5", metavar="FILE"
    )
    metrics: Path | None = option(None, "write metrics to FILE: .json, or one more row of .csv", metavar="FILE")
    k: tuple[int, ...] = option((1, 3, 5), "the k of the metrics", metavar="K,K,...")
    propensity: str | None = option(
        None, "preset of the propensity model [other]", choices=("wikipedia", "amazon", "other")
    )
    propensity_a: float | None = option(None, "A of the propensity model", metavar="A")
    propensity_b: float | None = option(None, "B of the propensity model", metavar="B")
    rerank_by_propensity: bool = option(False, "compute propensity-scored metrics on the paper's re-ordered list")
    score_by_propensity: bool = option(
        False, "rank the best 20 labels anew by score and inverse propensity: rare ones rise, precision falls"
    )
    damping: float = option(DAMPING, DAMPING_HELP, metavar="D")
    skip_unlabelled: bool = option(False, "leave instances without true labels out of the metrics")
    bootstrap: int = option(0, "give 95 %% intervals of the metrics from so many bootstrap replicates", metavar="N")
    threads: int | None = option(None, "threads of each rank [its share of the cores]")
    instances_per_round: int = option(100_000, "instances scored between two exchanges: bounds the memory", metavar="M")

    def __post_init__(self) -> None:
        _require_at_least("--top-k", self.top_k, 1)
        _require_at_least("--instances-per-round", self.instances_per_round, 1)
        if self.threads is not None:
            _require_at_least("--threads", self.threads, 1)
        if not self.k:
            raise SettingsError("--k", "", "at least one number")
        for k in self.k:
            _require_at_least("--k", k, 1)
        if max(self.k) > self.top_k:
            raise SettingsError("--k", max(self.k), f"numbers up to --top-k {self.top_k}")
        if (self.propensity_a is None) != (self.propensity_b is None):
            raise SettingsError("--propensity-a", self.propensity_a, "to be given together with --propensity-b")
        if self.propensity is not None and self.propensity_a is not None:
            raise SettingsError("--propensity", self.propensity, "either a preset or --propensity-a and --propensity-b")
        if self.score_by_propensity and self.rerank_by_propensity:
            raise SettingsError("--score-by-propensity", "", "not together with --rerank-by-propensity")
        if not 0 <= self.damping < math.inf:
            raise SettingsError("--damping", self.damping, "a finite number, at least 0")
        if self.metrics is not None and self.metrics.suffix not in (".json", ".csv"):
            raise SettingsError("--metrics", str(self.metrics), "a name that ends in .json or .csv")
        if self.output is not None and self.output.suffix not in (".txt", ".npz", ".h5"):
            raise SettingsError("--output", str(self.output), "a name that ends in .txt, .npz or .h5")
        _require_at_least("--bootstrap", self.bootstrap, 0)
        if str(self.test) == "-":
            for name, value in (("--output", self.output), ("--metrics", self.metrics)):
                if value is not None:
                    raise SettingsError(name, str(value), "nothing: lines of standard input are answered one by one")

    @property
    def ranking(self) -> str:
        """How the lists of the metrics are ordered."""
        if self.score_by_propensity:
            return "score by propensity"
        return "propensity" if self.rerank_by_propensity else "plain"

    @property
    def is_written(self) -> bool:
        """Whether predictions leave the program: to a file, or as answers to lines."""
        return self.output is not None or str(self.test) == "-"


@dataclass(frozen=True, kw_only=True)
class SynthesizeSettings:
    """Make a data set of long-tailed labels whose rare ones can be learned."""

    train: Path = argument("file to write: .txt (XMC text) or .h5 (dataset file)")
    test: Path | None = option(None, "write a part of the instances to FILE instead", metavar="FILE")
    test_fraction: float = option(0.25, "share of the instances that goes to --test")
    instances: int = option(8_000, "number of instances, those of --test included", metavar="N")
    features: int = option(20_000, "number of features", metavar="D")
    labels: int = option(2_000, "number of labels", metavar="L")
    labels_per_instance: float = option(3.0, "labels of an instance, on average", metavar="MEAN")
    features_per_instance: float = option(75.0, "features of an instance, on average", metavar="MEAN")
    seed: int = option(0, "the same seed makes the same data")


@dataclass(frozen=True, kw_only=True)
class InspectSettings(LoggingSettings):
    """One look at a model."""

    model: Path = argument("model file of proxml-train; with --merge, the file to write")
    label: str | None = option(None, "show the label L, an id or a name: positives, certificate, weights", metavar="L")
    feature: str | None = option(None, "show the labels in which feature F, an id or a name, weighs most", metavar="F")
    histogram: Path | None = option(
        None,
        "count labels by outcome, positives, weights and gap; with OUT.png (.svg, .pdf) also draw them",
        metavar="OUT.png",
        alone=Path("-"),
    )
    verify: Path | None = option(
        None,
        "recompute all certificates from the stored weights and the training data; status 2 when any fails; "
        "ranks share the labels",
        metavar="TRAIN",
    )
    export: Path | None = option(
        None,
        "write the model to FILE: .npz (sparse, for scipy) or .txt (LIBLINEAR's model file, dense)",
        metavar="FILE",
    )
    merge: tuple[Path, ...] = option((), "join models of parts of the labels", metavar="PART")
    overwrite: bool = option(False, "with --merge and --export: replace an existing file")
    add_index: bool = option(False, "store the weights by feature too, so that one process opens the model at once")
    compress: bool = option(False, "compress the file (gzip): fewer bytes, slower to open")
    json: bool = option(False, "print JSON")
    top: int = option(20, "weights of --label and --feature, failures of --verify to show, at most", metavar="COUNT")
    format: str = option("auto", f"with --verify: {FORMAT_HELP}", choices=FORMATS)
    threads: int | None = option(None, "with --verify: threads of each rank [its share of the cores]")

    def __post_init__(self) -> None:
        views = ("label", "feature", "histogram", "verify", "export")
        wanted = [f"--{name}" for name in views if getattr(self, name) is not None]
        if len(wanted) > 1:
            raise SettingsError(wanted[1], str(getattr(self, wanted[1][2:])), f"to be given without {wanted[0]}")
        _require_at_least("--top", self.top, 1)
        if self.threads is not None:
            _require_at_least("--threads", self.threads, 1)
        if self.export is not None and self.export.suffix not in (".npz", ".txt"):
            raise SettingsError("--export", str(self.export), "a name that ends in .npz or .txt")
        if self.export is not None and self.json:
            raise SettingsError("--json", "--export", "one of the two")


def _require_finite(option_name: str, value: float, above: float = -math.inf) -> None:
    if not (math.isfinite(value) and value > above):
        raise SettingsError(option_name, value, "a finite number" + (f" above {above:g}" if above > -math.inf else ""))


def _require_at_least(option_name: str, value: int, least: int) -> None:
    if value < least:
        raise SettingsError(option_name, value, f"a whole number, at least {least}")
