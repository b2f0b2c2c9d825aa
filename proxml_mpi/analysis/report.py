"""The report of a model: one HTML page with everything that model, run and test data say."""

import numpy as np

from proxml_mpi.analysis import svg
from proxml_mpi.analysis.html import document, escape, section, size, tiles
from proxml_mpi.analysis.report_examples import instances_section, labels_section, metrics_section
from proxml_mpi.analysis.report_facts import Subject, evaluate, has_truth, is_solved, read_run, require_trained_on
from proxml_mpi.analysis.report_model import (
    certificates_section,
    data_section,
    run_section,
    sparsity_section,
    time_section,
)
from proxml_mpi.files import check_target, replace_text
from proxml_mpi.settings.report import ReportSettings
from proxml_mpi.solve.problem import Outcome
from proxml_mpi.store.model_reader import ModelHeader, read_header, read_labels
from proxml_mpi.store.names import read_names
from proxml_mpi.store.sources import read_dataset


def write_report(settings: ReportSettings) -> None:
    """Read everything, then write the page."""
    check_target(settings.page, settings.overwrite)
    header = read_header(settings.model)
    run = None if settings.run is None else read_run(settings.run, header)
    block = read_labels(header, 0, header.n_labels)
    names = read_names(header.path, header.n_labels, header.n_features)
    train = None
    if settings.train is not None:
        train = read_dataset(settings.train, settings.format, settings.threads, (header.n_features, header.n_labels))
        require_trained_on(settings.train, train.digest, header)
    tested = None if settings.test is None else evaluate(settings, settings.test, header, block)
    replace_text(settings.page, page(Subject(settings, header, block, names, run, train, tested)))


def page(subject: Subject) -> str:
    """Return the page; the same input makes the same page."""
    sections = {
        "run": ("Run", run_section(subject)),
        "data": ("Data", data_section(subject)),
        "certificates": ("Certificates", certificates_section(subject)),
        "sparsity": ("Sparsity and size", sparsity_section(subject)),
        "time": ("Time and balance", time_section(subject)),
        "metrics": ("Metrics", metrics_section(subject)),
        "labels": ("Labels", labels_section(subject)),
        "instances": ("Instances", instances_section(subject)),
    }
    title = escape(f"Model {subject.settings.model.name}")
    links = "".join(f'<a href="#{name}">{heading}</a>' for name, (heading, _) in sections.items())
    head = f'<h1>{title}</h1>\n<p class="muted">{_subtitle(subject.header)}</p>\n{_tiles(subject)}<nav>{links}</nav>\n'
    body = "".join(section(name, heading, content) for name, (heading, content) in sections.items())
    return document(title, head + body)


def _subtitle(header: ModelHeader) -> str:
    facts = header.attributes
    return escape(f"written by {facts.get('creator', 'an unknown program')}, {facts.get('created', 'no date')}")


def _tiles(subject: Subject) -> str:
    header, block = subject.header, subject.block
    n_solved = int(is_solved(block).sum())
    n_certified = int(np.count_nonzero(block.outcome == Outcome.converged))
    facts = [
        ("instances", f"{header.n_instances:,}"),
        ("features", f"{header.n_features:,}"),
        ("labels", f"{header.n_labels:,}"),
        ("of the solved labels certified", f"{100 * n_certified / max(n_solved, 1):.4g} %"),
        ("weights", svg.short(float(header.indptr[-1]))),
        ("model file", size(header.path.stat().st_size)),
    ]
    if subject.tested is not None and has_truth(subject.tested):
        metrics, ks = subject.tested.evaluation.result(), subject.tested.evaluation.ks
        facts += [(name, f"{metrics[name]:.2f} %") for name in (f"P@{ks[0]}", f"PSP@{ks[-1]}")]
    return tiles(facts)
