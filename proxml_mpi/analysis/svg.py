"""Small charts as SVG: they take their colours from the page, light or dark, and are as wide as a phone.

Numbers go in, and titles that the caller has escaped; a chart is a figure element with a caption.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

WIDTH, HEIGHT = 360, 230
LEFT, RIGHT, TOP, BOTTOM = 46, 18, 18, 36
MOST_POINTS = 160  # of a curve
BAR_HEIGHT = 22
BINS_PER_DECADE = 4


class Axis(NamedTuple):
    """How numbers become places, and where its ticks are."""

    place: Callable[[float], float]
    ticks: list[tuple[float, str]]  # place, text


def short(value: float) -> str:
    """Return a number in few characters: 0.001, 15, 2k, 1.5M, 1e-6."""
    for unit, name in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= unit:
            return f"{value / unit:.3g}{name}"
    if 0 < abs(value) < 1e-3:
        return f"{value:.0e}".replace("e-0", "e-")
    return f"{value:.3g}"


def log_axis(low: float, high: float, begin: float, end: float) -> Axis:
    """Return an axis over whole decades that hold low to high, both above 0."""
    first, last = int(np.floor(np.log10(low))), int(np.ceil(np.log10(high)))
    last = max(last, first + 1)
    step = -(-(last - first) // 6)

    def place(value: float) -> float:
        return begin + (end - begin) * (float(np.log10(value)) - first) / (last - first)

    return Axis(place, [(place(10.0**power), short(10.0**power)) for power in range(first, last + 1, step)])


def linear_axis(high: float, begin: float, end: float) -> Axis:
    """Return an axis from 0 to high, with about four ticks at round numbers."""
    high = high or 1.0
    power = 10.0 ** np.floor(np.log10(high / 4))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if high / (power * factor) <= 5)

    def place(value: float) -> float:
        return begin + (end - begin) * value / high

    return Axis(place, [(place(step * n), short(step * n)) for n in range(int(high / step + 1e-9) + 1)])


def curves(
    title: str, x_name: str, y_name: str, series: Mapping[str, Sequence[tuple[float, float]]], y_is_log: bool = True
) -> str:
    """Draw up to three curves over a logarithmic axis; points are (x, y) with x above 0."""
    xs = [x for points in series.values() for x, _ in points]
    ys = [y for points in series.values() for _, y in points]
    across = log_axis(min(xs), max(xs), LEFT, WIDTH - RIGHT)
    base, top = HEIGHT - BOTTOM, TOP
    up = log_axis(min(ys), max(ys), base, top) if y_is_log else linear_axis(max(ys), base, top)
    parts = [_frame(across, up, x_name, y_name)]
    for number, points in enumerate(series.values()):
        line = " ".join(f"{across.place(x):.1f},{up.place(y):.1f}" for x, y in points)
        parts.append(f'<polyline class="line s{number}" points="{line}"/>')
        if len(points) <= 12:
            parts += [
                f'<circle class="s{number}" cx="{across.place(x):.1f}" cy="{up.place(y):.1f}" r="2.5">'
                f"<title>{short(x)}: {short(y)}</title></circle>"
                for x, y in points
            ]
    keys = "".join(f'<span class="key s{number}"></span>{name} ' for number, name in enumerate(series))
    return _figure(title, "".join(parts), HEIGHT, keys if len(series) > 1 else "")


def ranked(counts: NDArray[np.integer]) -> list[tuple[float, float]]:
    """Return the points of a power law: the largest count has rank 1; ranks are thinned out, evenly in decades."""
    values = np.sort(counts[counts > 0])[::-1]
    if len(values) == 0:
        return []
    ranks = np.unique(np.geomspace(1, len(values), MOST_POINTS).round().astype(np.int64))
    return [(float(rank), float(values[rank - 1])) for rank in ranks]


def histogram(title: str, x_name: str, values: NDArray[np.floating], limit: tuple[float, str] | None = None) -> str:
    """Draw how many values, all of them above 0, lie where on a logarithmic axis; limit marks a place by a name."""
    marked = [] if limit is None else [limit[0]]
    low, high = float(min(values.min(), *marked, np.inf)), float(max(values.max(), *marked, 0.0))
    across = log_axis(low, high, LEFT, WIDTH - RIGHT)
    first, last = np.floor(np.log10(low)), max(np.ceil(np.log10(high)), np.floor(np.log10(low)) + 1)
    edges = np.linspace(first, last, int(last - first) * BINS_PER_DECADE + 1)
    counts = np.histogram(np.log10(values), edges)[0]
    up = linear_axis(1.05 * float(counts.max(initial=1)), HEIGHT - BOTTOM, TOP)
    parts = [_frame(across, up, x_name, "labels")]
    for edge, next_edge, count in zip(edges[:-1], edges[1:], counts.tolist(), strict=True):
        if count:
            x, end, y = across.place(10.0**edge), across.place(10.0**next_edge), up.place(count)
            parts.append(
                f'<rect class="s0" x="{x:.1f}" y="{y:.1f}" width="{max(end - x - 1, 0.5):.1f}" '
                f'height="{HEIGHT - BOTTOM - y:.1f}"><title>{short(10.0**edge)} to {short(10.0**next_edge)}: '
                f"{count:,} labels</title></rect>"
            )
    if limit is not None:
        x = across.place(limit[0])
        parts.append(f'<line class="mark" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>')
        parts.append(f'<text x="{x:.1f}" y="{TOP - 6}" text-anchor="{_side(x)}">{limit[1]}</text>')
    return _figure(title, "".join(parts), HEIGHT)


def bars(title: str, series: Mapping[str, Mapping[str, float]], unit: str = "") -> str:
    """Draw horizontal bars, for every name one of each series: names at the left, numbers behind the bars."""
    names = list(next(iter(series.values())))
    largest = max((value for values in series.values() for value in values.values()), default=0.0) or 1.0
    begin = 14 + 6.2 * max(map(len, names), default=0)
    room = WIDTH - begin - 62
    step = BAR_HEIGHT if len(series) == 1 else 13 * len(series) + 8
    parts, y = [], 4.0
    for name in names:
        parts.append(f'<text class="name" x="{begin - 6:.1f}" y="{y + step / 2:.1f}" text-anchor="end">{name}</text>')
        for number, values in enumerate(series.values()):
            width = max(room * values[name] / largest, 0.0)
            height = (step - 8) / len(series)
            top = y + number * height
            text = f"{values[name]:,.0f}" if float(values[name]).is_integer() else f"{values[name]:,.2f}"
            parts.append(
                f'<rect class="s{number}" x="{begin:.1f}" y="{top + 1:.1f}" width="{width:.1f}" '
                f'height="{height - 1:.1f}"/>'
                f'<text x="{begin + width + 5:.1f}" y="{top + height / 2 + 4:.1f}">{text}{unit}</text>'
            )
        y += step
    keys = "".join(f'<span class="key s{number}"></span>{name} ' for number, name in enumerate(series))
    return _figure(title, "".join(parts), round(y + 4), keys if len(series) > 1 else "")


def _side(x: float) -> str:
    """Return where a text at x begins, so that it stays in the picture."""
    return "end" if x > WIDTH / 2 else "start"


def _frame(across: Axis, up: Axis, x_name: str, y_name: str) -> str:
    """Draw the axes with grid, ticks and names."""
    base = HEIGHT - BOTTOM
    parts = [f'<path class="grid" d="M{LEFT},{y:.1f}H{WIDTH - RIGHT}"/>' for y, _ in up.ticks]
    parts += [f'<path class="grid" d="M{x:.1f},{TOP}V{base}"/>' for x, _ in across.ticks]
    parts += [f'<text x="{LEFT - 5}" y="{y + 4:.1f}" text-anchor="end">{text}</text>' for y, text in up.ticks]
    parts += [f'<text x="{x:.1f}" y="{base + 14}" text-anchor="middle">{text}</text>' for x, text in across.ticks]
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(f'<text class="name" x="{middle}" y="{HEIGHT - 5}" text-anchor="middle">{x_name}</text>')
    height = (TOP + base) / 2
    parts.append(
        f'<text class="name" transform="translate(10,{height}) rotate(-90)" text-anchor="middle">{y_name}</text>'
    )
    return "".join(parts)


def _figure(title: str, content: str, height: int, keys: str = "") -> str:
    legend = f'<div class="keys">{keys}</div>' if keys else ""
    return (
        f'<figure><figcaption>{title}</figcaption>{legend}<svg viewBox="0 0 {WIDTH} {height}" role="img" '
        f'aria-label="{title}">{content}</svg></figure>\n'
    )
