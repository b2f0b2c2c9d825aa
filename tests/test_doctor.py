"""The doctor: every finding that asks for a change is provoked, and what is well is left alone."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess, Popen
from tempfile import mkdtemp

import pytest
from conftest import LAUNCHES
from pytest_mpi import parallel_assert

from proxml_mpi.doctor import files, memory, network
from proxml_mpi.doctor.files import examine_directory
from proxml_mpi.doctor.finding import Level, as_json, change, fine, n_changes, note, page
from proxml_mpi.doctor.launch import examine_launch, examine_leftovers
from proxml_mpi.doctor.memory import examine_data, examine_shared_memory
from proxml_mpi.doctor.network import examine_network
from proxml_mpi.doctor.threads import NodeCores, judge_threads, usable_cores
from proxml_mpi.ranks.memory import Room
from proxml_mpi.ranks.world import World
from proxml_mpi.settings.train import TrainSettings

Run = Callable[..., CompletedProcess[str]]


def examined(done: CompletedProcess[str]) -> dict[str, dict[str, str]]:
    """The findings of a JSON page by topic."""
    return {finding["topic"]: finding for finding in json.loads(done.stdout)["findings"]}


@pytest.mark.parametrize("ranks", [None, 2])
def test_all_is_well(ranks: int | None, run: Run, small_files: tuple[Path, Path], tmp_path: Path) -> None:
    options = ["--data", small_files[0], "--directory", tmp_path, "--seconds", "0.5"]
    empty = mkdtemp(dir=LAUNCHES.name)
    done = run(["proxml-doctor", *options, "--json", "--threads", "1"], ranks=ranks, TMPDIR=empty)
    findings = examined(done)
    expected = ["MPI", "launch", "nodes", "threads", "memory", "shared memory", "directory", "HDF5", "data", "disk"]
    assert list(findings) == [*expected, "kernels", "network"]
    # Two ranks of one thread are too many for a machine of one core, and rightly so.
    if len(os.sched_getaffinity(0)) > 1:
        assert done.returncode == 0 and json.loads(done.stdout)["all_is_well"], done.stdout
    assert "360 instances, 300 features, 40 labels" in findings["data"]["found"]
    assert not list(tmp_path.iterdir())


def test_silent_singletons_are_named_once(run: Run) -> None:
    broken = {"SLURM_STEP_NUM_TASKS": "4", "SLURM_NTASKS": "4"}
    first = run(["proxml-doctor"], **broken, SLURM_PROCID="0")
    assert first.returncode == 2 and "proxml-doctor: error: 1 to change" in first.stderr
    words = " ".join(first.stdout.split())
    assert "change launch the launcher started 4 processes" in words and "use 'srun --mpi=pmix' (Open MPI)" in words
    second = run(["proxml-doctor"], **broken, SLURM_PROCID="1")
    assert second.returncode == 2 and not second.stdout + second.stderr


def test_no_mpi_library_is_one_message(run: Run, tmp_path: Path) -> None:
    # A broken mpi4py, found before the one that is installed.
    (tmp_path / "mpi4py").mkdir()
    (tmp_path / "mpi4py" / "__init__.py").write_text("raise ImportError('libmpi.so.40: cannot open')")
    for command in ("proxml-doctor", "proxml-train x y", "proxml-predict x y"):
        done = run(command.split(), PYTHONPATH=str(tmp_path))
        assert done.returncode == 2 and done.stderr.count("error: mpi4py finds no MPI library (libmpi.so.40") == 1
        assert "Traceback" not in done.stderr


def test_folders_of_killed_mpiruns_are_named(tmp_path: Path) -> None:
    gone = Popen(["true"])
    gone.wait()
    for name in (f"ompi.{os.getpid()}", "ompi.words", "other.1"):
        (tmp_path / name).mkdir()
    assert examine_leftovers(World(), tmp_path) == []
    (tmp_path / f"ompi.{gone.pid}").mkdir()
    (finding,) = examine_leftovers(World(), tmp_path)
    assert (
        finding.level == Level.NOTE and f"1 folders of killed mpiruns, as {tmp_path}/ompi.{gone.pid}" in finding.found
    )


def test_ranks_against_the_scheduler() -> None:
    assert examine_launch(1, {}).level == Level.OK
    assert "SLURM_STEP_NUM_TASKS=4" in examine_launch(4, {"SLURM_STEP_NUM_TASKS": "4"}).found
    assert examine_launch(1, {"SLURM_NTASKS": "8"}).level == Level.NOTE
    assert examine_launch(1, {"PMI_SIZE": "8"}).level == Level.CHANGE


ALL = set(range(8))


@pytest.mark.parametrize(
    ("affinities", "n_threads", "n_cores", "words"),
    [
        ([ALL], [8], 8, ""),
        ([{0, 1}, {2, 3}], [2, 2], 4, ""),
        ([{0}, {1}], [1, 1], 2, ""),
        ([{0}, {1}], [1, 1], 8, "each rank is bound to one core, and 6 cores are idle"),
        ([ALL, ALL], [8, 8], 8, "oversubscribed"),
        ([{0}, {0}], [1, 1], 8, "oversubscribed"),
        ([{0}, {1, 2, 3}], [2, 1], 4, "2 threads are bound to 1 cores"),
    ],
)
def test_binding(affinities: list[set[int]], n_threads: list[int], n_cores: int, words: str) -> None:
    finding = judge_threads(NodeCores(affinities, n_threads, n_cores), world_size=2)
    assert (finding.level == Level.CHANGE) == bool(words) and words in finding.found
    assert bool(finding.advice) == bool(words)


def test_usable_cores_are_those_that_slurm_grants() -> None:
    assert usable_cores(1, {}) == len(os.sched_getaffinity(0))
    assert usable_cores(1, {"SLURM_CPUS_ON_NODE": "1"}) == 1


@pytest.mark.parallel([1, 2, 3])
def test_directory_that_works_and_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with World() as world:
        folder = Path(world.from_first(str(tmp_path)))
        found = examine_directory(world, folder)
        parallel_assert(n_changes(found) == 0 and [f.topic for f in found] == ["directory", "HDF5"])
        world.barrier()
        parallel_assert(not list(folder.iterdir()))
        found = examine_directory(world, folder / "nowhere")
        parallel_assert(n_changes(found) == 1 and "no such file" in found[0].found)
        monkeypatch.setattr(files, "_try_lock", lambda trial: "function not implemented")
        found = examine_directory(world, folder)
        parallel_assert(found[0].level == Level.CHANGE and "--scratch" in found[0].advice)


@pytest.mark.parallel([2, 3])
def test_directory_that_one_node_does_not_see(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with World() as world:
        monkeypatch.setattr(files, "_appears", lambda trial: world.rank == 0)
        found = examine_directory(world, Path(world.from_first(str(tmp_path))))
        parallel_assert(f"{world.size - 1} of {world.size} ranks do not see a file" in found[0].found)
        world.barrier()
        parallel_assert(not list(Path(world.from_first(str(tmp_path))).iterdir()))


@pytest.mark.parallel([2, 3])
def test_network_and_shared_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    with World() as world:
        found = examine_network(world, 0.2)
        parallel_assert("GB/s between rank 0 and rank" in found.found)
        monkeypatch.setattr(network, "SLOW_BYTES", 1e15)
        parallel_assert(examine_network(world, 0.2).level == Level.NOTE)
        parallel_assert(examine_shared_memory(world).level == Level.OK)
        monkeypatch.setattr(memory, "window_room", lambda environment: Room(64 << 20, "/dev/shm"))
        parallel_assert("--shm-size" in examine_shared_memory(world).advice)


def test_data_that_does_not_fit(
    small_files: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = TrainSettings(train=small_files[0], model=tmp_path / "model.h5")
    with World() as world:
        assert n_changes(examine_data(world, settings, 1)) == 0
        monkeypatch.setenv("SLURM_MEM_PER_NODE", "1")
        found = examine_data(world, settings, 1)
        assert found[0].level == Level.CHANGE and "SLURM_MEM_PER_NODE=1" in found[0].found
        missing = TrainSettings(train=tmp_path / "no.txt", model=tmp_path / "model.h5")
        assert "no such file" in examine_data(world, missing, 1)[0].found


def test_page_and_json() -> None:
    findings = [fine("MPI", "here"), note("HDF5", "serial", "get parallel"), change("threads", "x " * 90, "fewer")]
    text = page(findings)
    assert text.endswith("1 to change, 1 to know") and max(map(len, text.splitlines())) <= 110
    assert json.loads(as_json(findings))["all_is_well"] is False
