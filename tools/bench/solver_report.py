"""Tables and figures of the solver bench."""

import argparse
import csv
import importlib.metadata
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

STRATA = (1, 2, 5, 17, 65, 257)  # where strata of positives begin

Row = dict[str, Any]


def strata() -> Iterator[tuple[int, int, str]]:
    """Yield where each stratum begins and ends, and its name."""
    for low, high in zip(STRATA, (*STRATA[1:], 2**31), strict=True):
        yield low, high, str(low) if high == low + 1 else f"> {low - 1}" if high == 2**31 else f"{low}-{high - 1}"


def report(name: str, rows: list[Row], arguments: argparse.Namespace) -> list[str]:
    """Return the tables, with the command that made them."""
    weight = np.array([row["weight"] for row in rows])
    ours = np.array([row["ours_seconds"] for row in rows])
    ratio = np.array([row["work_ratio"] for row in rows])
    mean = float((ours * weight).sum() / weight.sum())
    versions = ", ".join(f"{p} {importlib.metadata.version(p)}" for p in ("proxml-mpi", "liblinear-official", "numba"))
    uncertified = sum(row["outcome"] != "converged" for row in rows)
    lines = [
        f"# Solvers on {name}, lambda {arguments.penalty:g} x positives^{arguments.lambda_exponent:g}",
        "",
        f"    python {shlex.join(sys.argv)}",
        "",
        f"{versions}.",
        f"{len(rows)} labels drawn with seed {arguments.seed}, weighted to {weight.sum():,.0f}; one thread, "
        f"CPU time. Certified gap <= {arguments.tolerance:g} x positives on all but {uncertified} labels.",
        "",
        f"Ours: mean {1e3 * mean:.2f} ms a label, median {1e3 * quantile(ours, weight, 0.5):.2f} ms; all labels "
        f"{(ours * weight).sum():,.1f} s.",
        f"Work ratio of all labels: median {quantile(ratio, weight, 0.5):.1f}, 90 % {quantile(ratio, weight, 0.9):.1f} "
        f"(of those drawn, unweighted: {np.median(ratio):.1f}, {np.quantile(ratio, 0.9):.1f}).",
        "",
        "| LIBLINEAR -s 5 | mean ms | ratio of means | median of ratios | suboptimality / positives: 50 %, 90 %, max |",
        "|---|---|---|---|---|",
    ]
    for eps in arguments.eps:
        theirs = np.array([row[f"liblinear_{eps:g}_seconds"] for row in rows])
        worse = np.array([row[f"liblinear_{eps:g}_suboptimality"] for row in rows])
        their_mean = float((theirs * weight).sum() / weight.sum())
        spread = ", ".join(f"{quantile(worse, weight, share):.1e}" for share in (0.5, 0.9, 1.0))
        ratios = f"**{their_mean / mean:.1f}** | {quantile(theirs / ours, weight, 0.5):.1f}"
        lines.append(f"| eps {eps:g} | {1e3 * their_mean:.1f} | {ratios} | {spread} |")
    return [*lines, "", *by_stratum(rows), *forward_backward_lines(rows)]


def quantile(values: NDArray[np.float64], weight: NDArray[np.float64], share: float) -> float:
    """Return the least value that a share of the whole label set does not exceed."""
    order = np.argsort(values)
    reached = np.cumsum(weight[order])
    return float(values[order][np.searchsorted(reached, min(share * reached[-1], reached[-1]))])


def by_stratum(rows: list[Row]) -> list[str]:
    """Return a table of our times by number of positives."""
    lines = [
        "| positives | labels | our mean ms | max ms | share of all time | support | work ratio |",
        "|---|---|---|---|---|---|---|",
    ]
    total = sum(row["ours_seconds"] * row["weight"] for row in rows)
    for low, high, name in strata():
        part = [row for row in rows if low <= row["positives"] < high]
        if part:
            times = np.array([row["ours_seconds"] for row in part])
            share = sum(row["ours_seconds"] * row["weight"] for row in part) / total
            support = np.mean([row["support"] for row in part])
            ratio = np.median([row["work_ratio"] for row in part])
            lines.append(
                f"| {name} | {len(part)} | {1e3 * times.mean():.2f} | {1e3 * times.max():.2f} | {100 * share:.0f} % "
                f"| {support:.0f} | {ratio:.1f} |"
            )
    return [*lines, ""]


def forward_backward_lines(rows: list[Row]) -> list[str]:
    """Return what Algorithm 1 did, label by label."""
    part = [row for row in rows if "forward_backward_seconds" in row]
    if not part:
        return []
    ratio = sum(row["forward_backward_seconds"] for row in part) / sum(row["ours_seconds"] for row in part)
    lines = [
        f"The paper's Algorithm 1 (forward-backward, until the same gap or its iterations): {ratio:,.0f} x our time.",
        "",
        "| positives | its s / ours | outcome | its suboptimality / positives |",
        "|---|---|---|---|",
    ]
    lines += [
        f"| {row['positives']} | {row['forward_backward_seconds'] / row['ours_seconds']:,.0f} "
        f"| {row['forward_backward_outcome']} | {row['forward_backward_suboptimality']:.1e} |"
        for row in part
    ]
    return [*lines, ""]


def write_csv(path: Path, rows: list[Row]) -> None:
    """Write one line a label."""
    columns = list(dict.fromkeys(column for row in rows for column in row))
    with path.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def exponent(means: list[float]) -> float:
    """Fit the power of the number of instances with which times at 25, 50 and 100 % of them grow."""
    return float(np.polyfit(np.log([25, 50, 100]), np.log(means), 1)[0])


def plot_growth(path: Path, name: str, found: dict[str, list[float]]) -> None:
    """Draw time against the share of the instances, a line for each stratum of labels."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
    for stratum, means in found.items():
        axes.plot([25, 50, 100], means, marker="o", label=f"{stratum} positives: N^{exponent(means):.2f}")
    axes.set(xscale="log", yscale="log", xlabel="% of the instances", ylabel="mean CPU ms of a label", title=name)
    axes.set_xticks([25, 50, 100], ["25", "50", "100"])
    axes.minorticks_off()
    axes.legend(fontsize=8)
    figure.savefig(path, dpi=120)
    plt.close(figure)


def plot(path: Path, name: str, rows: list[Row], arguments: argparse.Namespace) -> None:
    """Draw time against the number of positives."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
    positives = [row["positives"] for row in rows]
    for eps in arguments.eps:
        theirs = [1e3 * row[f"liblinear_{eps:g}_seconds"] for row in rows]
        axes.scatter(positives, theirs, s=10, label=f"LIBLINEAR -s 5, eps {eps:g}")
    axes.scatter(
        positives, [1e3 * row["ours_seconds"] for row in rows], s=14, marker="x", color="black", label="newton"
    )
    axes.set(xscale="log", yscale="log", xlabel="positives of the label", ylabel="CPU ms", title=name)
    axes.legend(fontsize=8)
    figure.savefig(path, dpi=120)
    plt.close(figure)
