"""LIBLINEAR against certified optima in facts, on a page, in words, as a table of labels, and as a picture."""

import csv
import io
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proxml_mpi.analysis.certify import Run, columns, runs_of
from proxml_mpi.analysis.certify_words import findings, run_title
from proxml_mpi.analysis.words import aligned
from proxml_mpi.data.figure import drawing
from proxml_mpi.files import replace_text
from proxml_mpi.loading import Facts
from proxml_mpi.score.metrics import BIN_ENDS, FREQUENCY_BINS
from proxml_mpi.settings.certify import CertifySettings

SAME = 1e-9  # of the objective: what the order of a sum can change
CLEAR = 1e-3  # per positive: the tolerance of training


class Table:
    """The rows of all labels by name of the column."""

    def __init__(self, rows: NDArray[np.float64], runs: list[Run]) -> None:
        self.rows, self.runs, self.names = rows, runs, columns(runs)

    def __getitem__(self, name: str) -> NDArray[np.float64]:
        column: NDArray[np.float64] = self.rows[:, self.names.index(name)]
        return column

    def of(self, run: Run, name: str) -> NDArray[np.float64]:
        return self[f"{run.name}_{name}"]


def certify_facts(rows: NDArray[np.float64], data: Facts, settings: CertifySettings) -> dict[str, Any]:
    """Return the facts, ready for JSON; rows: [n_drawn, columns]."""
    table = Table(rows, runs_of(settings))
    gaps = (table["objective"] - table["bound"]) / table["positives"]
    facts = {
        "data": str(settings.train),
        "n_instances": data.n_instances,
        "n_features": data.n_features,
        "n_labels": data.n_labels,
        "n_drawn": len(rows),
        "seed": settings.seed,
        "lambda": settings.lambda_,
        "lambda_exponent": settings.lambda_exponent,
        "bias": settings.bias,
        "ours": {
            "tolerance": settings.tolerance,
            "n_certified": int(table["is_certified"].sum()),
            "gap_per_positive": _spread(gaps),
            "iterations": _spread(table["iterations"]),
            "weights": _spread(table["weights"]),
            "seconds": _spread(table["seconds"]),
        },
        "runs": [_run_facts(table, run) for run in table.runs],
    }
    return facts | {"findings": findings(facts)}


def _run_facts(table: Table, run: Run) -> dict[str, Any]:
    """Return what came of one way to call LIBLINEAR; distances from the optimum are per positive."""
    ours, theirs, positives = table["objective"], table.of(run, "objective"), table["positives"]
    at_least, at_most = (table.of(run, name) / positives for name in ("above_at_least", "above_at_most"))
    is_capped = table.of(run, "is_capped") > 0
    returns = table.of(run, "returns")
    is_unreturned = is_capped & (returns == 0)
    slack = SAME * theirs
    in_bin = np.searchsorted(BIN_ENDS, positives)
    return {
        "eps": run.eps,
        "max_iterations": run.max_iterations,
        "n_ours_lower": int(np.count_nonzero(ours < theirs - slack)),
        "n_theirs_lower": int(np.count_nonzero(theirs < ours - slack)),
        "theirs_lower_by_at_most": float(((ours - theirs) / positives).max(initial=0.0)),
        "n_above_by_1e-3": int(np.count_nonzero(at_least > CLEAR)),
        # It cannot happen: somebody's bound or objective would be wrong.
        "n_below_bound": int(np.count_nonzero(theirs < table["bound"] - slack)),
        "above_at_least": _spread(at_least),
        "above_at_most": _spread(at_most),
        "above_at_least_of_capped": _spread(at_least[is_capped]),
        "above_at_least_of_others": _spread(at_least[~is_capped]),
        "above_relative": _spread((theirs - ours) / ours),
        "n_capped": int(is_capped.sum()),
        "n_capped_without_return": None if np.isnan(returns).any() else int(is_unreturned.sum()),
        "violated_zeros_of_capped": _spread(table.of(run, "violated_zeros")[is_capped]),
        "violation_of_zeros_of_capped": _spread(table.of(run, "violation_of_zeros")[is_capped]),
        "violation_of_others_of_capped": _spread(table.of(run, "violation_of_others")[is_capped]),
        "iterations": _spread(table.of(run, "iterations")),
        "weights": _spread(table.of(run, "weights")),
        "seconds": _spread(table.of(run, "seconds")),
        "seconds_ratio": float(table.of(run, "seconds").sum() / max(table["seconds"].sum(), 1e-9)),
        "seconds_ratio_median": float(np.median(table.of(run, "seconds") / np.maximum(table["seconds"], 1e-9))),
        "by_frequency": {
            name: {
                "n_labels": int(np.count_nonzero(in_bin == place)),
                "n_ours_lower": int(np.count_nonzero((ours < theirs - slack)[in_bin == place])),
                "n_capped": int(is_capped[in_bin == place].sum()),
                "above_at_least": _spread(at_least[in_bin == place]),
            }
            for place, name in enumerate(FREQUENCY_BINS)
            if np.any(in_bin == place)
        },
    }


def _spread(values: NDArray[np.float64]) -> dict[str, float]:
    if len(values) == 0:
        return {"median": 0.0, "mean": 0.0, "90%": 0.0, "largest": 0.0}
    median, high = np.quantile(values, (0.5, 0.9))
    return {
        "median": float(median),
        "mean": float(values.mean()),
        "90%": float(high),
        "largest": float(values.max()),
    }


def page(facts: dict[str, Any]) -> str:
    """Return the facts for people: a table, how labels of every frequency fare, and the findings."""
    ours = facts["ours"]
    lines = [
        f"{facts['n_drawn']:,} labels (seed {facts['seed']}), lambda {facts['lambda']:g}"
        + (f" x positives^{facts['lambda_exponent']:g}" if facts["lambda_exponent"] else "")
        + " = 1 / C; distances from the optimum are per positive",
        f"ours: {ours['n_certified']:,} certified, gap / positives {_three(ours['gap_per_positive'], '.1e')}, "
        f"iterations {_three(ours['iterations'], '.0f')}, {1e3 * ours['seconds']['mean']:.1f} ms a label",
        "",
        *aligned(_HEAD, [_cells(run, facts["n_drawn"]) for run in facts["runs"]]),
        "",
        "above the optimum, at least, median by training positives of the label (in brackets: ended by the cap)",
        *aligned(
            ("positives", "labels", *(run_title(run) for run in facts["runs"])),
            [
                (
                    name,
                    f"{counts['n_labels']:,}",
                    *(
                        f"{run['by_frequency'][name]['above_at_least']['median']:.1e} "
                        f"({run['by_frequency'][name]['n_capped']})"
                        for run in facts["runs"]
                    ),
                )
                for name, counts in facts["runs"][0]["by_frequency"].items()
            ],
        ),
        "",
        facts["findings"],
    ]
    return "\n".join(lines)


_HEAD = (
    *("eps", "cap", "ours lower", "theirs lower", "above by 1e-3", "at least: median, 90 %, largest"),
    *("at most: largest", "at the cap", "iterations", "ms a label", "x ours", "median of ratios"),
)


def _cells(run: dict[str, Any], n_labels: int) -> tuple[str, ...]:
    return (
        f"{run['eps']:g}",
        f"{run['max_iterations']:,}",
        *(f"{run[name] / n_labels:.1%}" for name in ("n_ours_lower", "n_theirs_lower", "n_above_by_1e-3")),
        _three(run["above_at_least"], ".1e"),
        f"{run['above_at_most']['largest']:.1e}",
        f"{run['n_capped'] / n_labels:.1%}",
        f"{run['iterations']['median']:,.0f}",
        f"{1e3 * run['seconds']['mean']:,.1f}",
        f"{run['seconds_ratio']:.1f}",
        f"{run['seconds_ratio_median']:.0f}",
    )


def _three(spread: dict[str, float], form: str) -> str:
    return ", ".join(format(spread[name], form) for name in ("median", "90%", "largest"))


def write_rows(path: Path, rows: NDArray[np.float64], runs: list[Run]) -> None:
    """Write one row a label; what is not known stays empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns(runs))
    for row in rows.tolist():
        writer.writerow("" if value != value else int(value) if value.is_integer() else value for value in row)
    replace_text(path, text.getvalue())


def draw(path: Path, rows: NDArray[np.float64], runs: list[Run]) -> None:
    """Draw, for every way to call LIBLINEAR, our objective against its own, and its distances from the optimum."""
    table = Table(rows, runs)
    with drawing(path, 11, 5) as figure:
        left, right = figure.subplots(1, 2)
        ours = table["objective"]
        for run, marker in zip(runs, "ox+^sdv*" * len(runs), strict=False):
            title = f"eps {run.eps:g}, cap {run.max_iterations:,}"
            left.plot(ours, table.of(run, "objective"), marker, markersize=4, alpha=0.6, label=title)
            above = np.sort(np.maximum(table.of(run, "above_at_least") / table["positives"], 1e-12))
            right.plot(above, np.arange(1, len(above) + 1) / len(above), drawstyle="steps-post", label=title)
        ends = [ours.min(), max(table.of(run, "objective").max() for run in runs)]
        left.plot(ends, ends, linewidth=0.8, color="gray")
        left.set(xscale="log", yscale="log", xlabel="opt_prox: our objective", ylabel="opt_ccd: LIBLINEAR's objective")
        right.set(xscale="log", xlabel="LIBLINEAR above the optimum, at least, per positive", ylabel="share of labels")
        right.axvline(CLEAR, linestyle=":", color="gray")
        for axes in (left, right):
            axes.legend()
            axes.grid(visible=True, alpha=0.3)
