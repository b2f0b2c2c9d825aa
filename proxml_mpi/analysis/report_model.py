"""The sections of the report that a model alone can fill: run, data, certificates, sparsity, time."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from proxml_mpi.analysis import svg
from proxml_mpi.analysis.html import code_box, escape, muted, row, size, table
from proxml_mpi.analysis.report_facts import Subject, balance, bin_of, is_solved, label_statistics, spread
from proxml_mpi.data.statistics import TAIL, feature_counts, histogram
from proxml_mpi.score.metrics import FREQUENCY_BINS
from proxml_mpi.solve.problem import Outcome

SETTINGS = (
    "penalty",
    "lambda",
    "lambda_exponent",
    "ridge",
    "solver",
    "tolerance",
    "max_iterations",
    "prune",
    "negatives",
    "seed",
    "bias",
    "weighting",
    "normalize",
    "certificate_of",
)


def run_section(subject: Subject) -> str:
    """Return the settings, and what is known of the ranks."""
    facts, run = subject.header.attributes, subject.run
    command = facts.get("command_line", "")
    rows = [(name.replace("_", " "), escape(_plain(facts[name]))) for name in SETTINGS if name in facts]
    half = (len(rows) + 1) // 2
    settings = [table(("setting", "value"), part, (0, 1)) for part in (rows[:half], rows[half:]) if part]
    digest = f"<p>digest of the training data <code>{escape(facts['data_digest'])}</code></p>\n"
    content = code_box(escape(command))
    if run is None:
        remark = "Ranks, stages and memory are known when --run names what proxml-train --report wrote."
        return content + row(*settings) + digest + muted(remark)
    stages = {escape(name): float(value) for name, value in run["seconds"].items()}
    rows = [
        ("ranks", f"{run['ranks']:,}"),
        ("nodes", f"{run['nodes']:,}"),
        ("threads of a rank", f"{run['threads']:,}"),
        ("largest memory of a rank", size(run["peak_memory_bytes"])),
        ("seconds of all stages", f"{sum(stages.values()):,.1f}"),
    ]
    drawn = svg.bars("Seconds of every stage", {"": stages}, " s")
    return content + row(*settings, table(("", ""), rows)) + row(drawn) + digest


def data_section(subject: Subject) -> str:
    """Return the statistics of training and test data, and the power laws."""
    header, tested, train = subject.header, subject.tested, subject.train
    columns = {"training": (header.n_instances, label_statistics(header.n_positives, header.n_instances))}
    entries = {} if train is None else {"training": len(train.features.indices)}
    if tested is not None:
        n_instances = tested.evaluation.n_instances
        columns["test"] = (n_instances, label_statistics(tested.label_counts, n_instances))
        entries["test"] = tested.n_entries
    kinds = [
        ("labels that occur", "labels_seen", ",.0f", 1),
        ("labels that occur once", "labels_once", ",.0f", 1),
        ("labels per instance", "labels_per_instance", ",.2f", 1),
        ("instances per label that occurs", "positives_per_label", ",.2f", 1),
        (f"labels below {TAIL} instances, % of those that occur", "tail_labels", ".1f", 100),
        ("their share of all pairs, %", "tail_pairs", ".1f", 100),
    ]
    rows: list[Sequence[str]] = [("instances", *(f"{n:,}" for n, _ in columns.values()))]
    rows += [(text, *(f"{s[key] * by:{form}}" for _, s in columns.values())) for text, key, form, by in kinds]
    if entries:
        per = {name: f"{n / max(columns[name][0], 1):,.1f}" for name, n in entries.items()}
        rows.append(("features per instance", *(per.get(name, "-") for name in columns)))
    series = {"training": svg.ranked(header.n_positives)}
    if tested is not None:
        series["test"] = svg.ranked(tested.label_counts)
    series = {name: points for name, points in series.items() if points}
    drawn = []
    if series:
        drawn.append(svg.curves("Power law of the labels", "rank of the label", "instances", series))
    counts = np.bincount(bin_of(header.n_positives), minlength=len(FREQUENCY_BINS))
    by_bin = {name: float(count) for name, count in zip(FREQUENCY_BINS, counts, strict=True)}
    drawn.append(svg.bars("Labels by training positives", {"": _escaped(by_bin)}))
    if train is not None and (points := svg.ranked(feature_counts(train))):
        power_law = {"training": points}
        drawn.append(svg.curves("Power law of the features", "rank of the feature", "instances", power_law))
    note = "" if train is not None else muted("Statistics of the features are known when --train names the data.")
    return table(("", *columns), rows) + row(*drawn) + note


def certificates_section(subject: Subject) -> str:
    """Return outcomes, gaps and iterations."""
    block, facts = subject.block, subject.header.attributes
    solved = is_solved(block)
    counts = np.bincount(block.outcome, minlength=len(Outcome))
    outcomes = {kind.name.replace("_", " "): float(counts[kind]) for kind in Outcome if counts[kind]}
    content = (
        "<p>The optimum of a label is not below its objective less its duality gap; both are those of the float32 "
        "weights in the file. Gaps are per positive instance, as the tolerance is.</p>\n"
    )
    drawn = [svg.bars("Labels by outcome", {"": outcomes})]
    if not solved.any():
        return content + row(*drawn)
    gaps = block.duality_gap[solved] / np.maximum(block.n_positives[solved], 1)
    median, most, largest = spread(gaps)
    relative = spread(block.duality_gap[solved] / np.maximum(block.objective[solved], 1e-300))
    rows = [
        ("gap / positives", f"{median:.1e}", f"{most:.1e}", f"{largest:.1e}"),
        ("gap / objective", *(f"{value:.1e}" for value in relative)),
        ("iterations", *(f"{value:,.0f}" for value in spread(block.iterations[solved]))),
    ]
    is_above = (gaps > 0) & np.isfinite(gaps)
    if is_above.any():
        tolerance = float(np.asarray(facts.get("tolerance", 0.0)))
        limit = (tolerance, "tolerance") if tolerance > 0 else None
        shown = np.maximum(gaps[is_above], 1e-12)
        drawn.append(svg.histogram("Labels by gap", "duality gap / positives", shown, limit))
    n_zero = int(np.count_nonzero(gaps <= 0))
    iterations = histogram(block.iterations[solved].astype(np.int64))
    drawn.append(svg.bars("Labels by iterations", {"": {name: float(n) for name, n in iterations.items() if n}}))
    note = muted(f"Labels with a gap of 0, which are not in the histogram: {n_zero:,}.") if n_zero else ""
    return content + table(("", "median", "90 %", "largest"), rows) + row(*drawn) + note


def sparsity_section(subject: Subject) -> str:
    """Return how many weights there are, and where."""
    header, block = subject.header, subject.block
    solved, n_weights = is_solved(block), np.diff(block.indptr)
    n_cells = header.n_labels * header.n_features
    rows = [
        ("weights", f"{header.indptr[-1]:,}"),
        ("share of all labels x features", f"{100 * int(header.indptr[-1]) / max(n_cells, 1):.2g} %"),
        ("features with a weight in some label", f"{len(np.unique(block.indices)):,} of {header.n_features:,}"),
        ("model file", size(header.path.stat().st_size)),
        ("the same weights dense, float32", size(4 * n_cells)),
    ]
    drawn = []
    if (n_weights[solved] > 0).any():
        shown = n_weights[solved & (n_weights > 0)].astype(np.float64)
        drawn.append(svg.histogram("Labels by number of weights", "weights of a label", shown))
    bins = bin_of(block.n_positives)
    found = []
    for number, name in enumerate(FREQUENCY_BINS):
        mine = solved & (bins == number)
        if mine.any():
            empty = 100 * np.mean(n_weights[mine] == 0)
            values = [f"{value:,.0f}" for value in spread(n_weights[mine])]
            found.append((escape(name), f"{int(mine.sum()):,}", *values, f"{empty:.1f}"))
    head = ("positives", "labels", "weights, median", "90 %", "largest", "% without any")
    return row(table(("", ""), rows), *drawn) + table(head, found)


def time_section(subject: Subject) -> str:
    """Return what labels took, and how evenly ranks share them."""
    block, run = subject.block, subject.run
    solved = is_solved(block)
    if not solved.any():
        return muted("No label was solved.")
    bins, total = bin_of(block.n_positives), float(block.seconds.sum())
    rows = []
    for number, name in enumerate(FREQUENCY_BINS):
        mine = solved & (bins == number)
        if mine.any():
            seconds = block.seconds[mine].astype(np.float64)
            times = [f"{1000 * value:,.2f}" for value in spread(seconds)]
            share = 100 * seconds.sum() / total if total else 0.0
            rows.append((escape(name), f"{int(mine.sum()):,}", f"{seconds.sum():,.2f}", f"{share:.1f}", *times))
    head = ("positives", "labels", "seconds", "% of all", "ms a label, median", "90 %", "largest")
    shown = 1000 * np.maximum(block.seconds[solved].astype(np.float64), 1e-6)
    drawn = [
        svg.histogram("Labels by time", "milliseconds of a label", shown),
        svg.curves("Balance by number of ranks", "ranks", "% of the time at work", {"": balance(block)}, False),
    ]
    by_rank = [] if run is None else [float(value) for value in run.get("solver_seconds_by_rank", [])]
    if 1 < len(by_rank) <= 64:
        loads = {f"rank {rank}": seconds for rank, seconds in enumerate(by_rank)}
        drawn.append(svg.bars("Seconds of every rank of the run", {"": loads}, " s"))
    content = f"<p>{total:,.1f} s of processor time for all labels.</p>\n" + table(head, rows) + row(*drawn)
    if len(by_rank) > 1 and max(by_rank) > 0:
        share = sum(by_rank) / len(by_rank) / max(by_rank)
        worked = f"{100 * share:.1f} % of the time that the busiest one did"
        content += f"<p>In this run {len(by_rank):,} ranks worked {worked}, on average.</p>\n"
    return content + muted(
        "Balance: labels dealt out to so many ranks as training does it, by their expected costs, each taking the time "
        "that it took here; the mean load of a rank over the largest."
    )


def _escaped(values: dict[str, float]) -> dict[str, float]:
    return {escape(name): value for name, value in values.items()}


def _plain(value: Any) -> str:
    value = np.asarray(value).item()
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)
