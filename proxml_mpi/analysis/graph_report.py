"""The label graph of a data set in facts, on a page, and as a picture."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proxml_mpi.analysis.graph import count_neighbours, find_components, label_pairs, restrict, similarity
from proxml_mpi.analysis.spectrum import Spectrum, find_spectrum
from proxml_mpi.analysis.words import aligned
from proxml_mpi.data.dataset import Dataset
from proxml_mpi.data.figure import drawing
from proxml_mpi.data.statistics import histogram
from proxml_mpi.settings.analyze import GraphSettings


def analyze_graph(dataset: Dataset, settings: GraphSettings) -> tuple[dict[str, Any], Spectrum | None]:
    """Return the facts of the label graph, ready for JSON, and the spectrum of its largest component."""
    pairs = label_pairs(dataset)
    component_of = find_components(pairs)
    sizes = np.bincount(component_of[component_of >= 0])
    neighbours = count_neighbours(pairs)
    loops = np.bincount(pairs.indices, minlength=dataset.n_labels)
    degrees = pairs.T @ np.diff(pairs.indptr) - loops
    if settings.unweighted:
        degrees, loops = neighbours, np.ones_like(loops)
    if settings.self_loops:
        degrees = degrees + loops
    spectrum = None
    if sizes.max(initial=0) > 1:
        part = restrict(pairs, np.flatnonzero(component_of == 0))
        graph = similarity(part, settings.self_loops, settings.unweighted)
        spectrum = find_spectrum(graph, settings.eigenvalues, settings.tolerance, settings.max_restarts)
    lambda_2 = None if spectrum is None else max(0.0, float(spectrum.eigenvalues[0]))
    n_shown = settings.eigenvalues
    facts = {
        "data": str(settings.data),
        "n_instances": dataset.n_instances,
        "n_features": dataset.n_features,
        "n_labels": dataset.n_labels,
        "positives_per_label": len(pairs.indices) / max(dataset.n_labels, 1),
        "labels_per_instance": len(pairs.indices) / max(dataset.n_instances, 1),
        "self_loops": settings.self_loops,
        "unweighted": settings.unweighted,
        "n_labels_seen": int(sizes.sum()),
        "n_edges": int(neighbours.sum()) // 2,
        "n_components": len(sizes),
        "n_labels_alone": int(np.count_nonzero(sizes == 1)),
        "largest_component": int(sizes.max(initial=0)),
        "labels_by_neighbours": histogram(neighbours[component_of >= 0]),
        "degree": _spread(degrees[component_of >= 0]),
        "neighbours": _spread(neighbours[component_of >= 0]),
        # One null vector a component.
        "lambda_2": 0.0 if len(sizes) > 1 else lambda_2,
        "lambda_2_of_largest_component": lambda_2,
        "eigenvalues": [] if spectrum is None else spectrum.eigenvalues[:n_shown].tolist(),
        "residuals": [] if spectrum is None else spectrum.residuals[:n_shown].tolist(),
        "is_converged": spectrum is None or spectrum.is_converged,
    }
    return facts, spectrum


def _spread(values: NDArray[Any]) -> dict[str, float]:
    if len(values) == 0:
        return {"median": 0.0, "mean": 0.0, "largest": 0.0}
    return {"median": float(np.median(values)), "mean": float(values.mean()), "largest": float(values.max())}


def page(facts: dict[str, Any]) -> str:
    """Return the facts for people."""
    seen, largest = facts["n_labels_seen"], facts["largest_component"]
    lines = [
        f"{seen:,} labels have positives, {facts['n_labels'] - seen:,} have none and are left out",
        f"{facts['n_edges']:,} edges; components: {facts['n_components']:,}, {facts['n_labels_alone']:,} of one label; "
        f"the largest has {largest:,} labels ({largest / max(seen, 1):.1%})",
        *(
            f"{what:<10} median {facts[what]['median']:,.0f}, mean {facts[what]['mean']:,.1f}, "
            f"largest {facts[what]['largest']:,.0f}"
            for what in ("degree", "neighbours")
        ),
        "",
        f"normalised Laplacian, {'0/1' if facts['unweighted'] else 'co-occurrence'} weights, "
        f"{'with' if facts['self_loops'] else 'without'} self-loops",
        f"lambda_2   {_number(facts['lambda_2'])} of the graph, "
        f"{_number(facts['lambda_2_of_largest_component'])} of the largest component",
    ]
    for place, (value, residual) in enumerate(zip(facts["eigenvalues"], facts["residuals"], strict=True), start=2):
        lines.append(f"{f'lambda_{place}':<10} {value:.6g}  (residual {residual:.1e})")
    if not facts["is_converged"]:
        lines.append(
            "not converged: an eigenvalue lies within the residual of each, and lambda_2 is not larger than shown"
        )
    return "\n".join([*lines, "", *_table(facts)])


def _table(facts: dict[str, Any]) -> list[str]:
    """Return the row of the paper's Table 1 below its head."""
    head = ("N", "D", "L", "points per label", "labels per point", "lambda_2", "of the largest component")
    row = (
        *(f"{facts[name]:,}" for name in ("n_instances", "n_features", "n_labels")),
        *(f"{facts[name]:.2f}" for name in ("positives_per_label", "labels_per_instance")),
        *(_number(facts[name]) for name in ("lambda_2", "lambda_2_of_largest_component")),
    )
    return aligned(head, [row])


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.4g}"


def draw(path: Path, spectrum: Spectrum | None) -> None:
    """Draw the eigenvalues of the largest component into a file, whose name tells the kind of picture."""
    values = np.empty(0) if spectrum is None else spectrum.eigenvalues
    with drawing(path, 6, 4) as figure:
        axes = figure.subplots()
        axes.plot(np.arange(1, len(values) + 2), [0.0, *values], marker=".", linestyle="none")
        axes.set_xlabel("number of the eigenvalue")
        axes.set_ylabel("eigenvalue of the normalised Laplacian")
        axes.set_ylim(bottom=0)
        axes.grid(visible=True, alpha=0.3)
