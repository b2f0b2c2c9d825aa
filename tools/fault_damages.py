"""Files that are damaged in many places, each followed by their readers: see faults.py.

Readers run in child processes, many damages in each, because a crash of a library would take its process along:

    python tools/fault_damages.py TARGET FOLDER SEED FIRST END
"""

import contextlib
import io
import json
import logging
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fault_kills import LAUNCHER_PREFIXES, content

N_PER_PROCESS = 50
SECONDS_PER_DAMAGE = 60
MEMORY_BYTES = 12 << 30  # of addresses: a file that asks for more must be refused
QUIET = ("--log-level", "warning")
TRAIN = ("--weighting", "tfidf", "--threads", "1", *QUIET)


class Ran(NamedTuple):
    """What became of a command: its exit status, what it said, and what it wrote."""

    status: int
    said: str
    errors: str
    written: object = None

    @property
    def is_refusal(self) -> bool:
        return self.status == 2 and sum(line.startswith("proxml-") for line in self.errors.splitlines()) == 1


class Target(NamedTuple):
    """A kind of file: what to damage in the folder of everything, and who reads it."""

    description: str
    choose: Callable[[Path, random.Random], Path]
    read: Callable[[Path], list[Ran]]


def read_model(folder: Path) -> list[Ran]:
    """Inspect a model, and predict with it."""
    from proxml_mpi.cli import inspect, predict

    model, output = folder / "model.h5", folder / "predictions.h5"
    command = [model, folder / "test.txt", "--output", output, *QUIET]
    inspected, predicted = run(inspect.main, [model]), run(predict.main, command)
    lines = [line for line in inspected.said.splitlines() if not line.startswith("seconds per label")]
    if predicted.status == 0:
        predicted = predicted._replace(said="", written=content(output))
    return [inspected._replace(said="\n".join(lines)), predicted]


def read_data(folder: Path) -> list[Ran]:
    """Train on a dataset file, and check it."""
    from proxml_mpi.cli import data, train

    path, model = folder / "train.h5", folder / "trained.h5"
    trained = run(train.main, [path, model, *TRAIN, "--overwrite"])
    if trained.status == 0:
        trained = trained._replace(written=content(model))
    return [trained._replace(said=""), run(data.main, ["check", path])]


def resume(folder: Path) -> list[Ran]:
    """Resume a run whose journal holds every label."""
    from proxml_mpi.cli import train

    model = folder / "resumed.h5"
    ran = run(train.main, [folder / "train.txt", model, *TRAIN, "--resume"])
    return [ran._replace(written=content(model) if ran.status == 0 else None)]


def choose_journalled(folder: Path, chance: random.Random) -> Path:
    """Choose a block, or now and then the clear text beside the blocks."""
    journal = folder / "resumed.h5.journal"
    return chance.choice(sorted(journal.glob("block-*"))) if chance.random() < 0.9 else journal / "run.json"


TARGETS = {
    "journal": Target("journal", choose_journalled, resume),
    "model": Target("model file", lambda folder, _: folder / "model.h5", read_model),
    "index": Target("model file, compressed, with index", lambda folder, _: folder / "model.h5", read_model),
    "data": Target("dataset file", lambda folder, _: folder / "train.h5", read_data),
}


def damage_all(folder: Path, n_damages: int, seed: int) -> dict[str, Counter[str]]:
    """Damage every kind of file so many times; return how often what came of it."""
    counts = {}
    for name in TARGETS:
        (folder / name).mkdir()
        child("prepare", name, folder / name).check_returncode()
        counts[name] = damage_one_kind(name, folder / name, n_damages, seed)
    return counts


def damage_one_kind(name: str, folder: Path, n_damages: int, seed: int) -> Counter[str]:
    """Let child processes damage and read one kind of file; one that dies is followed by the next."""
    counts: Counter[str] = Counter()
    first = 0
    while first < n_damages:
        end = min(first + N_PER_PROCESS, n_damages)
        done = child(name, folder, seed, first, end)
        outcomes = [json.loads(line) for line in done.stdout.splitlines()]
        for number, (outcome, what) in enumerate(outcomes, first):
            counts[outcome] += 1
            if outcome == "wrong":
                print(f"{name} {number}: {what}", file=sys.stderr)
        first += len(outcomes)
        if done.returncode != 0:
            counts["crashed"] += 1
            print(f"{name} {first}: status {done.returncode}: {done.stderr[-2000:]}", file=sys.stderr)
            first += 1
    return counts


def child(*arguments: object) -> "subprocess.CompletedProcess[str]":
    """Run this file as a program."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(LAUNCHER_PREFIXES)}
    words = [sys.executable, str(Path(__file__)), *map(str, arguments)]
    return subprocess.run(words, env=environment, capture_output=True, text=True, timeout=3600)


def prepare(name: str, folder: Path) -> None:
    """Make the data, the model and the journal of one kind."""
    from proxml_mpi.cli import data, inspect, train

    shape = ["--instances", "160", "--features", "60", "--labels", "24"]
    require(run(data.main, ["synthesize", folder / "train.txt", *shape]))
    require(run(data.main, ["synthesize", folder / "test.txt", *shape, "--seed", "1"]))
    names = []
    for kind, count in (("label", 24), ("feature", 60)):
        path = folder / f"{kind}s.txt"
        path.write_text("".join(f"{kind} number {i}\n" for i in range(count)))
        names += [f"--{kind}-names", path]
    require(run(data.main, ["convert", folder / "train.txt", folder / "train.h5", *names]))
    require(run(train.main, [folder / "train.h5", folder / "model.h5", *TRAIN]))
    if name == "index":
        require(run(inspect.main, [folder / "model.h5", "--add-index", "--compress"]))
    if name == "journal":
        write_journal(folder)


def write_journal(folder: Path) -> None:
    """Make a journal that holds every label of the model in blocks of three."""
    from proxml_mpi.cli import train
    from proxml_mpi.store.journal import Journal
    from proxml_mpi.store.model_reader import read_header, read_labels

    run(train.main, [folder / "train.txt", folder / "resumed.h5", *TRAIN, "--time-limit", "0s"])
    path = folder / "resumed.h5.journal"
    identity = json.loads((path / "run.json").read_text())
    del identity["run"]
    journal = Journal(path, identity)
    for block in journal.block_files():
        block.unlink()
    header = read_header(folder / "model.h5")
    for first in range(0, header.n_labels, 3):
        journal.write(read_labels(header, first, first + 3))


def require(ran: Ran) -> None:
    """Stop unless a command did what it should."""
    if ran.status != 0:
        raise RuntimeError(ran.errors)


def run(main: Callable[[Sequence[str]], int], arguments: Sequence[object]) -> Ran:
    """Run a command in this process."""
    logging.getLogger("proxml").handlers.clear()
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main([str(word) for word in arguments])
    return Ran(status, out.getvalue(), err.getvalue())


def damage(whole: bytes, chance: random.Random) -> tuple[bytes, str]:
    """Flip bits, cut the end off, or overwrite a stretch; return what is left and what was done."""
    damaged, place = bytearray(whole), chance.randrange(len(whole))
    how = chance.choices(["flipped", "truncated", "zeroed", "overwritten"], [70, 15, 7, 8])[0]
    if how == "flipped":
        damaged[place] ^= 1 << chance.randrange(8)
    elif how == "truncated":
        del damaged[place:]
    else:
        end = min(len(whole), place + chance.choice([4, 64, 512]))
        damaged[place:end] = bytes(end - place) if how == "zeroed" else chance.randbytes(end - place)
    return bytes(damaged), f"{how} at {place} of {len(whole)}"


def judge(target: Target, folder: Path, truth: list[Ran]) -> Iterator[tuple[str, str]]:
    """Let the readers read; yield of each what came of it, and why."""
    try:
        found = target.read(folder)
    except BaseException as error:
        yield "wrong", f"{type(error).__name__}: {error}"
        return
    for ran, expected in zip(found, truth, strict=True):
        if ran.is_refusal:
            yield "refused", ran.errors
        elif ran.status == 0 and (ran.said, ran.written) == (expected.said, expected.written):
            yield "solved again" if "solved again" in ran.errors else "identical", ""
        else:
            yield "wrong", f"status {ran.status}, {ran.errors or 'another result'}"


def main(arguments: Sequence[str]) -> None:
    """Damage, read, judge; a line of JSON for every damage."""
    if arguments[0] == "prepare":
        prepare(arguments[1], Path(arguments[2]))
        return
    name, folder, seed, first, end = arguments
    target, whole, damaged = TARGETS[name], Path(folder), Path(f"{folder}-damaged")
    truth = fresh(whole, damaged) and target.read(damaged)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    for number in range(int(first), int(end)):
        signal.alarm(SECONDS_PER_DAMAGE)  # whoever hangs dies of it
        chance = random.Random(f"{seed} {name} {number}")
        path = target.choose(fresh(whole, damaged), chance)
        rest, what = damage(path.read_bytes(), chance)
        path.write_bytes(rest)
        outcomes = dict(judge(target, damaged, truth))
        worst = next(kind for kind in ("wrong", "refused", "solved again", "identical") if kind in outcomes)
        print(json.dumps([worst, f"{path.name} {what}: {outcomes[worst]}"]), flush=True)


def fresh(whole: Path, damaged: Path) -> Any:
    """Copy everything anew."""
    shutil.rmtree(damaged, ignore_errors=True)
    return shutil.copytree(whole, damaged)


if __name__ == "__main__":
    main(sys.argv[1:])
