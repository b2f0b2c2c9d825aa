"""Frozen settings of proxml-predict."""

import math
from dataclasses import dataclass
from pathlib import Path

from proxml_mpi.errors import SettingsError
from proxml_mpi.settings.fields import FORMAT_HELP, FORMATS, LoggingSettings, argument, option, require_at_least

DAMPING = 63.0
DAMPING_HELP = "damp features that d < D training instances have, by (ln(1 + d) / ln(1 + D))^0.75; 0: damp nothing"
CALIBRATE_HELP = "make scores of rare and frequent labels comparable, by training instances and length of weights"


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
    calibrate: bool = option(True, CALIBRATE_HELP)
    skip_unlabelled: bool = option(False, "leave instances without true labels out of the metrics")
    bootstrap: int = option(0, "give 95 %% intervals of the metrics from so many bootstrap replicates", metavar="N")
    threads: int | None = option(None, "threads of each rank [its share of the cores]")
    instances_per_round: int = option(100_000, "instances scored between two exchanges: bounds the memory", metavar="M")

    def __post_init__(self) -> None:
        require_at_least("--top-k", self.top_k, 1)
        require_at_least("--instances-per-round", self.instances_per_round, 1)
        if self.threads is not None:
            require_at_least("--threads", self.threads, 1)
        if not self.k:
            raise SettingsError("--k", "", "at least one number")
        for k in self.k:
            require_at_least("--k", k, 1)
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
        require_at_least("--bootstrap", self.bootstrap, 0)
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
