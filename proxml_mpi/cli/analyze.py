"""proxml-analyze: the paper's analyses, for any data."""

import json
from collections.abc import Sequence

from proxml_mpi.cli.options import parse_subcommand
from proxml_mpi.cli.run import run_alone
from proxml_mpi.settings_analyze import GraphSettings

PROG = "proxml-analyze"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    _, settings = parse_subcommand({"graph": GraphSettings}, PROG, "Analyse data sets as the paper does.", arguments)
    return run_alone(PROG, lambda: graph(settings))


def graph(settings: GraphSettings) -> None:
    """Describe the label graph of a data set."""
    from proxml_mpi.analysis.graph_report import analyze_graph, draw, page
    from proxml_mpi.store.sources import read_dataset

    dataset = read_dataset(settings.data, settings.format, settings.threads)
    facts, spectrum = analyze_graph(dataset, settings)
    print(json.dumps(facts, indent=2) if settings.json else page(facts))
    if settings.plot is not None:
        draw(settings.plot, spectrum)
