"""What users get wrong: one clear message, exit status 2, nothing half written. And defects: no rank waits for ever."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import h5py
import pytest

from proxml_mpi.cli import data, inspect, predict, train

Run = Callable[..., CompletedProcess[str]]
GOOD = "3 4 2\n0 0:1 2:2\n1 1:1\n0,1 3:1\n"

FILES = {
    "empty": ("", "the file is empty"),
    "header": ("3 4 2 1\n", "train.txt:1: found '3 4 2 1', expected a header 'N D L' (XMC text), a header 'N D'"),
    "half a pair": ("3 4\n", "train.txt: is one half of a data set (two-file): give both as FEATURES,LABELS"),
    "no header": (GOOD.partition("\n")[2], "train.txt:1: label id '0' is out of range, libsvm ids count from 1"),
    "header words": ("three 4 2\n", "train.txt:1: header: 'three' is not a whole number"),
    "no instances": ("0 4 2\n", "train.txt:1: header: found '0', expected at least 1 instance"),
    "negative header": ("3 -4 2\n", "train.txt:1: header: '-4' is negative"),
    "huge header": ("3 99999999999 2\n", "train.txt:1: header: '99999999999' is too large"),
    "label": (GOOD.replace("\n1 ", "\n2 "), "train.txt:3: label id '2' is out of range, the header allows 0 to 1"),
    "negative label": (GOOD.replace("\n1 ", "\n-1 "), "train.txt:3: label id '-1' is negative"),
    "label word": (GOOD.replace("0,1", "0,x"), "train.txt:4: label id 'x' is not a whole number"),
    "repeated label": (GOOD.replace("0,1", "1,1"), "train.txt:4: label 1 is repeated in one instance"),
    "feature": (GOOD.replace("2:2", "4:2"), "train.txt:2: feature id '4' is out of range, the header allows 0 to 3"),
    "repeated feature": (GOOD.replace("2:2", "0:2"), "train.txt:2: feature 0 is repeated in one instance"),
    "value": (GOOD.replace("2:2", "2:two"), "train.txt:2: value 'two' in '2:two' is not a number"),
    "nan": (GOOD.replace("2:2", "2:nan"), "train.txt:2: value 'nan' in '2:nan' is not finite"),
    "infinity": (GOOD.replace("2:2", "2:inf"), "train.txt:2: value 'inf' in '2:inf' is not finite"),
    "overflow": (GOOD.replace("2:2", "2:1e60"), "train.txt:2: value '1e60' in '2:1e60' is too large"),
    "no colon": (GOOD.replace("2:2", "22"), "train.txt:2: found '22', expected feature:value"),
    "two colons": (GOOD.replace("2:2", "2:2:2"), "train.txt:2: value '2:2' in '2:2:2' is not a number"),
    "no value": (GOOD.replace("2:2", "2:"), "train.txt:2: the value is empty in '2:'"),
    "too few lines": (
        GOOD.replace("0,1 3:1\n", ""),
        "train.txt:3: the file ends after 2 instances, the header promises 3",
    ),
    "too many lines": (GOOD + "0 1:1\n", "train.txt:5: found 4 instances, the header promises 3"),
    "noise": (GOOD.replace("2:2", "2:\0"), "train.txt:2: value '\\x00' in"),
    "truncated": (GOOD[: GOOD.rindex(":") + 1], "train.txt:4: the value is empty in '3:'"),
}


def check(capfd: pytest.CaptureFixture[str], status: int, message: str) -> None:
    err = capfd.readouterr().err
    assert status == 2 and message in err, err
    assert "Traceback" not in err and err.count("error:") == 1, err


@pytest.mark.parametrize("kind", FILES)
def test_malformed_data(kind: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    content, message = FILES[kind]
    (tmp_path / "train.txt").write_text(content)
    status = train.main([str(tmp_path / "train.txt"), str(tmp_path / "model.h5"), "--log-level", "error"])
    check(capfd, status, message)
    assert [path.name for path in tmp_path.iterdir()] == ["train.txt"]


TRAIN_ARGUMENTS = {
    "lambda": ("--lambda 0", "--lambda: found 0.0, expected a finite number above 0"),
    "lambda nan": ("--lambda nan", "--lambda: found nan, expected a finite number above 0"),
    "lambda word": ("--lambda much", "argument --lambda: found 'much', expected a number"),
    "exponent": ("--lambda-exponent inf", "--lambda-exponent: found inf, expected a finite number"),
    "tolerance": ("--tolerance -1", "--tolerance: found -1.0, expected a finite number above 0"),
    "iterations": ("--max-iterations 0", "--max-iterations: found 0, expected a whole number, at least 1"),
    "iterations word": ("--max-iterations 1.5", "argument --max-iterations: found '1.5', expected a whole number"),
    "threads": ("--threads 0", "--threads: found 0, expected a whole number, at least 1"),
    "solver": ("--solver magic", "argument --solver: invalid choice: 'magic'"),
    "weighting": ("--weighting bm25", "argument --weighting: invalid choice: 'bm25'"),
    "unknown": ("--lamda 1", "unrecognized arguments: --lamda 1"),
    "abbreviated": ("--thr 1", "unrecognized arguments: --thr 1"),
    "first label": ("--first-label -1", "--first-label: found -1, expected a whole number, at least 0"),
    "no labels": ("--num-labels 0", "--num-labels: found 0, expected a whole number, at least 1"),
    "block size": ("--block-size 0", "--block-size: found 0, expected a whole number, at least 1"),
    "time": ("--time-limit soon", "argument --time-limit: found 'soon', expected a time such as 3h, 90m or 30s"),
    "both": ("--resume --overwrite", "--overwrite: found '--resume', expected one of the two"),
    "scratch": ("--scratch nowhere", "directory nowhere does not exist"),
    "report": ("--report nowhere/r.json", "directory nowhere does not exist"),
    "log file": ("--log-file nowhere/log", "--log-file: nowhere/log cannot be written"),
}


@pytest.mark.parametrize("kind", TRAIN_ARGUMENTS)
def test_training_arguments(kind: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    options, message = TRAIN_ARGUMENTS[kind]
    (tmp_path / "train.txt").write_text(GOOD)
    arguments = [str(tmp_path / "train.txt"), str(tmp_path / "model.h5"), "--log-level", "error", *options.split()]
    check(capfd, status_of(train.main, arguments), message)
    assert [path.name for path in tmp_path.iterdir()] == ["train.txt"]


def status_of(main: Callable[[list[str]], int], arguments: list[str]) -> int:
    try:
        return main(arguments)
    except SystemExit as end:
        return int(end.code or 0)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with data and a model of two labels."""
    folder = tmp_path_factory.mktemp("tiny")
    (folder / "train.txt").write_text(GOOD)
    assert train.main([str(folder / "train.txt"), str(folder / "model.h5"), "--log-level", "error"]) == 0
    return folder


PREDICT_ARGUMENTS = {
    "k": ("--k 7", "--k: found 7, expected numbers up to --top-k 5"),
    "k zero": ("--k 0", "--k: found 0, expected a whole number, at least 1"),
    "k words": ("--k 1,many", "argument --k: found '1,many', expected whole numbers, as 1,3,5"),
    "top k": ("--top-k 0", "--top-k: found 0, expected a whole number, at least 1"),
    "half": ("--propensity-a 1", "--propensity-a: found 1.0, expected to be given together with --propensity-b"),
    "twice": ("--propensity other --propensity-a 1 --propensity-b 1", "--propensity: found 'other', expected either"),
    "negative": ("--propensity-a -1 --propensity-b 1", "--propensity-a: found -1.0, expected a number above 0"),
    "metrics": ("--metrics m.xml", "--metrics: found 'm.xml', expected a name that ends in .json or .csv"),
    "folder": ("--output nowhere/p.txt", "directory nowhere does not exist"),
    "output": ("--output p.csv", "--output: found 'p.csv', expected a name that ends in .txt, .npz or .h5"),
    "bootstrap": ("--bootstrap -1", "--bootstrap: found -1, expected a whole number, at least 0"),
    "damping": ("--damping -1", "--damping: found -1.0, expected a finite number, at least 0"),
    "damping nan": ("--damping nan", "--damping: found nan, expected a finite number, at least 0"),
    "damping inf": ("--damping inf", "--damping: found inf, expected a finite number, at least 0"),
    "damping word": ("--damping much", "argument --damping: found 'much', expected a number"),
    "rounds": ("--instances-per-round 0", "--instances-per-round: found 0, expected a whole number, at least 1"),
}


@pytest.mark.parametrize("kind", PREDICT_ARGUMENTS)
def test_prediction_arguments(kind: str, tiny: Path, capfd: pytest.CaptureFixture[str]) -> None:
    options, message = PREDICT_ARGUMENTS[kind]
    arguments = [str(tiny / "model.h5"), str(tiny / "train.txt"), "--log-level", "error", *options.split()]
    check(capfd, status_of(predict.main, arguments), message)


def test_files_that_do_not_fit(tiny: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    model, text = tiny / "model.h5", tmp_path / "test.txt"
    quiet = ["--log-level", "error"]
    check(capfd, train.main([str(tiny / "train.txt"), str(model), *quiet]), "model.h5: exists already")
    check(
        capfd, train.main([str(tmp_path / "no.txt"), str(tmp_path / "m.h5"), *quiet]), "no.txt: cannot be read: no such"
    )
    check(capfd, train.main([str(tmp_path), str(tmp_path / "m.h5"), *quiet]), "it is a directory")
    check(capfd, train.main([str(tiny / "train.txt"), str(tmp_path), *quiet]), "is a directory, expected the name")
    text.write_text("1 5 2\n0 4:1\n")
    check(capfd, predict.main([str(model), str(text), *quiet]), "test.txt:1: found 5 features, expected 4 as in")
    text.write_text("1 4 3\n0 3:1\n")
    check(capfd, predict.main([str(model), str(text), *quiet]), "test.txt:1: found 3 labels, expected 2 as in")
    check(capfd, predict.main([str(tmp_path / "no.h5"), str(text), *quiet]), "no.h5: does not exist")
    check(capfd, predict.main([str(text), str(text), *quiet]), "test.txt: cannot be read as an HDF5 model file")
    check(capfd, inspect.main([str(text)]), "cannot be read as an HDF5 model file")
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["x"] = 1
    check(capfd, inspect.main([str(tmp_path / "other.h5")]), "attribute format: found None, expected proxml-model")
    weighted = tmp_path / "weighted.txt"
    weighted.write_text(GOOD.replace("2:2", "2:0.5"))
    arguments = [str(weighted), str(tmp_path / "m.h5"), "--weighting", "tfidf", *quiet]
    check(capfd, train.main(arguments), "instance 0, feature 2: found the value 0.5, expected counts")
    check(capfd, data.main(["synthesize", str(tmp_path / "nowhere" / "x.txt")]), "cannot be written")
    check(capfd, data.main(["synthesize", str(tmp_path / "x.txt"), "--labels", "0"]), "number of labels: found 0")
    train_at = [str(tmp_path / "m.h5"), *quiet]
    check(capfd, train.main([str(model), *train_at]), "attribute format: found proxml-model, expected proxml-dataset")
    check(capfd, train.main([str(tiny / "train.txt"), *train_at, "--format", "npz"]), "train.txt: is one half of a")
    check(
        capfd, train.main([str(tiny / "train.txt"), *train_at, "--format", "hdf5"]), "cannot be read as an HDF5 dataset"
    )
    check(capfd, train.main(["no_X_Xf.txt", *train_at]), "no_X_Xf.txt: cannot be read: no such file")
    (tmp_path / "names").write_text("one\ntwo\nthree\n")
    names = ["--label-names", str(tmp_path / "names")]
    check(
        capfd, train.main([str(tiny / "train.txt"), *train_at, *names]), "names: found 3 names, one a line, expected 2"
    )
    assert not (tmp_path / "m.h5").exists()
    assert inspect.main([str(model)]) == 0
    assert "/weights/indptr" in capfd.readouterr().out


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_one_message_whatever_the_ranks(ranks: int, run: Run, tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text(FILES["label"][0])
    done = run(["proxml-train", tmp_path / "train.txt", tmp_path / "model.h5"], ranks=ranks, timeout=60)
    assert done.returncode == 2
    assert done.stderr.count("train.txt:3: label id '2'") == 1 and "Traceback" not in done.stderr
    done = run(["proxml-train", "--lambda", "0"], ranks=ranks, timeout=60)
    assert done.returncode == 2 and done.stderr.count("error:") == 1


@pytest.mark.parametrize("error", ["ValueError('a defect')", "SystemExit(3)", "UserError('only mine')"])
def test_an_error_on_one_rank_ends_all_in_seconds(error: str, run: Run, tmp_path: Path) -> None:
    script = tmp_path / "story.py"
    script.write_text(
        "import sys\n"
        "from proxml_mpi.cli.run import run\n"
        "from proxml_mpi.errors import UserError\n"
        "from proxml_mpi.settings.fields import LoggingSettings\n"
        "def story(world):\n"
        "    if world.rank == 1:\n"
        f"        raise {error}\n"
        "    world.barrier()\n"
        "sys.exit(run('story', LoggingSettings(), story))\n"
    )
    began = time.monotonic()
    done = run(["python", script], ranks=3, timeout=60)
    assert done.returncode not in (0, None) and time.monotonic() - began < 40
    if "ValueError" in error:
        assert "rank 1 of 3 failed" in done.stderr and "ValueError: a defect" in done.stderr
    if "UserError" in error:
        assert done.returncode == 2 and done.stderr.count("story: error: only mine") == 1


def test_silent_singletons_are_refused(run: Run, tiny: Path, tmp_path: Path) -> None:
    command = ["proxml-train", tiny / "train.txt", tmp_path / "model.h5"]
    done = run(command, SLURM_STEP_NUM_TASKS="4", SLURM_PROCID="0")
    assert done.returncode == 2 and "SLURM_STEP_NUM_TASKS=4" in done.stderr and "srun --mpi=pmix" in done.stderr
    assert not (tmp_path / "model.h5").exists()


@pytest.mark.parametrize(
    "command",
    [
        "proxml-train",
        "proxml-predict",
        "proxml-inspect",
        "proxml-data",
        "proxml-doctor",
        "proxml-analyze",
        "proxml-tune",
    ],
)
def test_help_starts_neither_mpi_nor_numba(command: str, run: Run) -> None:
    done = run([command, "--help"], PYTHONPROFILEIMPORTTIME="1")
    assert done.returncode == 0 and "usage:" in done.stdout
    imported = done.stderr
    assert not any(name in imported for name in ("mpi4py", "numba", "numpy", "h5py"))
    assert run([command, "--version"]).stdout.startswith(command)


@pytest.mark.skipif(os.geteuid() == 0, reason="because root may write everywhere")
def test_a_read_only_folder_is_refused_before_the_work(
    tiny: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "fixed"
    folder.mkdir(mode=0o555)
    check(capfd, train.main([str(tiny / "train.txt"), str(folder / "m.h5")]), "cannot be written to")
