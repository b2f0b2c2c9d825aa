"""Frozen settings of proxml-doctor."""

from dataclasses import dataclass
from pathlib import Path

from proxml_mpi.errors import SettingsError
from proxml_mpi.settings.fields import FORMAT_HELP, FORMATS, LoggingSettings, option


@dataclass(frozen=True, kw_only=True)
class DoctorSettings(LoggingSettings):
    """One examination."""

    data: Path | None = option(None, "estimate memory and disk for this data set", metavar="DATA")
    format: str = option("auto", FORMAT_HELP, choices=FORMATS)
    directory: Path = option(Path(), "where the model will be written", metavar="DIR")
    threads: int | None = option(None, "threads of each rank [its share of the cores]")
    seconds: float = option(5.0, "time for measuring the network")
    json: bool = option(False, "print JSON")
    log_level: str = option("error", "how much to say", choices=("debug", "info", "warning", "error"))

    def __post_init__(self) -> None:
        if self.threads is not None and self.threads < 1:
            raise SettingsError("--threads", self.threads, "a whole number, at least 1")
        if not 0 < self.seconds <= 600:
            raise SettingsError("--seconds", self.seconds, "a number above 0 and at most 600")
