"""The data plane against others, side by side in one run: parsing, the dataset file, memory of two ranks.

    python tools/bench/data.py eurlex/train.txt --output tools/bench/results/data.md

Needs scikit-learn and, for the memory of two ranks, mpirun. Times are seconds of processor time, the best of some
rounds in which the contestants take turns, so that a noisy machine disturbs them alike; scikit-learn runs once.
"""

import argparse
import gc
import itertools
import os
import platform
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import h5py
import numpy as np
import psutil
from numba import njit

from proxml_mpi.data.dataset import Dataset
from proxml_mpi.data.files import read_content
from proxml_mpi.data.text import read_text
from proxml_mpi.solve.problem import make_problem
from proxml_mpi.store.dataset_file import read_dataset_file, read_dataset_header, write_dataset

ROUNDS = 5
PACKAGES = ("numpy", "scipy", "numba", "h5py", "mpi4py", "scikit-learn")


@njit(nogil=True)
def count_newlines(text):
    """Count the newlines of a text: the least that a reader must do."""
    n_newlines = 0
    for begin in range(0, len(text), 128):
        found = np.uint8(0)
        for byte in text[begin : begin + 128]:
            found = np.uint8(found + np.uint8(byte == 10))
        n_newlines += found
    return n_newlines


def take_turns(contestants: dict[str, Callable[[], object]], n_rounds: int) -> dict[str, float]:
    """Return the least processor time of each; the first round compiles and does not count."""
    best = dict.fromkeys(contestants, float("inf"))
    for number in range(n_rounds + 1):
        for name, contestant in contestants.items():
            began = time.process_time()
            result = contestant()
            seconds = time.process_time() - began
            del result
            if number > 0:
                best[name] = min(best[name], seconds)
    return best


def without_header(path: Path, folder: Path) -> Path:
    """Copy the text as scikit-learn wants it: no header."""
    target = folder / "train.svm"
    with path.open("rb") as source, target.open("wb") as copy:
        source.readline()
        while chunk := source.read(1 << 24):
            copy.write(chunk)
    return target


def check_alike(dataset: Dataset, features: object, labels: object) -> None:
    """Make sure that the contestants have read the same."""
    values, targets = features, list(itertools.chain(*labels))
    if len(targets) != len(dataset.labels.indices) or not np.array_equal(values.indices, dataset.features.indices):
        sys.exit("error: scikit-learn has read something else")


def time_parsing(path: Path, folder: Path) -> list[str]:
    """Compare parsers on one thread."""
    from sklearn.datasets import load_svmlight_file

    svm = without_header(path, folder)
    began = time.process_time()
    features, labels = load_svmlight_file(str(svm), multilabel=True, zero_based=True, dtype=np.float32)
    others = time.process_time() - began
    check_alike(read_text(path), features, labels)
    del features, labels
    seconds = take_turns(
        {"count": lambda: count_newlines(read_content(path)), "parse": lambda: read_text(path, 1)}, ROUNDS
    )
    ours, count = seconds["parse"], seconds["count"]
    size = path.stat().st_size / 1e6
    return [
        "| one thread | seconds | MB/s | parsing takes |",
        "| --- | ---: | ---: | --- |",
        f"| `load_svmlight_file(multilabel=True)` | {others:.2f} | {size / others:,.0f} | {ours / others:.3f} x this: "
        f"**{others / ours:.0f} times faster** |",
        f"| `read_text` (checked, ids sorted) | {ours:.3f} | {size / ours:,.0f} | |",
        f"| read the bytes, count newlines | {count:.3f} | {size / count:,.0f} | **{ours / count:.1f} x this** |",
    ]


def time_dataset_file(path: Path, folder: Path) -> list[str]:
    """Compare the dataset file with parsing."""
    target = folder / "train.h5"
    write_dataset(target, read_text(path, 1))
    seconds = take_turns(
        {
            "parse": lambda: read_text(path, 1),
            "ready": lambda: ready_from_text(path),
            "open": lambda: read_dataset_header(target),
            "read": lambda: read_arrays(target),
            "check": lambda: read_dataset_file(target),
        },
        ROUNDS,
    )
    parse, ready = seconds["parse"], seconds["ready"]
    names = {
        "parse": "parsing the text",
        "ready": "parsing, columns, labels by label, digest: what a dataset file holds",
        "open": "dataset file: opening (facts; every shape and type checked)",
        "read": "dataset file: reading all arrays, both ways",
        "check": "dataset file: reading and checking every number, both ways alike, digest",
    }
    lines = [
        "| one thread | seconds | parsing takes | parsing to the same state takes |",
        "| --- | ---: | ---: | ---: |",
    ]
    return lines + [
        f"| {names[name]} | {s:.4f} | {parse / s:,.1f} x this | {ready / s:,.1f} x this |"
        for name, s in seconds.items()
    ]


def ready_from_text(path: Path) -> object:
    """Make of text all that a dataset file holds."""
    dataset = read_text(path, 1)
    return make_problem(*dataset.features, dataset.n_features), dataset.positives, dataset.digest


def read_arrays(path: Path) -> object:
    """Read what is in a dataset file, believing it."""
    found: list[np.ndarray] = []
    with h5py.File(path) as file:
        file.visititems(lambda name, item: found.append(item[:]) if isinstance(item, h5py.Dataset) else None)
    return found


def measure_ranks(path: Path, folder: Path) -> list[str]:
    """Compare the memory of two ranks with and without sharing."""
    lines = ["| two ranks on one node | proportional set size, all ranks | of X |", "| --- | ---: | ---: |"]
    for mode in ("shared", "own"):
        command = ["mpirun", "--oversubscribe", "--bind-to", "none", "-n", "2", sys.executable, __file__]
        command += [str(folder / "train.h5"), "--rank-memory", mode]
        # Arrays that are gone must not be kept by the allocator, or they would be counted.
        environment = os.environ | {"MALLOC_MMAP_THRESHOLD_": "100000"}
        environment |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
        if done.returncode:
            sys.exit(done.stderr)
        grown, size = (float(word) for word in done.stdout.split())
        what = "`load`: a window that ranks share" if mode == "shared" else "every rank its own copy"
        lines.append(f"| {what} | {grown / 2**20:,.1f} MiB | {grown / size:.2f} x {size / 2**20:,.1f} MiB |")
    return lines


def report_rank_memory(path: Path, mode: str) -> None:
    """Print by how much the memory of all ranks grows with X, and the size of X; run under mpirun."""
    from proxml_mpi.loading import load
    from proxml_mpi.ranks.world import World
    from proxml_mpi.settings.train import TrainSettings

    def measure() -> int:
        gc.collect()
        world.barrier()
        return int(world.total(psutil.Process().memory_full_info().pss))

    def bring() -> tuple[object, ...]:
        if mode == "shared":
            loaded = load(TrainSettings(train=path, model=Path("unused"), normalize=False), world, 1)
            return (*loaded.problem, *loaded.positives)
        dataset = read_dataset_file(path)
        return (*make_problem(*dataset.features, dataset.n_features), *dataset.positives)

    with World() as world:
        # The first time fills caches and compiles; only what the second adds is counted.
        n_windows = len(world.windows)
        arrays = bring()
        del arrays
        world.free_windows(n_windows)
        before = measure()
        arrays = bring()
        size = sum(array.nbytes for array in arrays)
        touched = sum(float(array.sum()) for array in arrays)
        grown = measure() - before
        if world.is_first and np.isfinite(touched):
            print(grown, size)
        del arrays


def main() -> None:
    """Measure and print, and write when asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="XMC text, every instance with labels")
    parser.add_argument("--output", type=Path, help="write the tables to a file too")
    parser.add_argument("--rank-memory", choices=("shared", "own"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rank_memory:
        report_rank_memory(options.data, options.rank_memory)
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        parsing, dataset_file = time_parsing(options.data, folder), time_dataset_file(options.data, folder)
        ranks = measure_ranks(options.data, folder)
    versions = ", ".join(f"{package} {version(package)}" for package in PACKAGES)
    head = [
        "# The data plane, measured",
        "",
        f"`{shlex.join(['python', *sys.argv])}`, {options.data.stat().st_size / 1e6:,.1f} MB of text",
        "",
        f"Python {platform.python_version()}, {versions}; {os.cpu_count()} cores. Processor time, best of {ROUNDS}; "
        "scikit-learn, which takes seconds, once.",
    ]
    text = "\n".join([*head, "", *parsing, "", *dataset_file, "", *ranks, ""])
    print(text)
    if options.output:
        options.output.write_text(text)


if __name__ == "__main__":
    main()
