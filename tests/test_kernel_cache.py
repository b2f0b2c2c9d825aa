"""Where kernels are kept, and that ranks of a node compile them once."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from proxml_mpi.data.dataset import Dataset
from proxml_mpi.kernel_cache import VARIABLE, choose_cache, file_system, is_shared, node_folder
from proxml_mpi.store.dataset_file import write_dataset

Run = Callable[..., CompletedProcess[str]]


@pytest.fixture
def mounts(tmp_path: Path) -> Path:
    """A machine whose home is on the network, a local disk below it, and a space in a name."""
    path = tmp_path / "mounts"
    path.write_text(
        "/dev/vda / ext4 rw 0 0\nserver:/home /home nfs4 rw 0 0\n/dev/vdb /home/local ext4 rw 0 0\n"
        "sshfs /mnt/my\\040files fuse.sshfs rw 0 0\n"
    )
    return path


def test_file_systems_are_told_apart(mounts: Path, tmp_path: Path) -> None:
    assert file_system(Path("/usr"), mounts) == "ext4" and file_system(Path("/home/me/x"), mounts) == "nfs4"
    assert is_shared(Path("/home/me"), mounts) and not is_shared(Path("/home/local/x"), mounts)
    assert is_shared(Path("/mnt/my files/x"), mounts)
    assert file_system(Path("/usr"), tmp_path / "none") == "unknown"


def test_a_node_s_own_folder_where_files_are_shared(mounts: Path, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    with mounts.open("a") as stream:
        stream.write(f"server:/x {shared} lustre rw 0 0\n")
    local = {"HOME": "/"}
    choose_cache(local, tmp_path, mounts, tmp_path)
    assert VARIABLE not in local
    choose_cache(local, shared, mounts, tmp_path)
    assert Path(local[VARIABLE]).parent == tmp_path
    chosen = {VARIABLE: "/mine"}
    choose_cache(chosen, shared, mounts)
    assert chosen == {VARIABLE: "/mine"}


def test_a_folder_that_others_may_write_to_is_not_used(tmp_path: Path) -> None:
    folder = node_folder(tmp_path)
    assert folder == node_folder(tmp_path) and folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o777)
    assert node_folder(tmp_path) != folder


def write_at(path: Path, seconds: float) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    os.utime(path, (seconds, seconds))
    return path


@pytest.mark.parametrize("has_folder", [False, True])
def test_kernels_older_than_a_source_of_their_room_are_forgotten_in_a_checkout(
    has_folder: bool, tmp_path: Path
) -> None:
    package, folder = tmp_path / "package", tmp_path / "cache"
    environment = {VARIABLE: str(folder)} if has_folder else {}
    stale, fresh = (
        write_at((folder / f"{room}_0123" if has_folder else package / room / "__pycache__") / "caller.nbi", 1000)
        for room in ("solve", "score")
    )
    write_at(package / "solve" / "caller.py", 900)
    write_at(package / "solve" / "called.py", 1100)
    write_at(package / "score" / "caller.py", 900)
    choose_cache(environment, package, tmp_path / "none")
    assert stale.exists() and fresh.exists()  # not a checkout
    (tmp_path / ".git").mkdir()
    choose_cache(environment, package, tmp_path / "none")
    assert not stale.exists() and fresh.exists()


def test_one_rank_of_a_node_compiles_and_the_others_load(
    run: Run, small: tuple[Dataset, Dataset], tmp_path: Path
) -> None:
    write_dataset(tmp_path / "train.h5", small[0])
    options = ["--solver", "forward-backward", "--max-iterations", "3", "--overwrite", "--weighting", "tfidf"]
    command = ["proxml-train", tmp_path / "train.h5", tmp_path / "model.h5", "--report", tmp_path / "r.json", *options]
    starts = []
    for _ in range(2):
        done = run(command, ranks=3, NUMBA_CACHE_DIR=str(tmp_path / "cache"))
        assert done.returncode == 0, done.stderr
        starts.append(json.loads((tmp_path / "r.json").read_text())["start"])
    cold, warm = starts
    assert cold["is_cold"] and cold["first_of_node_kernels_compiled"] > 0 and cold["others_kernels_compiled"] == 0
    assert not warm["is_cold"] and warm["first_of_node_kernels_compiled"] == 0
    assert cold["cache_folder"] == str(tmp_path / "cache")


def test_the_log_as_json_lines(run: Run, small_files: tuple[Path, Path], tmp_path: Path) -> None:
    command = ["proxml-train", small_files[0], tmp_path / "model.h5", "--lambda", "1", "--log-format", "json"]
    done = run([*command, "--log-file", tmp_path / "run.%r.log"], ranks=2)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in (tmp_path / "run.0.log").read_text().splitlines()]
    assert all((line["rank"], line["size"]) == (0, 2) and line["host"] and line["time"][10] == "T" for line in lines)
    assert any(line["message"].startswith("solve: ") and line["level"] == "INFO" for line in lines)
    assert {json.loads(line)["rank"] for line in (tmp_path / "run.1.log").read_text().splitlines()} == {1}
