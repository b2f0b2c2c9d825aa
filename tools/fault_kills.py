"""Training that is killed at random moments and resumed with another number of ranks: see faults.py."""

import hashlib
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import h5py
import psutil

BIN = Path(sys.executable).parent
TRAIN = ("--solver", "forward-backward", "--tolerance", "1e-9", "--max-iterations", "1500", "--block-size", "2")
LAUNCHER_PREFIXES = ("OMPI_COMM", "PMIX_", "PMI_", "PRTE_", "SLURM_")
CHECKSUM_BYTES = 16
SECONDS_AT_MOST = 120


class KillCampaign:
    """One data set, one true model, and many interrupted runs."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        self.folder, self.chance = folder, chance
        self.counts: Counter[str] = Counter()
        self.train = folder / "kills.txt"
        sizes = ("--instances", "900", "--features", "800", "--labels", "60")
        subprocess.run([BIN / "proxml-data", "synthesize", self.train, *sizes], check=True, capture_output=True)
        self.model = folder / "true.h5"
        began = time.monotonic()
        if self._start(1).wait(SECONDS_AT_MOST) != 0:
            raise RuntimeError((folder / "log").read_text())
        self.seconds = time.monotonic() - began
        self.truth = content(self.model)
        self._begin_a_model()

    def train_once(self) -> None:
        """Start a run, and kill it unless it is faster."""
        self.n_ranks = self.chance.choice([n for n in (1, 2, 3) if n != self.n_ranks])
        process = self._start(self.n_ranks)
        if self._runs_until_its_moment(process):
            self._kill(process)
            self._take_stock()
            if self.chance.random() < 0.5:
                self._damage_a_block()
        else:
            self._check(process.returncode)

    def finish(self) -> None:
        """Let the last model come through."""
        self._check(self._start(2).wait(SECONDS_AT_MOST))

    def _start(self, ranks: int) -> "subprocess.Popen[str]":
        environment = {k: v for k, v in os.environ.items() if not k.startswith(LAUNCHER_PREFIXES)}
        environment |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        # A killed mpirun leaves a folder there that would stop a later one of the same number.
        environment["TMPDIR"] = tempfile.mkdtemp(dir=self.folder)
        mpirun = [BIN / "mpirun", "--oversubscribe", "--bind-to", "none", "-n", str(ranks)]
        with (self.folder / "log").open("a") as log:
            return subprocess.Popen(
                [*mpirun, BIN / "proxml-train", self.train, self.model, *TRAIN, "--resume"],
                env=environment,
                stdout=subprocess.DEVNULL,
                stderr=log,
                text=True,
                start_new_session=True,
            )

    def _runs_until_its_moment(self, process: "subprocess.Popen[str]") -> bool:
        """Wait for a random time, or for the model to be on its way; tell whether the run still goes on."""
        if self.chance.random() < 0.7:
            deadline = time.monotonic() + self.chance.uniform(0.2, 0.8) * self.seconds
            while time.monotonic() < deadline and process.poll() is None:
                time.sleep(0.01)
            return process.poll() is None
        signs = self.model.with_name(f".{self.model.name}.partial"), self.model
        deadline = time.monotonic() + SECONDS_AT_MOST
        while time.monotonic() < deadline and process.poll() is None:
            if any(sign.exists() for sign in signs):
                time.sleep(self.chance.choice([0, 0.002, 0.005, 0.01, 0.02]))
                self.counts["killed while storing"] += process.poll() is None
                break
            time.sleep(0.0005)
        return process.poll() is None

    def _kill(self, process: "subprocess.Popen[str]") -> None:
        """Kill one rank, mpirun or all; then whatever would live on."""
        self.counts["kills survived"] += 1  # `_check` will tell
        family = psutil.Process(process.pid).children(recursive=True)
        ranks = [child for child in family if _is_rank(child)]
        how = self.chance.choice(["one rank killed", "mpirun killed", "all killed"])
        self.counts[how] += 1
        if how == "one rank killed" and ranks:
            end(self.chance.choice(ranks))
            process.wait(60)
        elif how == "mpirun killed":
            process.kill()
            time.sleep(self.chance.uniform(0, 1))
        for member in (*family, psutil.Process(process.pid) if process.poll() is None else None):
            if member is not None:
                end(member)
        process.wait(60)
        deadline = time.monotonic() + 10
        while any(map(is_alive, family)) and time.monotonic() < deadline:
            time.sleep(0.01)
        self.counts["processes left behind"] += sum(map(is_alive, family))

    def _take_stock(self) -> None:
        """See that every block that was finished before is still there, and that every block is whole."""
        if self.model.exists():
            return  # complete, or it would not have its name; its journal may be on its way out
        blocks = {path.name: path.read_bytes() for path in self._blocks()}
        # A run that was killed early has not come to those that were damaged on purpose.
        blocks = {name: block for name, block in blocks.items() if self.damaged.get(name) != block}
        for name, known in self.known.items():
            if blocks.get(name) != known:
                self.counts["bytes lost"] += len(known)
                print(f"{name} was lost or changed", file=sys.stderr)
        for block in blocks.values():
            body, checksum = block[:-CHECKSUM_BYTES], block[-CHECKSUM_BYTES:]
            if hashlib.blake2b(body, digest_size=CHECKSUM_BYTES).digest() != checksum:
                self.counts["bytes lost"] += len(block)
                print(f"a block of {len(block)} bytes is damaged", file=sys.stderr)
        self.known = blocks

    def _damage_a_block(self) -> None:
        """Flip a bit of a finished block, or cut it off."""
        if not (blocks := self._blocks()):
            return
        path = self.chance.choice(blocks)
        damaged = bytearray(path.read_bytes())
        if self.chance.random() < 0.5:
            damaged[self.chance.randrange(len(damaged))] ^= 1 << self.chance.randrange(8)
        else:
            del damaged[self.chance.randrange(len(damaged)) :]
        path.write_bytes(bytes(damaged))
        self.known.pop(path.name, None)
        self.damaged[path.name] = bytes(damaged)
        self.counts["blocks damaged in between"] += 1

    def _blocks(self) -> list[Path]:
        return sorted(self.model.with_name(f"{self.model.name}.journal").glob("block-*"))

    def _check(self, status: int) -> None:
        """Compare a finished model with the true one, and begin the next."""
        if status != 0:
            self.counts["runs failed"] += 1
            print((self.folder / "log").read_text()[-2000:], file=sys.stderr)
        elif content(self.model) == self.truth:
            self.counts["models finished"] += 1
        else:
            self.counts["models different"] += 1
        self._begin_a_model()

    def _begin_a_model(self) -> None:
        self.model = self.folder / f"model-{self.counts['models finished'] + self.counts['runs failed']}.h5"
        self.known: dict[str, bytes] = {}  # blocks that must not change any more
        self.damaged: dict[str, bytes] = {}
        self.n_ranks = 0


def _is_rank(process: psutil.Process) -> bool:
    try:
        return "proxml-train" in " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return False


def is_alive(process: psutil.Process) -> bool:
    """Return whether a process does anything; a dead one may be listed until somebody asks for its status."""
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def end(process: psutil.Process) -> None:
    """Kill a process, unless it is gone."""
    try:
        process.kill()
    except psutil.NoSuchProcess:
        return


def content(path: Path) -> dict[str, bytes]:
    """Return all datasets of an HDF5 file but the seconds, which no two runs share."""
    with h5py.File(path) as file:
        names: list[str] = []
        file.visit(names.append)
        arrays = {name: file[name][()] for name in names if isinstance(file[name], h5py.Dataset)}
    arrays.pop("labels/seconds", None)
    return {n: repr(a.tolist()).encode() if a.dtype == object else a.tobytes() for n, a in arrays.items()}
