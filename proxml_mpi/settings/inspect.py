"""Frozen settings of proxml-inspect."""

from dataclasses import dataclass
from pathlib import Path

from proxml_mpi.errors import SettingsError
from proxml_mpi.settings.fields import FORMAT_HELP, FORMATS, LoggingSettings, argument, option, require_at_least


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
        require_at_least("--top", self.top, 1)
        if self.threads is not None:
            require_at_least("--threads", self.threads, 1)
        if self.export is not None and self.export.suffix not in (".npz", ".txt"):
            raise SettingsError("--export", str(self.export), "a name that ends in .npz or .txt")
        if self.export is not None and self.json:
            raise SettingsError("--json", "--export", "one of the two")
