"""proxml-analyze: the paper's analyses, for any data."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from proxml_mpi.cli.options import parse_subcommand
from proxml_mpi.cli.run import run, run_alone
from proxml_mpi.output import show
from proxml_mpi.settings.analyze import GraphSettings
from proxml_mpi.settings.certify import CertifySettings
from proxml_mpi.settings.report import ReportSettings
from proxml_mpi.settings.robustness import RobustnessSettings

if TYPE_CHECKING:
    from proxml_mpi.ranks.world import World

PROG = "proxml-analyze"
DESCRIPTION = "Analyse data sets and models as the paper does."
KINDS = {
    "graph": GraphSettings,
    "certify": CertifySettings,
    "robustness": RobustnessSettings,
    "report": ReportSettings,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    name, settings = parse_subcommand(KINDS, PROG, DESCRIPTION, arguments)
    if name == "graph":
        return run_alone(PROG, lambda: graph(settings))
    if name == "report":
        return run_alone(PROG, lambda: report(settings))
    if name == "certify":
        return run(PROG, settings, lambda world: certify(settings, world))
    return run(PROG, settings, lambda world: robustness(settings, world))


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


def certify(settings: CertifySettings, world: "World") -> None:
    """Compare LIBLINEAR with certified optima. Collective: every rank calls this."""
    from proxml_mpi.analysis.certify import compare, runs_of
    from proxml_mpi.analysis.certify_report import certify_facts, draw, page, write_rows
    from proxml_mpi.analysis.words import jsonable

    _check_outputs(settings, world)
    rows, loaded = compare(settings, world)
    with world.together():
        if rows is not None:
            facts = certify_facts(rows, loaded.facts, settings)
            show(json.dumps(jsonable(facts), indent=2) if settings.json else page(facts))
            if settings.csv is not None:
                write_rows(settings.csv, rows, runs_of(settings))
            if settings.plot is not None:
                draw(settings.plot, rows, runs_of(settings))


def robustness(settings: RobustnessSettings, world: "World") -> None:
    """Measure how models stand perturbed features and a changed vocabulary. Collective: every rank calls this."""
    from proxml_mpi.analysis.robustness import measure
    from proxml_mpi.analysis.robustness_page import draw, page
    from proxml_mpi.analysis.robustness_report import robustness_facts, write_rows
    from proxml_mpi.analysis.words import jsonable

    _check_outputs(settings, world)
    found = measure(settings, world)
    with world.together():
        if world.is_first:
            facts = robustness_facts(found, settings)
            show(json.dumps(jsonable(facts), indent=2) if settings.json else page(facts))
            if settings.csv is not None:
                write_rows(settings.csv, facts)
            if settings.plot is not None:
                draw(settings.plot, facts)


def _check_outputs(settings: CertifySettings | RobustnessSettings, world: "World") -> None:
    """Refuse files that cannot be written, before any work is done for them. Collective: every rank calls this."""
    from proxml_mpi.data.figure import check_drawing
    from proxml_mpi.files import check_target

    with world.together():
        if world.is_first:
            for path in (settings.csv, settings.plot):
                if path is not None:
                    check_target(path, overwrite=True)
            if settings.plot is not None:
                check_drawing()
