"""What tuning has found: a table for people, JSON and CSV for programs, a picture."""

import csv
import io
import json
import math
from pathlib import Path
from typing import Any

from proxml_mpi.analysis.words import jsonable
from proxml_mpi.data.figure import drawing
from proxml_mpi.files import replace_text
from proxml_mpi.output import show
from proxml_mpi.settings.tune import TuneSettings
from proxml_mpi.tune.choice import edges

PLACE = ("ridge", "lambda_exponent", "lambda")
BESIDE = ("P@1", "P@5", "PSP@1", "PSP@5")  # shown beside the target where they are computed


def report(settings: TuneSettings, facts: dict[str, Any]) -> None:
    """Print what was found and write it where the settings say."""
    show(json.dumps(jsonable(facts), indent=2) if settings.json else page(settings, facts))
    if settings.csv is not None:
        replace_text(settings.csv, table(settings, facts))
    if settings.plot is not None:
        draw(settings.plot, settings, facts)


def page(settings: TuneSettings, facts: dict[str, Any]) -> str:
    """Return the facts for people: a row a lambda, then the target by frequency of the labels, then the best."""
    points, best, metric = facts["points"], facts["best"], settings.metric
    how = f"mean of {settings.folds} folds" if settings.folds else f"{settings.fraction:g} of the instances held out"
    lines = [f"{metric} in %, {how}, seed {settings.seed}; * the best", "", *_path_lines(points, best, metric), ""]
    lines += [f"{metric} by training positives of the labels, + the best of each kind", ""]
    lines += [*_bin_lines(points, best, metric), ""]
    error = "" if best["standard_error"] is None else f" (standard error {best['standard_error']:.2f})"
    lines += [
        f"best: --lambda {best['lambda']:g} --lambda-exponent {best['lambda_exponent']:g}"
        f"{_ridge(best, ' --ridge ')}, "
        f"{metric} {best['target']:.2f} %{error}",
        *edges(settings, best),
        f"train with: {facts['train_with']}",
    ]
    return "\n".join(lines)


def _path_lines(points: list[dict[str, Any]], best: dict[str, Any], metric: str) -> list[str]:
    has_error = best["standard_error"] is not None
    others = [name for name in BESIDE if name != metric and name in best["metrics"]]
    place = _place_of(points)
    head = ["", *place, metric, *(["+-"] if has_error else []), *others]
    rows = [[*head, "weights", "uncertified", "seconds"]]
    for point in points:
        rows.append(
            [
                "*" if point is best else "",
                *(f"{point[name]:g}" for name in place.values()),
                f"{point['target']:.2f}",
                *([f"{point['standard_error']:.2f}"] if has_error else []),
                *(f"{point['metrics'][name]:.2f}" for name in others),
                f"{point['n_weights']:,.0f}",
                f"{point['n_uncertified']:,.0f}",
                f"{point['seconds']:.1f}",
            ]
        )
    return _align(rows)


def _bin_lines(points: list[dict[str, Any]], best: dict[str, Any], metric: str) -> list[str]:
    """Return a row a lambda and a column a frequency bin; each column's largest number is marked."""
    bins = [name for name, values in best["by_frequency"].items() if values["n_instances"] and name != "0"]
    most = {name: max((p["by_frequency"][name][metric] for p in points), default=0.0) for name in bins}
    place = _place_of(points)
    rows = [["", *place, *(f"{name} " for name in bins)]]
    for point in points:
        values = {name: point["by_frequency"][name][metric] for name in bins}
        cells = (f"{value:.2f}{'+' if value == most[name] > 0 else ' '}" for name, value in values.items())
        first = "*" if point is best else ""
        rows.append([first, *(f"{point[name]:g}" for name in place.values()), *cells])
    sizes = [f"{best['by_frequency'][name]['n_labels']:,.0f} " for name in bins]
    return _align([*rows, [*[""] * len(place), "labels", *sizes]])


def _place_of(points: list[dict[str, Any]]) -> dict[str, str]:
    """Return the heads that tell points apart, and what they are in a point."""
    names = PLACE if any(point["ridge"] for point in points) else PLACE[1:]
    return {name.removeprefix("lambda_"): name for name in names}


def _ridge(point: dict[str, Any], word: str) -> str:
    return f"{word}{point['ridge']:g}" if point["ridge"] else ""


def _align(rows: list[list[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(f"{cell:>{w}}" for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows]


def table(settings: TuneSettings, facts: dict[str, Any]) -> str:
    """Return a CSV row for every fold and lambda: its metrics, then the target of every frequency bin."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    counts = ("n_weights", "n_uncertified", "solver_seconds", "seconds")
    for number, row in enumerate(facts["rows"]):
        by_bin = {f"{settings.metric} {name}": v[settings.metric] for name, v in row["by_frequency"].items()}
        values = {name: row[name] for name in ("fold", *PLACE)}
        values |= {name: row[name] for name in counts} | row["metrics"] | by_bin
        if number == 0:
            writer.writerow(values)
        writer.writerow("" if isinstance(v, float) and math.isnan(v) else v for v in values.values())
    return text.getvalue()


def draw(path: Path, settings: TuneSettings, facts: dict[str, Any]) -> None:
    """Draw the target over lambda: a line an exponent and ridge, and a line a frequency bin at the best of these."""
    points, best, metric = facts["points"], facts["best"], settings.metric
    with drawing(path, 11, 4) as figure:
        left, right = figure.subplots(1, 2)
        for place in settings.paths:
            mine = [point for point in points if _path(point) == place]
            lambdas, values = [p["lambda"] for p in mine], [p["target"] for p in mine]
            errors = None if best["standard_error"] is None else [p["standard_error"] for p in mine]
            left.errorbar(lambdas, values, errors, marker=".", capsize=2, label=_title(mine[0]))
        left.plot(best["lambda"], best["target"], marker="o", fillstyle="none", markersize=12, color="black")
        left.set_title("all labels")
        mine = [point for point in points if _path(point) == _path(best)]
        for name, of_best in best["by_frequency"].items():
            if of_best["n_instances"] and name != "0":
                values = [point["by_frequency"][name][metric] for point in mine]
                right.plot([p["lambda"] for p in mine], values, marker=".", label=f"{name} positives")
        right.set_title(f"by frequency, {_title(best)}")
        for axes in (left, right):
            axes.set_xscale("log")
            axes.set_xticks(settings.path, [f"{value:g}" for value in settings.path])
            axes.set_xticks([], minor=True)
            axes.set_xlabel("lambda")
            axes.set_ylabel(f"{metric} in %")
            axes.grid(visible=True, alpha=0.3)
            axes.legend(fontsize="small", loc="upper left", bbox_to_anchor=(1, 1))


def _path(point: dict[str, Any]) -> tuple[float, float]:
    return point["ridge"], point["lambda_exponent"]


def _title(point: dict[str, Any]) -> str:
    return f"exponent {point['lambda_exponent']:g}{_ridge(point, ', ridge ')}"
