"""The report of a model: every section, hostile names, and a real browser."""

import html
import json
import re
import shutil
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import numpy as np
import pytest

from proxml_mpi.analysis import svg
from proxml_mpi.analysis.report_facts import balance
from proxml_mpi.cli import analyze, predict, train
from proxml_mpi.store.model_reader import read_header, read_labels

Run = Callable[..., CompletedProcess[str]]
Capture = pytest.CaptureFixture[str]
QUIET = ("--log-level", "error", "--threads", "1")
HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</style><b>bold",
    "&amp; 'quoted'",
    "\u202eevil",
]
SECTIONS = ["run", "data", "certificates", "sparsity", "time", "metrics", "labels", "instances"]
VOID = {"meta", "path", "rect", "line", "polyline", "circle"}


class Page(HTMLParser):
    """The elements and the text of a page; opening and closing tags must match."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self._open: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))
        assert not self._open, self._open

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attributes)))
        if tag not in VOID or tag == "circle" or tag == "rect":
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    def count(self, tag: str) -> int:
        return sum(name == tag for name, _ in self.elements)

    @property
    def words(self) -> str:
        return "".join(self.text)


@pytest.fixture(scope="module")
def trained(small_files: tuple[Path, Path], run: Run, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A model of two ranks whose names are hostile, and the facts of its run."""
    folder = tmp_path_factory.mktemp("report")
    labels = [f"{HOSTILE[i % len(HOSTILE)]} {i}" for i in range(40)]
    features = [f"{HOSTILE[i % len(HOSTILE)]} word {i}" for i in range(300)]
    for name, values in (("labels", labels), ("features", features)):
        (folder / name).write_text("\n".join(values) + "\n")
    model, facts = folder / "model <b>.h5", folder / "run.json"
    names = ("--label-names", folder / "labels", "--feature-names", folder / "features", "--report", facts)
    done = run(["proxml-train", small_files[0], model, "--weighting", "tfidf", *names, *QUIET], ranks=2)
    assert done.returncode == 0, done.stderr
    return model, facts


@pytest.fixture(scope="module")
def full(trained: tuple[Path, Path], small_files: tuple[Path, Path]) -> Path:
    """A page with everything."""
    model, facts = trained
    page = model.with_name("full.html")
    options = ["--train", small_files[0], "--run", facts, "--output", page, "--labels", "40"]
    assert analyze.main(["report", str(model), str(small_files[1]), *map(str, options)]) == 0
    return page


def test_every_section_is_there(full: Path, trained: tuple[Path, Path], small_files: tuple[Path, Path]) -> None:
    page = Page(full)
    assert [values["id"] for tag, values in page.elements if tag == "section"] == SECTIONS
    assert page.count("figure") == page.count("svg") == 12
    for words in ("Power law of the labels", "Power law of the features", "Labels by gap", "Seconds of every rank"):
        assert words in page.words
    for words in ("converged", "Balance by number of ranks", "coverage", "% of all labels", "largest memory of a rank"):
        assert words in page.words
    header = read_header(trained[0])
    assert f"{header.indptr[-1]:,}" in page.words and str(header.attributes["data_digest"]) in page.words


def test_metrics_are_those_of_prediction(
    full: Path, trained: tuple[Path, Path], small_files: tuple[Path, Path]
) -> None:
    metrics = full.with_name("metrics.json")
    assert predict.main([str(trained[0]), str(small_files[1]), "--metrics", str(metrics), *QUIET]) == 0
    found = json.loads(metrics.read_text())
    text = full.read_text()
    for name in ("P", "PSP", "PSnDCG", "PSR", "coverage"):
        cells = "".join(f"<td>{found['metrics'][f'{name}@{k}']:.2f}</td>" for k in (1, 3, 5))
        assert f'<td class="text">{name}</td>{cells}' in text
    for name, values in found["by_frequency"].items():
        if values["n_instances"]:
            cells = f"<td>{values['n_labels']:,}</td><td>{values['n_instances']:,}</td><td>{values['P@5']:.2f}</td>"
            assert f'<td class="text">{html.escape(name)}</td>{cells}' in text


def test_names_are_text_and_nothing_else(full: Path, trained: tuple[Path, Path]) -> None:
    page, text = Page(full), full.read_text()
    tags = {tag for tag, _ in page.elements}
    assert not tags & {"script", "img", "b ", "link", "iframe", "object"} and page.count("style") == 1
    assert not any(name.startswith("on") or name in ("src", "style") for _, values in page.elements for name in values)
    assert all(str(values["href"]).startswith("#") for _, values in page.elements if "href" in values)
    # All names of the model's labels stand there, as they are.
    for number in range(40):
        if read_header(trained[0]).n_positives[number]:
            assert f"{HOSTILE[number % len(HOSTILE)]} {number}" in page.words
    assert "Model model <b>.h5" in page.words and "http" not in text.replace("http-equiv", "")


def test_without_anything_but_the_model(trained: tuple[Path, Path], tmp_path: Path, capfd: Capture) -> None:
    model = shutil.copy(trained[0], tmp_path / "model.h5")
    assert analyze.main(["report", str(model)]) == 0
    page = Page(tmp_path / "model.html")
    assert str(tmp_path / "model.html") in capfd.readouterr().out
    assert [values["id"] for tag, values in page.elements if tag == "section"] == SECTIONS
    assert "There are metrics when test data are given" in page.words and "--run names" in page.words
    assert analyze.main(["report", str(model)]) == 2
    assert "exists already" in capfd.readouterr().err
    # The same input makes the same page.
    first = (tmp_path / "model.html").read_bytes()
    assert analyze.main(["report", str(model), "--overwrite"]) == 0
    assert (tmp_path / "model.html").read_bytes() == first


def test_models_with_little_in_them(small_files: tuple[Path, Path], tmp_path: Path) -> None:
    """No names, labels left out, labels without weights; test data without labels."""
    model, test = tmp_path / "part.h5", tmp_path / "test.txt"
    part = ["--first-label", "3", "--num-labels", "4", "--lambda", "1000"]
    assert train.main([str(small_files[0]), str(model), *part, *QUIET]) == 0
    test.write_text("2 300 40\n 1:1\n \n")
    assert analyze.main(["report", str(model), str(test)]) == 0
    page = Page(tmp_path / "part.html")
    assert "not trained" in page.words and "none of them with labels" in page.words
    nothing = tmp_path / "nothing.h5"
    assert train.main([str(small_files[0]), str(nothing), "--first-label", "40", *QUIET]) == 0
    assert analyze.main(["report", str(nothing), str(small_files[1])]) == 0
    assert "No label was solved." in Page(tmp_path / "nothing.html").words


def test_mistakes(trained: tuple[Path, Path], small_files: tuple[Path, Path], tmp_path: Path, capfd: Capture) -> None:
    model, facts = trained
    out = ["--output", str(tmp_path / "page.html")]
    bad = tmp_path / "bad.json"

    def message(*arguments: object) -> str:
        capfd.readouterr()
        assert analyze.main(["report", str(model), *map(str, arguments), *out]) == 2
        assert not (tmp_path / "page.html").exists()
        return capfd.readouterr().err

    assert "was trained on other data" in message("--train", small_files[1])
    bad.write_text("{")
    assert "bad.json: found no JSON" in message("--run", bad)
    bad.write_text("[]")
    assert "expected a report of proxml-train" in message("--run", bad)
    for change in ({"data_digest": "0"}, {"seconds": {"solve": "<b>"}}, {"solver_seconds_by_rank": [None]}):
        bad.write_text(json.dumps(json.loads(facts.read_text()) | change))
        assert "bad.json" in message("--run", bad)
    assert "no such file" in message(tmp_path / "no.txt") and "no such file" in message("--run", tmp_path / "no.json")
    for options in (["--output", "page.pdf"], ["--labels", "0"], ["--k", "0"], ["--propensity-a", "1"], ["-"]):
        with pytest.raises(SystemExit, match="2"):
            analyze.main(["report", str(model), *options])


def test_balance_is_that_of_the_partition(trained: tuple[Path, Path]) -> None:
    header = read_header(trained[0])
    block = read_labels(header, 0, header.n_labels)
    even = block._replace(seconds=np.ones(40, np.float32), n_positives=np.ones(40, np.int32))
    assert balance(even)[:4] == [(1.0, 100.0), (2.0, 100.0), (4.0, 100.0), (8.0, 100.0)]
    one = even._replace(seconds=np.eye(1, 40, dtype=np.float32)[0])
    assert balance(one)[:3] == [(1.0, 100.0), (2.0, 50.0), (4.0, 25.0)]


def test_charts() -> None:
    assert [svg.short(value) for value in (0, 0.001, 1e-6, 15, 2000, 1.5e6)] == [
        "0",
        "0.001",
        "1e-6",
        "15",
        "2k",
        "1.5M",
    ]
    points = svg.ranked(np.array([0, 5, 1, 9]))
    assert points == [(1.0, 9.0), (2.0, 5.0), (3.0, 1.0)]
    assert len(svg.ranked(np.arange(100_000))) <= svg.MOST_POINTS
    drawn = svg.histogram("title", "x", np.array([1.0, 10.0, 10.0, 500.0]), (100.0, "limit"))
    assert re.findall(r": (\d) labels", drawn) == ["1", "2", "1"] and "limit" in drawn
    assert "nan" not in svg.curves("one point", "x", "y", {"a": [(1.0, 1.0)]}) + svg.bars("zero", {"": {"a": 0.0}})


MEASURE = """<!doctype html><body style="margin:0"><script>
const found = {};
function measure(frame, width) {
  const page = frame.contentDocument, root = page.documentElement;
  const boxes = [...page.querySelectorAll("svg")].map(svg => svg.getBoundingClientRect());
  const tables = [...page.querySelectorAll(".scroll")].map(box => box.getBoundingClientRect());
  const inside = box => box.left >= 0 && box.right <= width && box.width > 200 && box.height > 20;
  found[width] = {
    svgs: boxes.length, visible: boxes.filter(inside).length, page: root.scrollWidth,
    tables: tables.filter(box => box.right > width).length,
    text: Math.min(...[...page.querySelectorAll("svg text")].map(text => text.getBoundingClientRect().height)),
    ink: frame.contentWindow.getComputedStyle(page.querySelector("svg .s0")).fill,
  };
  if (Object.keys(found).length === 2) document.body.textContent = "FOUND" + JSON.stringify(found) + "DNUOF";
}
for (const width of [390, 1280]) {
  const frame = document.createElement("iframe");
  frame.style = `border:0;width:${width}px;height:900px`;
  frame.onload = () => measure(frame, width);
  frame.src = "full.html";
  document.body.append(frame);
}
</script></body>"""


def test_in_a_browser(full: Path, run: Run, tmp_path: Path) -> None:
    """On a screen and at a phone's width: no complaint, all figures visible, nothing wider than the page."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("because there is no chromium (Debian: apt-get install chromium)")
    (full.parent / "measure.html").write_text(MEASURE)
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", f"--user-data-dir={tmp_path}"]

    def visit(path: Path) -> Any:
        files = ["--allow-file-access-from-files", "--virtual-time-budget=10000", "--dump-dom"]
        done = run([browser, *options, *files, f"file://{path}"], timeout=60)
        assert done.returncode == 0, done.stderr
        complaints = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
        assert not complaints, complaints
        return done.stdout

    assert visit(full).count("<svg") == 12
    text = visit(full.parent / "measure.html")
    assert "FOUND" in text, text
    found = json.loads(text.partition("FOUND")[2].partition("DNUOF")[0])
    for width in (390, 1280):
        at = found[str(width)]
        assert at["svgs"] == at["visible"] == 12 and at["page"] <= width and at["tables"] == 0, (width, at)
        assert at["text"] >= 9 and at["ink"].startswith("rgb("), at
