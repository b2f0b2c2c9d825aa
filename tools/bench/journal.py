"""What the journal costs: the same labels trained with and without it, in turns, in one process.

    python tools/bench/journal.py ../shared/data --set debian-depends --labels 4000 --repeats 5

Without it means that the journal's files are not written: nothing else of the run changes. Every run reads a dataset
file, solves, and writes its model into a folder on the disk at hand. The ratio of a pair is that of two runs one after
the other; which of the two comes first alternates. On a machine with other users these ratios swing by more than what
is to be measured, so the seconds and the processor time spent in writing blocks are also added up inside the runs, as
shares of the solve stage and of the run's processor time. The first is an upper bound: other threads solve meanwhile.
Writes journal.md into tools/bench/results.
"""

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from proxml_mpi.cli import train
from proxml_mpi.data.text import read_text
from proxml_mpi.solve.block import Block
from proxml_mpi.store.dataset_file import write_dataset
from proxml_mpi.store.journal import Journal

RESULTS = Path(__file__).parent / "results"
LIMIT_PERCENT = 3.0


class Cost(NamedTuple):
    """What one run took, in seconds, and what it journalled."""

    wall: float  # of the solve stage
    processor: float  # of the whole run, all threads
    writing: float
    writing_processor: float
    n_blocks: int


class Spy:
    """Stands in for Journal.write: times it, or leaves it out."""

    def __init__(self, writes: bool) -> None:
        self.writes, self.seconds, self.processor_seconds, self.n_blocks = writes, 0.0, 0.0, 0
        self._write = Journal.write

    def __enter__(self) -> "Spy":
        def write(journal: Journal, block: Block) -> None:
            began, processor_began = time.perf_counter(), time.thread_time()
            if self.writes:
                self._write(journal, block)
            self.seconds += time.perf_counter() - began
            self.processor_seconds += time.thread_time() - processor_began
            self.n_blocks += 1

        Journal.write = write  # type: ignore[method-assign]
        return self

    def __exit__(self, *error: object) -> None:
        Journal.write = self._write  # type: ignore[method-assign]


def main() -> None:
    """Run the bench."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="folder with SET/train.txt.xz")
    parser.add_argument("--set", default="debian-depends")
    parser.add_argument("--first-label", type=int, default=0)
    parser.add_argument("--labels", type=int, default=4000)
    parser.add_argument("--repeats", type=int, default=5, help="pairs of runs")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="proxml-journal-") as folder:
        data = Path(folder) / "train.h5"
        write_dataset(data, read_text(next(arguments.data.glob(f"{arguments.set}/train.txt*"))))
        part = ["--first-label", str(arguments.first_label), "--num-labels", str(arguments.labels)]
        run(Path(folder), part, writes=True)  # compiles, and fills the caches
        pairs = [pair(Path(folder), part, number) for number in range(arguments.repeats)]
    command = f"python tools/bench/journal.py DATA --set {arguments.set} --first-label {arguments.first_label}"
    text = report(f"{command} --labels {arguments.labels} --repeats {arguments.repeats}", pairs)
    (RESULTS / "journal.md").write_text(text)
    print(text)


def pair(folder: Path, part: list[str], number: int) -> tuple[Cost, Cost]:
    """Run with and without the journal, in alternating order; return them in this one."""
    if number % 2:
        without = run(folder, part, writes=False)
        return run(folder, part, writes=True), without
    return run(folder, part, writes=True), run(folder, part, writes=False)


def run(folder: Path, part: list[str], writes: bool) -> Cost:
    """Train once."""
    report_file = folder / "report.json"
    files = [str(folder / "train.h5"), str(folder / "model.h5"), "--report", str(report_file)]
    began = time.process_time()
    with Spy(writes) as spy:
        if train.main([*files, *part, "--overwrite", "--log-level", "warning"]) != 0:
            raise SystemExit("training failed")
    found: dict[str, Any] = json.loads(report_file.read_text())
    spent = spy.seconds, spy.processor_seconds
    return Cost(found["seconds"]["solve"], time.process_time() - began, *spent, spy.n_blocks)


def report(command: str, pairs: list[tuple[Cost, Cost]]) -> str:
    """Compare the runs of every pair, and say of each measure whether its median is below the limit."""
    measures = {
        "solve stage, with / without": [100 * (a.wall / b.wall - 1) for a, b in pairs],
        "processor time, with / without": [100 * (a.processor / b.processor - 1) for a, b in pairs],
        "writing, of the solve stage": [100 * a.writing / a.wall for a, _ in pairs],
        "writing, of processor time": [100 * a.writing_processor / a.processor for a, _ in pairs],
    }
    lines = ["# What the journal costs", "", f"    {command}", ""]
    lines.append(f"Blocks journalled by a run: {pairs[0][0].n_blocks}. Shares of time in per cent.")
    lines += [
        "",
        f"| measure | median | lowest | highest | median below {LIMIT_PERCENT:g} % |",
        "|---|---|---|---|---|",
    ]
    for name, values in measures.items():
        median = statistics.median(values)
        verdict = "yes" if median < LIMIT_PERCENT else "no"
        lines.append(f"| {name} | {median:+.2f} | {min(values):+.2f} | {max(values):+.2f} | {verdict} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
