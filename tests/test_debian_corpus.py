"""tools/debian_corpus.py: a small index becomes a data set; on a Debian machine, so does apt's own."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from proxml_mpi.data.names import read_names
from proxml_mpi.store.sources import read_dataset

TOOL = Path(__file__).parents[1] / "tools" / "debian_corpus.py"

INDEX = """Package: alpha
Source: letters (1.2)
Version: 1
Depends: libc6 (>= 2.3), beta:any | gamma,
 delta
Pre-Depends: dpkg
Description: First of the letters
 A letter, and what a letter it is.

Package: lonely
Description: Nothing is needed

Package: beta
Depends: libc6
Description: short
Description-md5: abc

Package: self
Depends: self
Description: needs itself alone
"""


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("debian_corpus", TOOL)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["debian_corpus"] = module
    spec.loader.exec_module(module)
    return module


def test_packages_of_an_index(tool: ModuleType) -> None:
    alpha, beta = tool.parse_packages(INDEX, {"abc": "The longer text"})
    assert (alpha.name, alpha.source) == ("alpha", "letters")
    assert alpha.needs == {"libc6", "beta", "delta", "dpkg"}
    assert alpha.words["letter"] == 2 and alpha.words["first"] == 1
    assert beta.source == "beta" and set(beta.words) == {"the", "longer", "text"} and beta.needs == {"libc6"}


def test_a_made_up_index_becomes_files(
    tool: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stanzas = [
        f"Package: p{i}\nSource: s{i // 3}\nDepends: base, p{i * 7 % 60}, q{i % 11}\nDescription: word{i % 9} common\n"
        for i in range(60)
    ]
    monkeypatch.setattr(tool, "read_index", lambda: "\n".join(stanzas))
    monkeypatch.setattr(tool, "read_translations", dict)
    monkeypatch.setattr(sys, "argv", ["debian_corpus", str(tmp_path)])
    tool.main()
    assert "apt has short descriptions only" in capsys.readouterr().out
    train, test = read_dataset(tmp_path / "train.txt"), read_dataset(tmp_path / "test.txt")
    assert train.n_instances + test.n_instances == 60 and train.n_instances % 3 == 0 == test.n_instances % 3
    labels, words = read_names(tmp_path / "labels.txt", train.n_labels), read_names(tmp_path / "vocab.txt", 10)
    assert (test.n_features, test.n_labels) == (train.n_features, train.n_labels)
    assert "common" in words and train.positives.indptr[labels.index("base") + 1] > 0
    monkeypatch.setattr(sys, "argv", ["debian_corpus", str(tmp_path), "--share", "0"])
    with pytest.raises(SystemExit) as end:
        tool.main()
    assert end.value.code == 2


def test_without_apt_there_is_a_message(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, TOOL, tmp_path / "corpus"],
        env=os.environ | {"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2 and "apt-cache was not found" in done.stderr and not (tmp_path / "corpus").exists()
