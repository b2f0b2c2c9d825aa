"""proxml-data: convert, check, describe, split and make data sets."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from proxml_mpi.cli.options import parse_subcommand
from proxml_mpi.cli.run import run_alone
from proxml_mpi.errors import DataError, UserError
from proxml_mpi.settings.data import (
    CheckSettings,
    ConvertSettings,
    InputSettings,
    SplitSettings,
    StatsSettings,
    SynthesizeSettings,
)

if TYPE_CHECKING:
    from proxml_mpi.data.dataset import Dataset

PROG = "proxml-data"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    kinds = {
        "convert": ConvertSettings,
        "check": CheckSettings,
        "stats": StatsSettings,
        "split": SplitSettings,
        "synthesize": SynthesizeSettings,
    }
    name, settings = parse_subcommand(kinds, PROG, "Convert, check, describe, split and make data sets.", arguments)
    commands: dict[str, Callable[[Any], None]] = {
        "convert": convert,
        "check": check,
        "stats": stats,
        "split": split_files,
        "synthesize": synthesize_files,
    }
    return run_alone(PROG, lambda: commands[name](settings))


def convert(settings: ConvertSettings) -> None:
    """Write a data set in another format."""
    from proxml_mpi.store.sources import with_names

    _check_targets((settings.output,), settings.overwrite)
    _write(settings.output, with_names(_read(settings), settings.label_names, settings.feature_names))


def check(settings: CheckSettings) -> None:
    """Report all problems of a data set, up to a limit."""
    from proxml_mpi.data.complaints import Problems
    from proxml_mpi.store.sources import read_dataset

    problems = Problems(settings.limit)
    try:
        # One thread meets problems in the order of the file.
        dataset = read_dataset(settings.data, settings.format, 1, complain=problems)
    except DataError as error:
        if not problems.has_more:
            problems.found.append(error)
    if not problems.found:
        print(f"{settings.data}: no problems; {_summary(dataset)}, digest {dataset.digest}")
        return
    for problem in problems.found:
        print(problem)
    more = f", and there are more (--limit {settings.limit})" if problems.has_more else ""
    raise UserError(f"{settings.data}: {len(problems.found)} problems found{more}")


def stats(settings: StatsSettings) -> None:
    """Describe a data set."""
    from proxml_mpi.data.figure import plot
    from proxml_mpi.data.statistics import describe, table

    dataset = _read(settings)
    facts = describe(dataset)
    print(json.dumps(facts, indent=2) if settings.json else table(facts))
    if settings.plot is not None:
        plot(settings.plot, dataset)


def split_files(settings: SplitSettings) -> None:
    """Write two parts of a data set."""
    from proxml_mpi.data.split import split

    paths = (settings.train, settings.validation)
    _check_targets(paths, settings.overwrite)
    for path, part in zip(paths, split(_read(settings), settings.fraction, settings.seed), strict=True):
        _write(path, part)


def synthesize_files(settings: SynthesizeSettings) -> None:
    """Write a synthetic data set, and part of it elsewhere when asked to."""
    from proxml_mpi.data.split import split
    from proxml_mpi.data.synthetic import synthesize

    dataset = synthesize(
        settings.instances,
        settings.features,
        settings.labels,
        settings.seed,
        labels_per_instance=settings.labels_per_instance,
        features_per_instance=settings.features_per_instance,
    )
    parts = {settings.train: dataset}
    if settings.test is not None:
        train, test = split(dataset, settings.test_fraction, settings.seed)
        parts = {settings.train: train, settings.test: test}
    for path, part in parts.items():
        _write(path, part)


def _read(settings: InputSettings) -> "Dataset":
    from proxml_mpi.store.sources import read_dataset

    return read_dataset(settings.data, settings.format, settings.threads)


def _check_targets(paths: Sequence[Path], overwrite: bool) -> None:
    """Refuse files that cannot be written, before anything is read."""
    from proxml_mpi.files import check_target
    from proxml_mpi.store.sources import check_output

    for path in paths:
        check_output(path)
        check_target(path, overwrite)


def _write(path: Path, dataset: "Dataset") -> None:
    from proxml_mpi.store.sources import write_any

    write_any(path, dataset)
    print(f"{path}: {_summary(dataset)}")


def _summary(dataset: "Dataset") -> str:
    return f"{dataset.n_instances:,} instances, {dataset.n_features:,} features, {dataset.n_labels:,} labels"
