"""Frozen settings of proxml-data's commands."""

from dataclasses import dataclass
from pathlib import Path

from proxml_mpi.errors import SettingsError
from proxml_mpi.settings.fields import DATA_SET, FORMAT_HELP, FORMATS, argument, option


@dataclass(frozen=True, kw_only=True)
class InputSettings:
    """What every command that reads a data set asks for."""

    data: Path = argument(DATA_SET)
    format: str = option("auto", FORMAT_HELP, choices=FORMATS)
    threads: int = option(1, "threads that read text")

    def __post_init__(self) -> None:
        if self.threads < 1:
            raise SettingsError("--threads", self.threads, "a whole number, at least 1")


@dataclass(frozen=True, kw_only=True)
class ConvertSettings(InputSettings):
    """Write a data set of any format as a dataset file, which opens at once, or as XMC text."""

    output: Path = argument("file to write: .h5 (dataset file) or .txt (XMC text)")
    label_names: Path | None = option(
        None, "names of the labels, one a line, to keep in the dataset file", metavar="FILE"
    )
    feature_names: Path | None = option(
        None, "names of the features, one a line, to keep in the dataset file", metavar="FILE"
    )
    overwrite: bool = option(False, "replace an existing file")

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, path in (("--label-names", self.label_names), ("--feature-names", self.feature_names)):
            if path is not None and self.output.suffix == ".txt":
                raise SettingsError(name, str(path), "an OUTPUT that ends in .h5: XMC text has no place for names")


@dataclass(frozen=True, kw_only=True)
class CheckSettings(InputSettings):
    """Read all of a data set and report every problem in it."""

    limit: int = option(20, "problems to report, at most", metavar="COUNT")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.limit < 1:
            raise SettingsError("--limit", self.limit, "a whole number, at least 1")


@dataclass(frozen=True, kw_only=True)
class StatsSettings(InputSettings):
    """Print the size of a data set, and how long the tails of its labels and features are."""

    json: bool = option(False, "print JSON")
    plot: Path | None = option(
        None, "draw the power law of labels and features into FILE (.png, .svg, .pdf)", metavar="FILE"
    )


@dataclass(frozen=True, kw_only=True)
class SplitSettings(InputSettings):
    """Deal the instances of a data set out to training and validation by seed."""

    train: Path = argument("file to write: .h5 or .txt")
    validation: Path = argument("file to write: .h5 or .txt")
    fraction: float = option(0.2, "share of the instances that goes to VALIDATION")
    seed: int = option(0, "the same seed makes the same split")
    overwrite: bool = option(False, "replace existing files")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.fraction < 1:
            raise SettingsError("--fraction", self.fraction, "a number between 0 and 1")
        if self.seed < 0:
            raise SettingsError("--seed", self.seed, "a whole number, at least 0")
        if self.train == self.validation:
            raise SettingsError("VALIDATION", str(self.validation), "another file than TRAIN")


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
