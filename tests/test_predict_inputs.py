"""What prediction reads and writes: pieces of files, standard input, outputs of every kind, intervals."""

import gzip
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import h5py
import numpy as np
import pytest
import scipy.sparse
from conftest import clean_environment, model_content

import proxml_mpi
from proxml_mpi.cli import inspect
from proxml_mpi.data.dataset import Dataset
from proxml_mpi.data.text import parse_text, read_text
from proxml_mpi.data.text_stream import open_text
from proxml_mpi.errors import DataError, ModelError
from proxml_mpi.score.bootstrap import draw_counts
from proxml_mpi.score.metrics import start_evaluation

Run = Callable[..., CompletedProcess[str]]
OPTIONS = ("--weighting", "tfidf", "--lambda", "0.3")
LABEL_NAMES = [f"label nº {label}" for label in range(40)]


@pytest.fixture(scope="module")
def model(small_files: tuple[Path, Path], run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that knows the names of its labels."""
    path = tmp_path_factory.mktemp("named") / "model.h5"
    done = run(["proxml-train", small_files[0], path, *OPTIONS])
    assert done.returncode == 0, done.stderr
    with h5py.File(path, "r+") as file:
        file.create_dataset("names/labels", data=np.array(LABEL_NAMES, object), dtype=h5py.string_dtype())
    return path


def text_lists(text: str) -> list[list[tuple[int, float]]]:
    return [[(int(a), float(b)) for a, b in (pair.split(":") for pair in line.split())] for line in text.splitlines()]


@pytest.fixture(scope="module")
def lists(model: Path, small_files: tuple[Path, Path], run: Run) -> list[list[tuple[int, float]]]:
    """The predictions as text tells them."""
    done = run(["proxml-predict", model, small_files[1], "--output", model.parent / "p.txt"])
    assert done.returncode == 0, done.stderr
    header, _, lines = (model.parent / "p.txt").read_text().partition("\n")
    assert header == "120 40"
    return text_lists(lines)


@pytest.mark.parametrize("per_piece", [1, 7, 60, 119, 120, 1000])
@pytest.mark.parametrize("packed", [False, True])
def test_pieces_of_a_file_are_the_file(
    small_files: tuple[Path, Path], tmp_path: Path, per_piece: int, packed: bool
) -> None:
    content = small_files[1].read_bytes()
    path = tmp_path / "test.txt"
    path.write_bytes(gzip.compress(content) if packed else b"\xef\xbb\xbf" + content.removesuffix(b"\n"))
    whole, stream = read_text(path), open_text(path, per_piece)
    pieces = list(stream.pieces)
    assert stream.form[:3] == (whole.n_instances, whole.n_features, whole.n_labels)
    assert [piece.n_instances for piece in pieces[:-1]] == [per_piece] * (len(pieces) - 1)
    assert_same_rows(whole, pieces)


def assert_same_rows(whole: Dataset, pieces: list[Dataset]) -> None:
    for name in ("indices", "values"):
        joined = np.concatenate([getattr(piece.features, name) for piece in pieces])
        assert joined.tobytes() == getattr(whole.features, name).tobytes()
    assert np.concatenate([piece.labels.indices for piece in pieces]).tolist() == whole.labels.indices.tolist()
    for kind in ("features", "labels"):
        lengths = np.concatenate([np.diff(getattr(piece, kind).indptr) for piece in pieces])
        assert lengths.tolist() == np.diff(getattr(whole, kind).indptr).tolist()


@pytest.mark.parametrize("n_lines", [3, 5])
@pytest.mark.parametrize("damage", ["0 9:1", "0 1:x", "7 1:1", "0 1:1 1:2", "1:1"])
def test_pieces_complain_of_the_same_line(tmp_path: Path, n_lines: int, damage: str) -> None:
    lines = ["0 1:1"] * n_lines
    lines[2] = damage
    text = "\n".join([f"{n_lines} 3 2", *lines]) + "\n"
    (tmp_path / "t.txt").write_text(text)
    with pytest.raises(DataError) as expected:
        parse_text(text.encode(), tmp_path / "t.txt")
    for per_piece in (1, 2, 100):
        with pytest.raises(DataError) as found:
            list(open_text(tmp_path / "t.txt", per_piece).pieces)
        assert str(found.value) == str(expected.value)


@pytest.mark.parametrize(("n_promised", "message"), [(2, "t.txt:4: found more"), (4, "t.txt:4: the file ends after 3")])
def test_pieces_are_counted(tmp_path: Path, n_promised: int, message: str) -> None:
    (tmp_path / "t.txt").write_text(f"{n_promised} 3 2\n" + "0 1:1\n" * 3)
    for per_piece in (1, 2, 3, 100):
        with pytest.raises(DataError, match=message):
            list(open_text(tmp_path / "t.txt", per_piece).pieces)


@pytest.mark.parametrize("ranks", [None, 2, 5])
def test_outputs_hold_the_same_predictions(
    model: Path,
    small_files: tuple[Path, Path],
    lists: list[list[tuple[int, float]]],
    run: Run,
    tmp_path: Path,
    ranks: int,
) -> None:
    npz, h5 = tmp_path / "p.npz", tmp_path / "p.h5"
    for path in (npz, h5):
        command = ["proxml-predict", model, small_files[1], "--output", path, "--instances-per-round", "50"]
        done = run(command, ranks=ranks)
        assert done.returncode == 0, done.stderr
    with h5py.File(h5) as file:
        labels, scores = file["labels"][:], file["scores"][:]
        assert file.attrs["format"] == "proxml-predictions" and file["names/labels"].asstr()[:].tolist() == LABEL_NAMES
    assert (labels.dtype, scores.dtype) == (np.int32, np.float32)
    assert labels.tolist() == [[label for label, _ in row] for row in lists]
    assert scores == pytest.approx(np.array([[score for _, score in row] for row in lists]), rel=1e-6)
    matrix = scipy.sparse.load_npz(npz)
    assert matrix.shape == (120, 40) and matrix.dtype == np.float32 and matrix.has_canonical_format
    for i in range(120):
        assert np.array_equal(matrix[[i]].toarray()[0, labels[i]], scores[i])
        assert sorted(matrix[[i]].indices) == sorted(labels[i])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["p.h5", "p.npz"]


def test_without_any_labels_there_are_predictions_but_no_metrics(
    model: Path, small_files: tuple[Path, Path], lists: list[list[tuple[int, float]]], run: Run, tmp_path: Path
) -> None:
    header, *lines = small_files[1].read_text().splitlines()
    path, output = tmp_path / "unlabelled.txt", tmp_path / "p.txt"
    path.write_text("\n".join([header, *(" " + line.partition(" ")[2] for line in lines)]) + "\n")
    done = run(["proxml-predict", model, path, "--output", output])
    assert done.returncode == 0, done.stderr
    assert "nothing to measure" in done.stdout and "PSP" not in done.stdout
    assert text_lists(output.read_text().partition("\n")[2]) == lists
    done = run(["proxml-predict", model, path, "--metrics", tmp_path / "m.json"], ranks=2)
    assert done.returncode == 2 and done.stderr.count("found no labels, expected some for --metrics") == 1
    assert not (tmp_path / "m.json").exists()


def test_standard_input_is_for_one_process(model: Path, run: Run) -> None:
    done = run(["proxml-predict", model, "-"], ranks=2)
    assert done.returncode == 2 and "lines of standard input go to one process" in done.stderr


def test_lines_of_standard_input_are_answered_at_once(
    model: Path, small_files: tuple[Path, Path], lists: list[list[tuple[int, float]]]
) -> None:
    lines = small_files[1].read_text().splitlines()[1:]
    lines[1::3] = [line.partition(" ")[2] for line in lines[1::3]]
    lines[2::3] = [" " + line.partition(" ")[2] for line in lines[2::3]]
    command = ["proxml-predict", str(model), "-", "--log-level", "error"]
    process = subprocess.Popen(
        command,
        env=clean_environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
        start_new_session=True,
    )
    assert process.stdin is not None and process.stdout is not None
    answers = []
    try:
        for line in lines[:10]:
            process.stdin.write(line + "\n")
            process.stdin.flush()
            answers.append(process.stdout.readline())  # waits for ever if the answer waits for more lines
        assert text_lists("".join(answers)) == lists[:10]
        rest, _ = process.communicate("\n".join(lines[10:]), timeout=120)
        assert process.returncode == 0
        assert text_lists(rest) == lists[10:]
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)


def test_a_bad_line_of_standard_input_is_named(model: Path) -> None:
    command = ["proxml-predict", str(model), "-", "--log-level", "error"]
    done = subprocess.run(
        command, env=clean_environment(), input="1:1\n2:1 300:1\n", capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 2 and done.stderr.count("error:") == 1
    assert "standard input:2: feature id '300' is out of range, the model allows 0 to 299" in done.stderr
    assert "Traceback" not in done.stderr


def run_without_reader(*words: object, text: str = "") -> subprocess.CompletedProcess[str]:
    """Run proxml-predict with a standard output that nobody reads."""
    read_end, write_end = os.pipe()
    os.close(read_end)
    done = subprocess.run(
        ["proxml-predict", *map(str, words), "--log-level", "error"],
        env=clean_environment(),
        input=text,
        stdout=write_end,
        stderr=subprocess.PIPE,
        text=True,
        timeout=120,
    )
    os.close(write_end)
    return done


def test_an_absent_reader_of_answers_ends_it_in_order(model: Path) -> None:
    done = run_without_reader(model, "-", text="1:1\n")
    assert done.returncode == 2 and "standard output: found it closed" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_absent_reader_of_the_metrics_costs_nothing_else(
    model: Path, small_files: tuple[Path, Path], tmp_path: Path
) -> None:
    # proxml-predict ... --metrics FILE | head -4
    metrics = tmp_path / "metrics.json"
    done = run_without_reader(model, small_files[1], "--metrics", metrics)
    assert (done.returncode, done.stderr) == (0, "")
    assert "P@1" in json.loads(metrics.read_text())["metrics"]


def test_intervals_do_not_depend_on_ranks_and_rounds(
    model: Path, small_files: tuple[Path, Path], run: Run, tmp_path: Path
) -> None:
    found = []
    for ranks, per_round in ((None, 1000), (3, 17)):
        path = tmp_path / f"{ranks}.json"
        command = ["proxml-predict", model, small_files[1], "--bootstrap", "200", "--metrics", path]
        done = run([*command, "--instances-per-round", per_round], ranks=ranks)
        assert done.returncode == 0, done.stderr
        assert "95 % of 200 bootstrap replicates" in done.stdout
        found.append(json.loads(path.read_text()))
    assert found[0]["intervals"] == found[1]["intervals"] and found[0]["metrics"] == found[1]["metrics"]
    for name, (low, high) in found[0]["intervals"].items():
        assert low <= found[0]["metrics"][name] <= high
    assert len(found[0]["intervals"]) == 6 * 3


def test_replicates_are_resamples() -> None:
    """A replicate's sums are those of instances repeated as often as they were drawn; its spread is that of theory."""
    random = np.random.default_rng(7)
    n, n_labels = 400, 30
    labels = np.array([random.permutation(n_labels)[:5] for _ in range(n)], np.int32)
    indptr, truth = np.arange(0, 2 * n + 1, 2), np.array([random.permutation(n_labels)[:2] for _ in range(n)], np.int32)
    weight, positives = 1 + random.random(n_labels), random.integers(0, 200, n_labels)
    evaluation = start_evaluation([1, 5], weight, positives, n_replicates=300)
    evaluation.update(labels, (indptr, truth.ravel()))
    counts = draw_counts(300, 0, n)
    assert counts.mean() == pytest.approx(1, abs=0.01) and counts.var() == pytest.approx(1, abs=0.03)
    assert evaluation.bootstrap is not None
    for replicate in (0, 299):
        rows = np.repeat(np.arange(n), counts[replicate])
        again = start_evaluation([1, 5], weight, positives)
        again.update(labels[rows], (np.arange(0, 2 * len(rows) + 1, 2), truth[rows].ravel()))
        assert np.array_equal(evaluation.bootstrap.sums[replicate], again.sums[0])
    low, high = evaluation.bootstrap.intervals(skip_unlabelled=False)["P@1"]
    p = evaluation.result()["P@1"] / 100
    assert high - low == pytest.approx(2 * 196 * np.sqrt(p * (1 - p) / n), rel=0.25)
    assert np.array_equal(draw_counts(5, 10, 20), draw_counts(5, 0, 40)[:, 10:30])


def test_a_model_written_anew_predicts_the_same(
    model: Path, small_files: tuple[Path, Path], lists: list[list[tuple[int, float]]], run: Run, tmp_path: Path
) -> None:
    path, output = tmp_path / "model.h5", tmp_path / "p.txt"
    before = model_content(model)
    del before["names/labels"]  # pointers
    for options in (["--add-index"], ["--compress"], ["--add-index", "--compress"]):
        shutil.copy(model, path)
        done = run(["proxml-inspect", path, *options])
        assert done.returncode == 0, done.stderr
        content = model_content(path)
        assert {name: content[name] for name in before} == before
        assert proxml_mpi.load_model(path).labels == tuple(LABEL_NAMES)
        assert ("/index/labels" in done.stdout) == ("--add-index" in options)
        for ranks in (None, 2):
            done = run(["proxml-predict", path, small_files[1], "--output", output], ranks=ranks)
            assert done.returncode == 0, done.stderr
            assert text_lists(output.read_text().partition("\n")[2]) == lists


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("indptr", lambda a: a * 2, "the last of index/indptr"),
        ("indptr", lambda a: np.where(np.arange(len(a)) == 5, 10**6, a), "index/indptr: found a descent"),
        ("labels", lambda a: a + 40, "expected numbers from 0 to 39"),
        ("labels", lambda a: a[:-1], "index/labels: found"),
        ("weights", lambda a: a * np.float32(np.inf), "index/weights: found"),
        ("weights", lambda a: a.astype(np.float64), "index/weights: found type float64, expected float32"),
    ],
)
def test_a_damaged_index_is_refused(
    model: Path, run: Run, tmp_path: Path, name: str, change: Callable[[np.ndarray], np.ndarray], message: str
) -> None:
    path = tmp_path / "model.h5"
    shutil.copy(model, path)
    assert inspect.main([str(path), "--add-index"]) == 0
    with h5py.File(path, "r+") as file:
        values = change(file[f"index/{name}"][:])
        del file[f"index/{name}"]
        file[f"index/{name}"] = values
    with pytest.raises(ModelError) as found:
        proxml_mpi.load_model(path)
    assert message in str(found.value)
