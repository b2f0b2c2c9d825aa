"""Nothing lost: the journal, resuming, stopping, and two runs that want the same model."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess, Popen

import h5py
import numpy as np
import pytest
from conftest import model_content, start_command
from pytest_mpi import parallel_assert

from proxml_mpi.cli.options import read_duration
from proxml_mpi.data.dataset import Dataset, Lists
from proxml_mpi.errors import FileError
from proxml_mpi.ranks.tally import Tally
from proxml_mpi.ranks.world import World
from proxml_mpi.solve.block import Block, assemble_block
from proxml_mpi.solve.problem import Outcome, Solution, unsolvable
from proxml_mpi.stopping import StopSignals
from proxml_mpi.store.journal import BlockError, Journal, journal_folder
from proxml_mpi.work import Work, cut_blocks, labels_left, read_finished

Run = Callable[..., CompletedProcess[str]]
IDENTITY = {"lambda": 0.1, "data_digest": "abc", "n_features": 5, "n_labels": 20}
# Some seconds on a fast machine: the journal is written twice a second.
SLOW = ("--solver", "forward-backward", "--tolerance", "1e-9", "--max-iterations", "8000", "--lambda", "0.05")
QUICK = ("--lambda", "0.05")


def make_block(first: int, n_labels: int) -> Block:
    generator = np.random.default_rng(first)
    solutions = [
        Solution(
            np.arange(label % 3, dtype=np.int32),
            generator.normal(size=label % 3).astype(np.float32),
            -1.5,
            label / 7,
            1e-5,
            label,
            Outcome.converged,
            0.25,
        )
        for label in range(first, first + n_labels)
    ]
    solutions[0] = unsolvable(Outcome.no_positives)
    return assemble_block(first, solutions, np.arange(n_labels), np.full(n_labels, 0.1))


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    journal = Journal(journal_folder(tmp_path / "model.h5", None), IDENTITY)
    journal.open(tmp_path / "model.h5", resume=False, overwrite=False)
    return journal


def test_blocks_come_back_as_they_were(journal: Journal) -> None:
    for block in (make_block(7, 4), make_block(0, 7)):
        journal.write(block)
    paths = journal.block_files()
    assert [path.name for path in paths] == ["block-000000000-000000007", "block-000000007-000000011"]
    for path, wanted in zip(paths, (make_block(0, 7), make_block(7, 4)), strict=True):
        found = journal.read(path)
        assert found.first_label == wanted.first_label
        for one, other in zip(found[1:], wanted[1:], strict=True):
            assert one.dtype == other.dtype and one.tobytes() == other.tobytes()
    journal.remove()
    assert not journal.folder.exists()


def test_every_flipped_bit_and_every_truncation_is_noticed(journal: Journal) -> None:
    journal.write(make_block(3, 5))
    [path] = journal.block_files()
    content = path.read_bytes()
    places = np.random.default_rng(0).integers(len(content) * 8, size=300)
    for place in places:
        damaged = bytearray(content)
        damaged[place // 8] ^= 1 << (place % 8)
        path.write_bytes(bytes(damaged))
        with pytest.raises(BlockError):
            journal.read(path)
    for size in (0, 1, 15, 16, 17, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:size])
        with pytest.raises(BlockError):
            journal.read(path)
    with pytest.raises(BlockError, match="cannot be read"):
        journal.read(path.with_name("block-none"))


def test_another_run_s_block_is_not_ours(journal: Journal, tmp_path: Path) -> None:
    other = Journal(tmp_path / "other", IDENTITY | {"lambda": 0.2})
    other.open(tmp_path / "model.h5", resume=False, overwrite=False)
    other.write(make_block(0, 3))
    with pytest.raises(BlockError, match="another run"):
        journal.read(other.block_files()[0])


def test_journals_are_guarded(journal: Journal, tmp_path: Path) -> None:
    model = tmp_path / "model.h5"
    journal.write(make_block(0, 3))
    again = Journal(journal.folder, IDENTITY)
    with pytest.raises(FileError, match="another run is writing"):
        again.open(model, resume=True, overwrite=False)
    journal.close()
    with pytest.raises(FileError, match=r"--resume goes on with it, --overwrite throws it away"):
        again.open(model, resume=False, overwrite=False)
    changed = Journal(journal.folder, IDENTITY | {"lambda": 0.2})
    with pytest.raises(FileError, match=r"cannot resume: lambda was 0\.1 in this run, and is 0\.2 now"):
        changed.open(model, resume=True, overwrite=False)
    changed.close()
    again.open(model, resume=True, overwrite=False)
    assert len(again.block_files()) == 1
    again.close()
    changed.open(model, resume=False, overwrite=True)
    assert changed.block_files() == []


def make_work(n_positives: np.ndarray) -> Work:
    indptr = np.concatenate([[0], np.cumsum(n_positives)])
    return Work(
        Lists(indptr, np.zeros(indptr[-1], np.int32)), n_positives, np.ones(len(n_positives)), 0, len(n_positives), 4
    )


def test_blocks_cover_labels_once_costliest_first() -> None:
    labels = np.array([0, 1, 2, 3, 4, 5, 6, 7, 8, 20, 21, 30])
    costs = np.ones(31)
    costs[21] = 500
    blocks = cut_blocks(labels, costs, block_size=4)
    assert sorted(np.concatenate(blocks).tolist()) == labels.tolist()
    assert 21 in blocks[0] and all(np.all(np.diff(block) == 1) and len(block) <= 4 for block in blocks)
    assert cut_blocks(labels[:0], costs, 4) == []
    assert len(cut_blocks(np.arange(1000), np.ones(1000), 1000)) >= 64


@pytest.mark.parallel([1, 2, 3])
def test_ranks_share_what_is_finished(tmp_path_factory: pytest.TempPathFactory) -> None:
    with World() as world:
        folder = Path(world.from_first(str(tmp_path_factory.mktemp("journal")) if world.is_first else None))
        journal = Journal(folder / "m.journal", IDENTITY)
        if world.is_first:
            journal.open(folder / "m.h5", resume=False, overwrite=False)
            for first in (0, 3, 9):
                journal.write(make_block(first, 3))
            damaged = journal.block_files()[1]
            damaged.write_bytes(damaged.read_bytes()[:-1] + b"?")
        world.barrier()
        blocks = read_finished(world, journal)
        left = labels_left(world, make_work(np.ones(14, np.int64)), blocks)
        parallel_assert(left.tolist() == [3, 4, 5, 6, 7, 8, 12, 13])
        parallel_assert(world.total(len(blocks)) == 2)
        parallel_assert(len(list(folder.glob("m.journal/block-*"))) == 2)


@pytest.mark.parallel([1, 2, 3])
@pytest.mark.parametrize("asker", ["first", "last", "all"])
def test_one_rank_s_wish_to_stop_reaches_all(asker: str) -> None:
    with World() as world:
        tally = Tally(world)
        if asker == "all" or world.rank == (0 if asker == "first" else world.size - 1):
            tally.stop_all()
        deadline = time.monotonic() + 20
        while not tally.is_stopping and time.monotonic() < deadline:
            tally.listen()
        heard = tally.is_stopping
        tally.leave()
        while world.is_first and not tally.all_left:
            tally.listen()
        tally.close()
        parallel_assert(heard)


def test_signals_and_clock_ask_for_a_stop() -> None:
    with StopSignals(None, time.monotonic()) as signals:
        assert not signals.wanted()
        os.kill(os.getpid(), signal.SIGUSR1)
        assert signals.wanted() and signals.reason == "SIGUSR1 was received"
    assert signal.getsignal(signal.SIGUSR1) == signal.SIG_DFL
    with StopSignals(5, time.monotonic() - 6) as signals:
        assert signals.wanted() and signals.reason == "the time limit is reached"


def test_durations() -> None:
    assert [read_duration(t) for t in ("3h", "90m", "30s", "1h30m", "45", "0.5h")] == [10800, 5400, 30, 5400, 45, 1800]
    for wrong in ("", "h", "3d", "1h 2m", "-3s", "3x", "1.2.3s"):
        with pytest.raises(ValueError):
            read_duration(wrong)


@pytest.fixture(scope="session")
def uninterrupted(small_files: tuple[Path, Path], run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("whole") / "model.h5"
    done = run(["proxml-train", small_files[0], path, *SLOW])
    assert done.returncode == 0, done.stderr
    return path


@pytest.fixture(scope="session")
def whole(small_files: tuple[Path, Path], run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("quick") / "model.h5"
    done = run(["proxml-train", small_files[0], path, *QUICK])
    assert done.returncode == 0, done.stderr
    return path


def wait_for_blocks(folder: Path, process: Popen[str]) -> None:
    """Wait for a run to write the first of its journal."""
    deadline = time.monotonic() + 120
    while not list(folder.glob("block-*")):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.01)


def test_a_time_limit_ends_with_75_and_resuming_gives_the_same_model(
    small_files: tuple[Path, Path], uninterrupted: Path, run: Run, tmp_path: Path
) -> None:
    command = ["proxml-train", small_files[0], tmp_path / "model.h5", *SLOW, "--block-size", "3"]
    done = run([*command, "--time-limit", "0s"], ranks=2)
    assert done.returncode == 75, done.stderr
    assert "stopped because the time limit is reached" in done.stderr and "--resume to go on" in done.stderr
    refused = run(command)
    assert refused.returncode == 2 and "--resume goes on with it" in refused.stderr
    done = run([*command, "--resume"], ranks=3)
    assert done.returncode == 0, done.stderr
    assert model_content(tmp_path / "model.h5") == model_content(uninterrupted)
    assert [path.name for path in tmp_path.iterdir()] == ["model.h5"]
    again = run([*command, "--resume"])
    assert again.returncode == 0 and "nothing to resume" in again.stderr
    other = run([*command, "--resume", "--no-bias"])
    assert other.returncode == 2 and "bias is True, expected False" in other.stderr


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGKILL])
def test_signals_and_kills_lose_nothing_that_was_finished(
    small_files: tuple[Path, Path], uninterrupted: Path, run: Run, tmp_path: Path, number: signal.Signals
) -> None:
    command = ["proxml-train", small_files[0], tmp_path / "model.h5", *SLOW, "--block-size", "1"]
    scratch = ["--scratch", tmp_path]
    process = start_command([*command, *scratch], ranks=2)
    wait_for_blocks(tmp_path / "model.h5.journal", process)
    if number == signal.SIGKILL:
        os.killpg(process.pid, number)
        process.wait(60)
    else:
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
        assert process.returncode == 75 and "SIGUSR1 was received" in err
    kept = {path.name for path in (tmp_path / "model.h5.journal").glob("block-*")}
    assert kept and not (tmp_path / "model.h5").exists()
    done = run([*command, *scratch, "--resume"], ranks=3)
    assert done.returncode == 0, done.stderr
    assert model_content(tmp_path / "model.h5") == model_content(uninterrupted)


def test_a_part_is_trained_and_the_rest_is_marked(
    small_files: tuple[Path, Path], whole: Path, run: Run, tmp_path: Path, small: tuple[Dataset, Dataset]
) -> None:
    path = tmp_path / "part.h5"
    command = ["proxml-train", small_files[0], path, *QUICK, "--first-label", "5", "--num-labels", "7"]
    done = run(command, ranks=2)
    assert done.returncode == 0, done.stderr
    with h5py.File(path) as part, h5py.File(whole) as complete:
        outcome = part["labels/outcome"][:]
        is_part = np.isin(np.arange(small[0].n_labels), range(5, 12))
        assert np.all(outcome[~is_part] == Outcome.not_trained) and np.all(part["bias"][:][~is_part] == -np.inf)
        assert np.array_equal(outcome[is_part], complete["labels/outcome"][:][is_part])
        first, end = complete["weights/indptr"][5], complete["weights/indptr"][12]
        assert np.array_equal(part["weights/data"][:], complete["weights/data"][first:end])
    wrong = run(["proxml-train", small_files[0], tmp_path / "x.h5", "--first-label", "41"])
    assert wrong.returncode == 2 and "--first-label: found 41, expected at most 40" in wrong.stderr


def test_parts_merge_into_the_whole(small_files: tuple[Path, Path], whole: Path, run: Run, tmp_path: Path) -> None:
    options = ["--first-label", "0", "--num-labels", "15"], ["--first-label", "15"], ["--first-label", "14"]
    parts = [tmp_path / f"part{i}.h5" for i in range(3)]
    for part, option in zip(parts, options, strict=True):
        assert run(["proxml-train", small_files[0], part, *QUICK, *option]).returncode == 0
    merged = tmp_path / "merged.h5"
    done = run(["proxml-inspect", merged, "--merge", parts[1], parts[0]])
    assert done.returncode == 0, done.stderr
    assert model_content(merged) == model_content(whole)
    with h5py.File(merged) as file:
        assert "num_labels" not in file.attrs and file.attrs["first_label"] == 0
    again = run(["proxml-inspect", merged, "--merge", *parts[:2]])
    assert again.returncode == 2 and "exists already" in again.stderr
    for chosen, message in (
        ([parts[0], parts[2]], "label 14 is trained in more than one part"),
        ([parts[0]], "labels 15 to 39 are trained in no part"),
        ([parts[1]], "labels 0 to 14 are trained in no part"),
    ):
        wrong = run(["proxml-inspect", tmp_path / "wrong.h5", "--merge", *chosen])
        assert wrong.returncode == 2 and message in wrong.stderr
    other = tmp_path / "other.h5"
    assert run(["proxml-train", small_files[0], other, "--first-label", "15", "--lambda", "0.1"]).returncode == 0
    wrong = run(["proxml-inspect", tmp_path / "wrong.h5", "--merge", parts[0], other])
    assert wrong.returncode == 2 and "other.h5: lambda is 0.1, expected 0.05 as in" in wrong.stderr
    assert not (tmp_path / "wrong.h5").exists()
