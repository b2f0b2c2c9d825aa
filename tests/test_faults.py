"""What goes wrong outside: full and read-only disks, two runs at once, kills and damages in a short campaign."""

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import CompletedProcess

import psutil
import pytest
from conftest import clean_environment, model_content, start_command
from test_journal import SLOW, wait_for_blocks

from proxml_mpi.cli import train

Run = Callable[..., CompletedProcess[str]]
TOOLS = Path(__file__).parents[1] / "tools"
FULL = "cannot be written: no space left on device"


@pytest.fixture(scope="module")
def whole(small_files: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The content of the model that nothing happened to."""
    path = tmp_path_factory.mktemp("whole") / "model.h5"
    assert train.main([str(small_files[0]), str(path), "--log-level", "error"]) == 0
    return model_content(path)


class Disk:
    """A disk in memory whose size and mode can be changed."""

    def __init__(self, folder: Path, size: str) -> None:
        self.folder = folder
        self._mount("-t", "tmpfs", "-o", f"size={size}", "tmpfs")

    def change(self, option: str) -> None:
        self._mount("-o", f"remount,{option}")

    def _mount(self, *words: str) -> None:
        done = subprocess.run(["mount", *words, self.folder], capture_output=True, text=True)
        if done.returncode != 0:
            pytest.skip(f"because a disk in memory cannot be mounted: {done.stderr.strip()}")


@pytest.fixture
def make_disk(tmp_path: Path) -> Iterator[Callable[[str], Disk]]:
    if os.geteuid() != 0:
        pytest.skip("because only root can mount a disk in memory")
    folder = tmp_path / "disk"
    folder.mkdir()
    yield lambda size: Disk(folder, size)
    subprocess.run(["umount", folder], capture_output=True)


def check_refused(done: CompletedProcess[str], message: str) -> None:
    assert done.returncode == 2, done.stderr
    assert message in done.stderr and done.stderr.count("error:") == 1 and "Traceback" not in done.stderr, done.stderr


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def test_a_disk_that_gets_full_under_the_journal(
    make_disk: Callable[[str], Disk], small_files: tuple[Path, Path], run: Run, tmp_path: Path
) -> None:
    disk = make_disk("10m")
    data, undisturbed = str(small_files[0]), tmp_path / "undisturbed.h5"
    assert train.main([data, str(undisturbed), *SLOW, "--log-level", "error"]) == 0
    command = ["proxml-train", data, tmp_path / "model.h5", *SLOW, "--scratch", disk.folder, "--block-size", 1]
    first = start_command(command)
    wait_for_blocks(disk.folder / "model.h5.journal", first)
    first.send_signal(signal.SIGTERM)
    _, said = first.communicate(timeout=60)
    assert first.returncode == 75, said
    before = names_in(disk.folder)
    usage = os.statvfs(disk.folder)
    disk.change(f"size={(usage.f_blocks - usage.f_bfree) * usage.f_frsize}")
    check_refused(run([*command, "--resume"], ranks=2, timeout=60), FULL)
    kept = names_in(disk.folder)
    assert set(before) <= set(kept) and not any(name.endswith(".partial") for name in kept)
    assert any(name.startswith("block-") for name in kept) and not (tmp_path / "model.h5").exists()
    disk.change("size=10m")
    done = run([*command, "--resume"], timeout=60)
    assert done.returncode == 0 and "solved again" not in done.stderr, done.stderr
    assert model_content(tmp_path / "model.h5") == model_content(undisturbed) and names_in(disk.folder) == []


def test_a_disk_that_is_too_small_for_the_model(
    make_disk: Callable[[str], Disk],
    small_files: tuple[Path, Path],
    whole: dict[str, bytes],
    run: Run,
    tmp_path: Path,
) -> None:
    disk = make_disk("16k")
    model = disk.folder / "model.h5"
    command = ["proxml-train", small_files[0], model, "--scratch", tmp_path]
    check_refused(run(command, ranks=2, timeout=60), f"model.h5: {FULL}")
    assert names_in(disk.folder) == [] and len(list(tmp_path.glob("model.h5.journal/block-*"))) >= 1
    disk.change("size=10m")
    done = run([*command, "--resume"], ranks=2, timeout=60)
    assert done.returncode == 0 and "40 labels found in the journal, 0 solved" in done.stderr, done.stderr
    assert model_content(model) == whole and names_in(disk.folder) == ["model.h5"]


def test_a_disk_that_turns_read_only(
    make_disk: Callable[[str], Disk],
    small_files: tuple[Path, Path],
    whole: dict[str, bytes],
    capfd: pytest.CaptureFixture[str],
) -> None:
    disk = make_disk("10m")
    command = [str(small_files[0]), str(disk.folder / "model.h5"), "--log-level", "error"]
    assert train.main([*command, "--time-limit", "0s"]) == 75
    before = names_in(disk.folder)
    disk.change("ro")
    capfd.readouterr()
    for options in ([], ["--resume"], ["--overwrite"]):
        assert train.main([*command, *options]) == 2
        err = capfd.readouterr().err
        assert "cannot be written to" in err and err.count("error:") == 1
    assert names_in(disk.folder) == before
    disk.change("rw")
    assert train.main([*command, "--resume"]) == 0
    assert model_content(disk.folder / "model.h5") == whole


@pytest.mark.parametrize(("limit", "what"), [(300, "run.json: "), (35000, "model.h5: ")])
def test_files_that_may_not_grow(
    limit: int, what: str, small_files: tuple[Path, Path], whole: dict[str, bytes], run: Run, tmp_path: Path
) -> None:
    """What a full disk does, without root's rights: no file may be larger than a limit."""
    command = ["proxml-train", small_files[0], tmp_path / "model.h5", "--resume", "--log-level", "warning"]
    done = subprocess.run(
        [str(word) for word in command],
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=60,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )
    check_refused(done, "cannot be written: file too large")
    assert what in done.stderr
    assert not (tmp_path / "model.h5").exists() and not list(tmp_path.rglob("*.partial"))
    assert run(command, timeout=60).returncode == 0
    assert model_content(tmp_path / "model.h5") == whole


def test_the_second_of_two_runs_is_refused(
    small_files: tuple[Path, Path], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    command = [str(small_files[0]), str(tmp_path / "model.h5"), *SLOW, "--block-size", "1"]
    first = start_command(["proxml-train", *command], ranks=2)
    try:
        wait_for_blocks(tmp_path / "model.h5.journal", first)
        family = psutil.Process(first.pid).children(recursive=True)
        for member in family:
            member.suspend()
        for options in ([], ["--resume"], ["--overwrite"]):
            assert train.main([*command, *options, "--log-level", "error"]) == 2
            err = capfd.readouterr().err
            assert err.count("error:") == 1 and "another run is writing this model: wait for it, or end it" in err
        for member in family:
            member.resume()
        _, err = first.communicate(timeout=120)
        assert first.returncode == 0, err
    finally:
        first.kill()
    assert [path.name for path in tmp_path.iterdir()] == ["model.h5"]


def test_a_run_killed_while_it_removed_its_journal_is_done(
    small_files: tuple[Path, Path], whole: dict[str, bytes], tmp_path: Path
) -> None:
    model = tmp_path / "model.h5"
    command = [str(small_files[0]), str(model), "--log-level", "error"]
    assert train.main(command) == 0
    before = model.stat().st_mtime_ns
    assert train.main([*command, "--overwrite", "--time-limit", "0s"]) == 75
    assert (tmp_path / "model.h5.journal").exists()
    assert train.main([*command, "--resume"]) == 0
    assert names_in(tmp_path) == ["model.h5"] and model.stat().st_mtime_ns == before
    # A model that was damaged meanwhile does not count as done, and without a journal there is nothing to go on with.
    content = bytearray(model.read_bytes())
    content[content.index(whole["weights/data"]) + 5] ^= 1
    model.write_bytes(content)
    assert train.main([*command, "--resume"]) == 2
    assert train.main([*command, "--overwrite"]) == 0 and model_content(model) == whole


def test_a_short_campaign_of_kills_and_damages(tmp_path: Path) -> None:
    command = [sys.executable, TOOLS / "faults.py", "--kills", "2", "--damages", "10", "--seed", "5"]
    done = subprocess.run(
        command, env=clean_environment(TMPDIR=str(tmp_path)), capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "| kills survived | 2 |" in done.stdout and "| bytes lost | 0 |" in done.stdout
    assert "| model file | 10 |" in done.stdout
