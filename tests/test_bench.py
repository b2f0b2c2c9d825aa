"""tools/bench: the benchmarks take minutes to hours, but that each finds what it needs is told in seconds."""

import runpy
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[1] / "tools" / "bench"


@pytest.mark.parametrize("path", sorted(BENCH.glob("*.py")), ids=lambda path: path.name)
def test_benchmarks_find_what_they_import(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(BENCH)
    runpy.run_path(str(path), run_name="imported")
