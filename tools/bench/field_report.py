"""What field.py writes: a table for each data set, everything as CSV, and a plot."""

import argparse
import csv
import os
import shlex
import sys
from pathlib import Path
from typing import Any

import numpy as np

from proxml_mpi.settings.train import TrainSettings

RESULTS = Path(__file__).parent / "results"
MISSING = (
    "FastXML and PFastreXML (PyPI `fastxml`) do not build against current compilers and Python; of PD-Sparse, SLEEC "
    "and LEML no packaged implementation was found."
)
METRICS = tuple(f"{name}@{k}" for name in ("P", "nDCG", "PSP", "PSnDCG", "coverage") for k in (1, 3, 5))
TAIL = "PSP@5, 1-5 positives"
COSTS = ("training s", "ms/instance", "model bytes", "peak bytes")
COLUMNS = ("data", "program", "version", *COSTS, *METRICS, TAIL, "command")
SHOWN = ("program", *COSTS, "P@1", "P@3", "P@5", "PSP@1", "PSP@3", "PSP@5", "coverage@5", TAIL)
Row = dict[str, Any]


def rule(**options: float) -> tuple[float, float, float]:
    """Return our lambda, exponent and ridge."""
    settings = TrainSettings(train=Path("train"), model=Path("model.h5"), **options)
    return settings.label_lambda, settings.label_exponent, settings.label_ridge


def write_results(rows: list[Row], options: argparse.Namespace) -> None:
    """Write a table for each data set as Markdown, everything as CSV, and draw."""
    RESULTS.mkdir(exist_ok=True)
    command = (
        "python tools/bench/field.py ../shared/data --scratch DIR --peers-python peers/bin/python "
        f"--slow-seconds {options.slow_seconds:g} --most-seconds {options.most_seconds:g} "
        f"--sets {' '.join(options.sets)}"
    )
    if options.results != "field":
        command += f" --results {options.results} --programs {shlex.join(options.programs)}"
    with (RESULTS / f"{options.results}.csv").open("w", newline="") as stream:
        writer = csv.DictWriter(stream, COLUMNS, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(row | {"command": command} for row in rows)
    default, alone = rule(), rule(ridge=0.0)
    text = [
        "# The field: ours and the peers, one thread, plain ranking",
        "",
        f"    {command}",
        "",
        f"Python {sys.version.split()[0]}, numpy {np.__version__}, {os.cpu_count()} cores shared with others; "
        "processor time without the start of a program (ours: reading a dataset file, solving and storing, less the "
        "same on three instances). "
        f"Ours: the default, lambda {default[0]:g} x positives^{default[1]:g} and a ridge of {default[2]:g}; with "
        f"--ridge 0, and so LIBLINEAR and the authors' algorithm: {alone[0]:g} x positives^{alone[1]:g}. Programs that "
        f"take more than {options.most_seconds:g} s are left out. {MISSING}",
    ]
    for name in options.sets:
        of_set = [row for row in rows if row["data"] == name]
        text += ["", f"## {name}", "", *table([{c: row.get(c, "") for c in SHOWN} for row in of_set], SHOWN), ""]
        text += [f"{r['program']}: {r['version']}." for r in of_set if r["program"].startswith("proxml-mpi")]
    versions = sorted({str(row["version"]).partition(";")[0] for row in rows if row["version"]})
    text += ["", "Versions: " + "; ".join(versions) + "."]
    text += ["", "[Other calls, and what they differed in](field-notes.md)."]
    (RESULTS / f"{options.results}.md").write_text("\n".join(text) + "\n", encoding="utf-8")
    if options.results == "field":
        draw(rows, options.sets)


def table(rows: list[Row], columns: tuple[str, ...]) -> list[str]:
    """Return a Markdown table."""
    lines = [columns, ["---"] * len(columns), *([row[column] for column in columns] for row in rows)]
    return ["| " + " | ".join(f"{v:,}" if isinstance(v, int) else str(v) for v in line) + " |" for line in lines]


def draw(rows: list[Row], sets: list[str]) -> None:
    """Draw quality against training time, where matplotlib is; without Rocchio, so far below that it hides the rest."""
    try:
        import matplotlib
    except ImportError:
        print("no plot: the extra plots is not installed", file=sys.stderr)
        return
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import LogLocator, NullLocator

    figure, axes = plt.subplots(2, len(sets), figsize=(4 * len(sets), 7), layout="constrained", squeeze=False)
    for column, name in enumerate(sets):
        for line, metric in enumerate(("P@1", "PSP@5")):
            for row in (row for row in rows if row["data"] == name and row.get(metric) and row["program"] != "Rocchio"):
                marker = "*" if row["program"] == "proxml-mpi" else "o"
                axes[line, column].plot(row["training s"], row[metric], marker, markersize=9, label=row["program"])
            axes[line, column].set(xscale="log", xlabel="training, processor seconds", ylabel=metric, title=name)
            axes[line, column].xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axes[line, column].xaxis.set_minor_locator(NullLocator())
            axes[line, column].xaxis.set_major_formatter("{x:g}")
    axes[0, 0].legend(fontsize=7)
    figure.savefig(RESULTS / "field.png", dpi=100)
