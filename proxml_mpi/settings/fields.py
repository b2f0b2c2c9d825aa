"""How a settings field is described, and what several commands share."""

import dataclasses
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from proxml_mpi.errors import SettingsError

FORMATS = ("auto", "xmc", "two-file", "libsvm", "libsvm0", "npz", "hdf5")
FORMAT_HELP = "format of the data set: auto tells it from the content; libsvm0 is libsvm with labels from 0"
DATA_SET = (
    "XMC text (header 'N D L', lines 'l1,l2 f:v f:v'), libsvm multi-label text (no header, ids from 1), "
    "a dataset file of 'proxml-data convert' (HDF5), or a pair FEATURES,LABELS of text matrices (header 'N D', rows "
    "'f:v f:v') or scipy .npz matrices, of which FEATURES alone will do when the names are alike "
    "(train_X_Xf.txt and train_X_Y.txt, X.npz and Y.npz); text may be .gz, .xz or .zst"
)


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


def like(kind: type[Any], name: str, **changes: Any) -> Any:
    """Describe a field as the settings of another command do."""
    field = next(field for field in dataclasses.fields(kind) if field.name == name)
    return dataclasses.field(default=field.default, metadata={**field.metadata, **changes})


@dataclass(frozen=True, kw_only=True)
class LoggingSettings:
    """What every command says about itself."""

    log_level: str = option("info", "how much to say", choices=("debug", "info", "warning", "error"))
    log_format: str = option("text", "json: every line of the log an object", choices=("text", "json"))
    log_file: Path | None = option(
        None, "write the log to FILE too; %%r in it becomes the rank, without it only rank 0 writes", metavar="FILE"
    )


def require_finite(option_name: str, value: float, above: float = -math.inf) -> None:
    """Refuse a number that is not finite, or not above another."""
    if not (math.isfinite(value) and value > above):
        raise SettingsError(option_name, value, "a finite number" + (f" above {above:g}" if above > -math.inf else ""))


def require_at_least(option_name: str, value: int, least: int) -> None:
    """Refuse a number that is too small."""
    if value < least:
        raise SettingsError(option_name, value, f"a whole number, at least {least}")
