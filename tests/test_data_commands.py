"""proxml-data: convert, check, stats, split; what they print, what they refuse."""

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import numpy as np
import pytest
from conftest import write_every_format

from proxml_mpi.cli import data
from proxml_mpi.data import statistics
from proxml_mpi.data.dataset import Dataset
from proxml_mpi.data.synthetic import synthesize
from proxml_mpi.data.text import parse_text
from proxml_mpi.store.sources import read_dataset

Capture = pytest.CaptureFixture[str]
Run = Callable[..., CompletedProcess[str]]


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    return synthesize(80, 60, 15, seed=2, features_per_instance=9)


@pytest.fixture(scope="module")
def files(dataset: Dataset, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return write_every_format(dataset, tmp_path_factory.mktemp("data"))


@pytest.mark.parametrize("output", ["out.h5", "out.txt"])
@pytest.mark.parametrize("format", ["xmc", "npz", "hdf5", "libsvm0"])
def test_converted_data_are_the_same(
    format: str, output: str, dataset: Dataset, files: dict[str, Path], tmp_path: Path
) -> None:
    assert data.main(["convert", str(files[format]), str(tmp_path / output), "--format", format]) == 0
    assert read_dataset(tmp_path / output).digest == dataset.digest


def test_targets_are_checked_first(files: dict[str, Path], tmp_path: Path, capfd: Capture) -> None:
    (tmp_path / "old.h5").touch()
    names = {
        "old.h5": "old.h5: exists already",
        "new.npz": "file to write: found",
        "no/x.h5": "no does not exist",
    }
    for name, message in names.items():
        assert data.main(["convert", str(files["xmc"]), str(tmp_path / name)]) == 2
        assert message in capfd.readouterr().err
    with pytest.raises(SystemExit) as end:
        data.main(["convert", str(files["xmc"]), str(tmp_path / "x.txt"), "--label-names", "names"])
    assert end.value.code == 2 and "XMC text has no place for names" in capfd.readouterr().err
    assert data.main(["convert", str(files["xmc"]), str(tmp_path / "old.h5"), "--overwrite"]) == 0


BAD = "4 5 3\n0 9:1\nx 1:1\n1,1 2:1\n2 3:nan\n"


def test_check_reports_all_problems_up_to_a_limit(tmp_path: Path, capfd: Capture) -> None:
    (tmp_path / "bad.txt").write_text(BAD)
    assert data.main(["check", str(tmp_path / "bad.txt")]) == 2
    out, err = capfd.readouterr()
    assert [line.split(":")[1] for line in out.splitlines()] == ["2", "3", "4", "5"]
    assert err.count("error:") == 1 and "bad.txt: 4 problems found\n" in err
    assert data.main(["check", str(tmp_path / "bad.txt"), "--limit", "2"]) == 2
    out, err = capfd.readouterr()
    assert [line.split(":")[1] for line in out.splitlines()] == ["2", "3"]
    assert "2 problems found, and there are more (--limit 2)" in err
    (tmp_path / "bad.txt").write_text(BAD.replace("4 5 3", "9 5 3"))
    assert data.main(["check", str(tmp_path / "bad.txt")]) == 2
    assert "the file ends after 4 instances, the header promises 9" in capfd.readouterr().out
    assert data.main(["check", str(tmp_path / "nothing")]) == 2
    assert "nothing: cannot be read: no such file" in capfd.readouterr().out


def test_check_looks_into_both_files_of_a_pair(tmp_path: Path, capfd: Capture) -> None:
    (tmp_path / "X.txt").write_text("2 5\n9:1\n1:x\n")
    (tmp_path / "Y.txt").write_text("2 3\n0:2\n7:1\n")
    assert data.main(["check", str(tmp_path / "X.txt")]) == 2
    out = capfd.readouterr().out.splitlines()
    assert len(out) == 4 and sum("Y.txt" in line for line in out) == 2


@pytest.mark.parametrize("format", ["xmc", "npz", "hdf5", "libsvm", "two-file"])
def test_check_is_content_with_good_data(format: str, dataset: Dataset, files: dict[str, Path], capfd: Capture) -> None:
    assert data.main(["check", str(files[format])]) == 0
    assert f"no problems; 80 instances, 60 features, 15 labels, digest {dataset.digest}" in capfd.readouterr().out


def test_a_hand_made_example_of_the_statistics() -> None:
    facts = statistics.describe(parse_text(b"4 6 5\n0,1 0:1 1:1\n0 0:2\n0 0:1 5:1\n\n", "x"))
    expected = {
        "n_instances": 4,
        "positives_per_label": 4 / 5,
        "labels_per_instance": 1.0,
        "features_per_instance": 5 / 4,
        "labels_seen": 2,
        "labels_with_one_positive": 1,
        "tail_share_of_labels": 1.0,
        "features_seen": 3,
        "instances_without_labels": 1,
        "instances_without_features": 1,
        "labels_by_positives": {"0": 3, "1": 1, "2": 0, "3-4": 1},
        "features_by_instances": {"0": 3, "1": 2, "2": 0, "3-4": 1},
    }
    assert {name: facts[name] for name in expected} == expected


@pytest.mark.parametrize("counts", [[0], [1], [2], [0, 1, 2, 3, 4, 5, 8, 9, 1000]])
def test_histograms_count_everything_once(counts: list[int]) -> None:
    assert sum(statistics.histogram(np.array(counts)).values()) == len(counts)


def test_stats_for_people_and_programs(files: dict[str, Path], tmp_path: Path, capfd: Capture) -> None:
    assert data.main(["stats", str(files["hdf5"])]) == 0
    assert "positives per label" in capfd.readouterr().out
    assert data.main(["stats", str(files["hdf5"]), "--json"]) == 0
    facts = json.loads(capfd.readouterr().out)
    assert facts["n_labels"] == 15 and sum(facts["labels_by_positives"].values()) == 15
    pytest.importorskip("matplotlib", reason="because the extra plots is not installed")
    assert data.main(["stats", str(files["hdf5"]), "--plot", str(tmp_path / "law.png")]) == 0
    assert (tmp_path / "law.png").read_bytes().startswith(b"\x89PNG")
    assert data.main(["stats", str(files["hdf5"]), "--plot", str(tmp_path / "law.xyz")]) == 2
    assert "law.xyz: cannot be drawn" in capfd.readouterr().err


def test_a_reader_who_has_seen_enough_is_no_mistake(files: dict[str, Path], run: Run) -> None:
    done = run(["bash", "-c", f"set -o pipefail; proxml-data stats {files['xmc']} | true"])
    assert done.returncode == 0 and done.stderr == ""
    done = run(["bash", "-c", f"proxml-data stats <(cat {files['xmc']})"])
    assert done.returncode == 0 and "positives per label" in done.stdout


def test_plot_without_matplotlib(files: dict[str, Path], capfd: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.figure", None)
    assert data.main(["stats", str(files["hdf5"]), "--plot", "x.png"]) == 2
    assert "--plot needs the Python package matplotlib" in capfd.readouterr().err


def test_split_deals_every_instance_out_once(dataset: Dataset, files: dict[str, Path], tmp_path: Path) -> None:
    paths = [str(tmp_path / "train.h5"), str(tmp_path / "validation.txt")]
    assert data.main(["split", str(files["npz"]), *paths, "--fraction", "0.25", "--seed", "4"]) == 0
    train, validation = (read_dataset(Path(path)) for path in paths)
    assert (train.n_instances, validation.n_instances) == (60, 20)
    assert len(train.features.indices) + len(validation.features.indices) == len(dataset.features.indices)
    again = [str(tmp_path / "again.h5"), str(tmp_path / "other.h5")]
    assert data.main(["split", str(files["xmc"]), *again, "--fraction", "0.25", "--seed", "4"]) == 0
    assert [read_dataset(Path(path)).digest for path in again] == [train.digest, validation.digest]


def test_split_arguments(files: dict[str, Path], tmp_path: Path, capfd: Capture) -> None:
    both = [str(tmp_path / "a.h5"), str(tmp_path / "b.h5")]
    for options, message in (
        ([*both, "--fraction", "1"], "--fraction: found 1.0, expected a number between 0 and 1"),
        ([*both, "--seed", "-1"], "--seed: found -1, expected a whole number, at least 0"),
        ([both[0], both[0]], "VALIDATION: found"),
        ([*both, "--threads", "0"], "--threads: found 0"),
        ([*both, "--format", "csv"], "argument --format: invalid choice: 'csv'"),
    ):
        with pytest.raises(SystemExit) as end:
            data.main(["split", str(files["xmc"]), *options])
        assert end.value.code == 2 and message in capfd.readouterr().err
