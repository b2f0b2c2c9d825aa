"""Memory: limits are found wherever they are set, estimates are near the truth, what cannot fit is refused."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from conftest import write_every_format

from proxml_mpi.data.dataset import Dataset
from proxml_mpi.data.formats import find_source
from proxml_mpi.data.sizes import Size, estimate_size
from proxml_mpi.data.synthetic import synthesize
from proxml_mpi.errors import UserError
from proxml_mpi.ranks.memory import MEGA, check_memory, gibibytes, rooms, smallest_room, window_room
from proxml_mpi.ranks.world import World
from proxml_mpi.solve import newton
from proxml_mpi.solve.forward_backward import ForwardBackward
from proxml_mpi.solve.problem import make_problem
from proxml_mpi.solve.solvers import workspace_bytes

Run = Callable[..., CompletedProcess[str]]


def machine(root: Path, files: dict[str, str]) -> Path:
    """A machine's files about memory: 8 GiB are available unless a file says otherwise."""
    for name, content in ({"proc/meminfo": "MemTotal: 1 kB\nMemAvailable:  8388608 kB\n"} | files).items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)
    return root


V2 = {
    "proc/self/cgroup": "0::/slurm/job_7\n",
    "sys/fs/cgroup/slurm/job_7/memory.max": "max\n",
    "sys/fs/cgroup/slurm/job_7/memory.current": "5\n",
    "sys/fs/cgroup/slurm/memory.max": f"{100 * MEGA}\n",
    "sys/fs/cgroup/slurm/memory.current": f"{30 * MEGA}\n",
    "sys/fs/cgroup/slurm/memory.stat": f"anon 7\ninactive_file {10 * MEGA}\n",
}
V1 = {
    "proc/self/cgroup": "5:cpu,cpuacct:/a\n4:memory:/job\n",
    "sys/fs/cgroup/memory/job/memory.limit_in_bytes": f"{60 * MEGA}\n",
    "sys/fs/cgroup/memory/job/memory.usage_in_bytes": f"{20 * MEGA}\n",
    "sys/fs/cgroup/memory/memory.limit_in_bytes": f"{2**63 - 4096}\n",
    "sys/fs/cgroup/memory/memory.usage_in_bytes": "1\n",
}


@pytest.mark.parametrize(
    ("files", "environment", "megabytes", "limit"),
    [
        ({}, {}, 8192, "MemAvailable"),
        (V2, {}, 80, "sys/fs/cgroup/slurm"),
        (V1, {}, 40, "sys/fs/cgroup/memory/job"),
        ({}, {"SLURM_MEM_PER_NODE": "64"}, 60, "SLURM_MEM_PER_NODE=64"),
        ({}, {"SLURM_MEM_PER_CPU": "16", "SLURM_CPUS_ON_NODE": "2"}, 28, "SLURM_MEM_PER_CPU=16 x 2 CPUs"),
        ({}, {"SLURM_MEM_PER_NODE": "0"}, 8192, "MemAvailable"),  # SLURM's word for all of the node
        ({"proc/self/cgroup": "nonsense"}, {}, 8192, "MemAvailable"),
        ({"proc/meminfo": ""}, {}, 2**40, "no limit known"),
    ],
)
def test_limits_are_found(
    tmp_path: Path, files: dict[str, str], environment: dict[str, str], megabytes: int, limit: str
) -> None:
    room = smallest_room(rooms(environment, machine(tmp_path, files), used_bytes=4 * MEGA))
    assert room.n_bytes == megabytes * MEGA and limit in room.limit


def test_shared_memory_has_a_place_of_its_own(tmp_path: Path) -> None:
    assert window_room({"OMPI_MCA_osc_sm_backing_directory": str(tmp_path)}).n_bytes > 0
    assert window_room({"OMPI_MCA_osc_sm_backing_directory": str(tmp_path / "no")}).limit == "no limit known"


def test_what_cannot_fit_is_refused_with_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_MEM_PER_NODE", str(1 << 16))
    with World() as world:
        assert check_memory(world, {"features": 1 << 30}, {"workspaces": 1 << 20}, True) == (1 << 30) + (1 << 20)
        monkeypatch.setenv("SLURM_MEM_PER_NODE", "1")
        message = (
            r"a node needs 1\.00 GiB more \(features 1\.00 GiB, workspaces 1\.0 MiB\), but 0\.0 MiB is left by SLURM"
        )
        with pytest.raises(UserError, match=message):
            check_memory(world, {"features": 1 << 30}, {"workspaces": 1 << 20}, True)


@pytest.mark.parametrize("ranks", [None, 2])
def test_a_run_that_cannot_fit_ends_before_it_reads(
    ranks: int | None, small_files: tuple[Path, Path], run: Run, tmp_path: Path
) -> None:
    command = ["proxml-train", small_files[0], tmp_path / "model.h5"]
    done = run(command, ranks=ranks, SLURM_MEM_PER_NODE="2")
    assert done.returncode == 2 and list(tmp_path.iterdir()) == []
    assert done.stderr.count("error: not enough memory: a node needs about") == 1
    assert "is left by SLURM_MEM_PER_NODE=2" in done.stderr


@pytest.mark.parametrize("format", ["xmc", "two-file", "libsvm", "npz"])
def test_estimates_are_near_the_truth(format: str, tmp_path: Path) -> None:
    dataset = synthesize(3000, 500, 200, seed=0, features_per_instance=30)
    size = estimate_size(find_source(write_every_format(dataset, tmp_path)[format]))
    exact = exact_size(dataset)
    assert 0.9 < size.n_entries / exact.n_entries < 2.1
    assert 0.9 < size.n_pairs / exact.n_pairs < 2.1
    assert 0.9 < size.rows_bytes / exact.rows_bytes < 2.1


def test_the_peak_is_that_of_the_process_not_of_its_parent() -> None:
    much = b"1" * (400 * MEGA)  # here, where the child is started
    ask = "from proxml_mpi.progress import peak_memory_bytes; print(peak_memory_bytes())"
    peak = int(subprocess.run([sys.executable, "-c", ask], check=True, capture_output=True, text=True).stdout)
    assert len(much) == 400 * MEGA and 5 * MEGA < peak < 300 * MEGA


def exact_size(dataset: Dataset) -> Size:
    shape = (dataset.n_instances, dataset.n_features, dataset.n_labels)
    return Size(*shape, len(dataset.features.indices), len(dataset.labels.indices))


def test_sizes_are_those_of_the_arrays() -> None:
    dataset = synthesize(50, 40, 12, seed=0)
    size = exact_size(dataset)
    problem = make_problem(*dataset.features, dataset.n_features)
    assert size.rows_bytes + size.columns_bytes == sum(array.nbytes for array in problem)
    assert size.positives_bytes == sum(array.nbytes for array in dataset.positives)
    assert size.labels_bytes == sum(array.nbytes for array in dataset.labels)
    workspace = ForwardBackward(problem, 1e-3, 10, True).workspace()
    shape = (50, 40, size.n_entries)
    assert workspace_bytes("forward-backward", *shape) == sum(array.nbytes for array in workspace)
    *arrays, local = newton.workspace(newton.prepare(problem))
    assert workspace_bytes("newton", *shape) == sum(array.nbytes for array in [*arrays, *local])


def test_a_header_s_promise_is_not_believed_beyond_the_file(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("2147483647 5 4\n0 1:1\n")
    assert estimate_size(find_source(tmp_path / "x")).n_instances < 100
    assert gibibytes(3 << 30) == "3.00 GiB" and gibibytes(1 << 20) == "1.0 MiB"


@pytest.fixture
def limited_group() -> Iterator[Path]:
    """A real control group that leaves a process 400 MB of memory; where none can be made, the test is skipped."""
    first, second = Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")
    top, limit_file = (first, "memory.limit_in_bytes") if first.is_dir() else (second, "memory.max")
    group = top / f"proxml-test-{os.getpid()}"
    try:
        group.mkdir()
        (group / limit_file).write_text(str(400 * MEGA))
    except OSError as error:
        if group.is_dir():
            group.rmdir()
        pytest.skip(f"because a control group cannot be made: {error.strerror}")
    yield group
    group.rmdir()


def test_a_real_control_group_is_respected(limited_group: Path, run: Run, tmp_path: Path) -> None:
    path = tmp_path / "train.txt"
    line = b"0 " + b" ".join(b"%d:0.5" % feature for feature in range(1000)) + b"\n"
    n_lines = 60_000
    with path.open("wb") as stream:
        stream.write(b"%d 1000 1\n" % n_lines)
        for _ in range(60):
            stream.write(line * (n_lines // 60))
    enter = f'echo $$ > {limited_group}/cgroup.procs && exec proxml-train "$0" "$1"'
    done = run(["sh", "-c", enter, path, tmp_path / "model.h5"], timeout=60)
    assert done.returncode == 2
    assert "not enough memory" in done.stderr and f"left by the control group {limited_group}" in done.stderr
    assert not (tmp_path / "model.h5").exists()
