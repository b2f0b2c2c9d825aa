"""How a run grows with ranks: measured here on 1 and 2, computed for up to 4,096 from what every label took.

    python tools/bench/scaling.py ../shared/data --set eurlex-4.3k-d5000 --copies 10 [OPTION OF TRAIN ...]

Measured: the data set trained by 1 and 2 ranks of 1 and 2 threads, each one's solve stage; how fast a broadcast between
two ranks is, and how fast the model was written. Computed: every label as often as --copies says, with the processor
seconds that it took (stored in the model), under our own partition and blocks, for nodes of --node-ranks ranks of one
thread; three ways: every rank its range alone; ranks of a node help each other, which is what proxml-train does; all
ranks draw from one queue, the costliest first, which is as good as it gets. The time of a run is the broadcast of the
features to the nodes, doubling with every step, then the longest rank, then the writing of the model; bandwidths are
the measured ones unless given. Writes scaling.md and, with the extra plots, scaling.png into tools/bench/results.
"""

import argparse
import heapq
import itertools
import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import h5py
import numpy as np
from numpy.typing import NDArray

from proxml_mpi.ranks.partition import partition
from proxml_mpi.solve.labels import expected_costs
from proxml_mpi.work import cut_blocks

RESULTS = Path(__file__).parent / "results"
BIN = Path(sys.executable).parent
MEASURED = ((1, 1), (1, 2), (2, 1), (2, 2))  # ranks, threads
N_RANKS = [2**power for power in range(13)]
BLOCK_SIZE = 512
BROADCAST = """
from proxml_mpi.ranks.measure import broadcast_speed
from proxml_mpi.ranks.world import World
with World() as world:
    speed = broadcast_speed(world.comm, 2.0)
    if world.is_first:
        print(speed)
"""


class Labels(NamedTuple):
    """What the labels of a model took."""

    seconds: NDArray[np.float64]
    costs: NDArray[np.float64]  # as expected before


class Machine(NamedTuple):
    """What a run sends, and how fast."""

    feature_bytes: float
    model_bytes: float
    broadcast_speed: float
    write_speed: float


class Point(NamedTuple):
    """A run on so many ranks: of the solve stage, the share of the ranks' time that is work; the time of all stages."""

    n_ranks: int
    alone: float
    helping: float
    one_queue: float
    seconds: float


def main() -> None:
    """Measure, compute, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="folder with SET/train.txt.xz")
    parser.add_argument("--set", default="eurlex-4.3k-d5000")
    parser.add_argument("--copies", type=int, default=10)
    parser.add_argument("--node-ranks", type=int, default=64)
    parser.add_argument("--broadcast-speed", type=float, help="bytes a second between nodes [measured here]")
    parser.add_argument("--write-speed", type=float, help="bytes a second [measured here]")
    options, training = parser.parse_known_args()
    options.training = training
    with tempfile.TemporaryDirectory() as folder:
        reports = [measure(options, Path(folder), *size) for size in MEASURED]
        model = Path(folder) / "model.h5"
        labels, n_weights = read_model(model, options.copies)
        dataset = Path(folder) / "data.h5"
        machine = Machine(
            dataset.stat().st_size,
            model.stat().st_size * options.copies,
            options.broadcast_speed or float(launch(2, sys.executable, "-c", BROADCAST)),
            options.write_speed or model.stat().st_size / reports[0]["seconds"]["store"],
        )
    points = [compute(labels, machine, n_ranks, options.node_ranks) for n_ranks in N_RANKS]
    write_results(options, reports, machine, labels, n_weights, points)


def measure(options: argparse.Namespace, folder: Path, n_ranks: int, n_threads: int) -> dict[str, dict[str, float]]:
    """Train once; return the report."""
    dataset, model, report = folder / "data.h5", folder / "model.h5", folder / "report.json"
    if not dataset.exists():
        launch(1, BIN / "proxml-data", "convert", options.data / options.set / "train.txt.xz", dataset)
    words = ["--threads", n_threads, "--report", report, "--overwrite", "--log-level", "warning", *options.training]
    launch(n_ranks, BIN / "proxml-train", dataset, model, *words)
    found: dict[str, dict[str, float]] = json.loads(report.read_text())
    print(f"{n_ranks} ranks x {n_threads} threads: {found['seconds']}", flush=True)
    return found


def launch(n_ranks: int, *command: object) -> str:
    """Run a command under mpirun; return what it printed."""
    allowed = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    mpirun = [BIN / "mpirun", "--oversubscribe", "--bind-to", "none", "-n", n_ranks]
    done = subprocess.run(list(map(str, (*mpirun, *command))), env=os.environ | allowed, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    return done.stdout


def read_model(path: Path, n_copies: int) -> tuple[Labels, int]:
    """Return what labels took, and the number of weights."""
    with h5py.File(path) as file:
        n_positives, seconds = file["labels/n_positives"][:].astype(np.int64), file["labels/seconds"][:]
        costs = expected_costs(n_positives, file["labels/lambda"][:].astype(np.float64))
        n_weights = int(file["weights/indptr"][-1])
    return Labels(np.tile(seconds.astype(np.float64), n_copies), np.tile(costs, n_copies)), n_weights


def compute(labels: Labels, machine: Machine, n_ranks: int, node_ranks: int) -> Point:
    """Compute one run."""
    bounds = partition(labels.costs, n_ranks)
    everything = np.arange(len(labels.costs))
    ranges = [everything[begin:end] for begin, end in itertools.pairwise(bounds)]
    alone = max(float(labels.seconds[part].sum()) for part in ranges)
    nodes = [ranges[first : first + node_ranks] for first in range(0, n_ranks, node_ranks)]
    helping = max(finish_time(labels, node) for node in nodes)
    queue = everything[np.argsort(-labels.costs, kind="stable")]
    total = float(labels.seconds.sum())
    best = drain(n_ranks, lambda _: None, labels.seconds[queue].tolist())
    steps = int(np.ceil(np.log2(len(nodes)))) if len(nodes) > 1 else 0
    sending = steps * machine.feature_bytes / machine.broadcast_speed
    seconds = sending + helping + machine.model_bytes / machine.write_speed
    alone, helping, best = (total / n_ranks / longest for longest in (alone, helping, best))
    return Point(n_ranks, alone, helping, best, seconds)


def finish_time(labels: Labels, node: list[NDArray[np.int64]]) -> float:
    """Return when the last rank of a node is done: its own blocks first, then those of others, as in ranks/claims."""
    blocks = [[float(labels.seconds[b].sum()) for b in cut_blocks(part, labels.costs, BLOCK_SIZE)] for part in node]
    taken = [0] * len(node)

    def next_block(rank: int) -> float | None:
        for step in range(len(node)):
            owner = (rank + step) % len(node)
            if taken[owner] < len(blocks[owner]):
                taken[owner] += 1
                return blocks[owner][taken[owner] - 1]
        return None

    return drain(len(node), next_block, [])


def drain(n_ranks: int, own: Callable[[int], float | None], queue: list[float]) -> float:
    """Let ranks take work whenever they are free, their own or the queue's; return when the last one is done."""
    free = [(0.0, rank) for rank in range(n_ranks)]
    left, last = iter(queue), 0.0
    while free:
        now, rank = heapq.heappop(free)
        work = own(rank)
        work = next(left, None) if work is None else work
        if work is None:
            last = max(last, now)
        else:
            heapq.heappush(free, (now + work, rank))
    return last


def write_results(
    options: argparse.Namespace,
    reports: list[dict[str, dict[str, float]]],
    machine: Machine,
    labels: Labels,
    n_weights: int,
    points: list[Point],
) -> None:
    """Write the tables, and draw."""
    one = reports[0]["seconds"]["solve"]
    total = float(labels.seconds.sum())
    words = shlex.join(["--set", options.set, "--copies", str(options.copies), *options.training])
    text = [
        "# Scaling",
        "",
        f"    python tools/bench/scaling.py ../shared/data {words}",
        "",
        f"## Measured here, {os.cpu_count()} cores: the solve stage",
        "",
        "| ranks | threads | times faster than one | efficiency |",
        "| ---: | ---: | ---: | ---: |",
    ]
    for (n_ranks, n_threads), report in zip(MEASURED, reports, strict=True):
        faster = one / report["seconds"]["solve"]
        n_cores = min(n_ranks * n_threads, os.cpu_count() or 1)
        text.append(f"| {n_ranks} | {n_threads} | {faster:.2f} | {100 * faster / n_cores:.0f} % |")
    text += [
        "",
        f"## Computed: {len(labels.seconds):,} labels, {total:,.0f} processor seconds, the longest "
        f"{labels.seconds.max():.2f} s; nodes of {options.node_ranks} ranks",
        "",
        f"Features {machine.feature_bytes / 1e6:,.1f} MB at {machine.broadcast_speed / 1e9:.2f} GB/s between nodes, "
        f"model {machine.model_bytes / 1e6:,.1f} MB ({n_weights * options.copies:,} weights) written at "
        f"{machine.write_speed / 1e6:.1f} MB/s. Efficiency: of the solve stage, and in the last columns of all stages.",
        "",
        "| ranks | ranges alone | helping in a node (ours) | one queue for all | all stages s | of all | core hours |",
        "| ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for point in points:
        shares = " | ".join(f"{100 * share:.1f} %" for share in point[1:4])
        whole = 100 * total / point.n_ranks / point.seconds
        hours = point.n_ranks * point.seconds / 3600
        text.append(f"| {point.n_ranks:,} | {shares} | {point.seconds:,.2f} | {whole:.1f} % | {hours:.3f} |")
    (RESULTS / "scaling.md").write_text("\n".join(text) + "\n", encoding="utf-8")
    print("\n".join(text))
    draw(points)


def draw(points: list[Point]) -> None:
    """Draw efficiency against ranks, where matplotlib is."""
    try:
        import matplotlib
    except ImportError:
        print("no plot: the extra plots is not installed", file=sys.stderr)
        return
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
    for name, label in (("one_queue", "one queue"), ("helping", "helping in a node"), ("alone", "ranges alone")):
        axes.plot([p.n_ranks for p in points], [100 * getattr(p, name) for p in points], marker="o", label=label)
    axes.set(xscale="log", xlabel="ranks", ylabel="efficiency of the solve stage, %", ylim=(0, 105))
    axes.legend()
    figure.savefig(RESULTS / "scaling.png", dpi=110)


if __name__ == "__main__":
    main()
