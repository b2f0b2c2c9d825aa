"""proxml-analyze: the paper's analyses, for any data."""

import json
from collections.abc import Callable, Sequence
from typing import Any

from proxml_mpi.cli.options import parse_subcommand
from proxml_mpi.cli.run import run_alone
from proxml_mpi.settings_analyze import GraphSettings
from proxml_mpi.settings_report import ReportSettings

PROG = "proxml-analyze"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    kinds = {"graph": GraphSettings, "report": ReportSettings}
    name, settings = parse_subcommand(kinds, PROG, "Analyse data sets and models as the paper does.", arguments)
    commands: dict[str, Callable[[Any], None]] = {"graph": graph, "report": report}
    return run_alone(PROG, lambda: commands[name](settings))


def graph(settings: GraphSettings) -> None:
    """Describe the label graph of a data set."""
    from proxml_mpi.analysis.graph_report import analyze_graph, draw, page
    from proxml_mpi.store.sources import read_dataset

    dataset = read_dataset(settings.data, settings.format, settings.threads)
    facts, spectrum = analyze_graph(dataset, settings)
    print(json.dumps(facts, indent=2) if settings.json else page(facts))
    if settings.plot is not None:
        draw(settings.plot, spectrum)


def report(settings: ReportSettings) -> None:
    """Write a page about a model."""
    from proxml_mpi.analysis.report import write_report

    write_report(settings)
    print(f"{settings.page}: {settings.page.stat().st_size:,} bytes")
