"""Make an extreme data set of the package index that apt has on this machine: nothing is downloaded.

    python tools/debian_corpus.py corpus
    proxml-train corpus/train.txt corpus/model.h5 --weighting tfidf --label-names corpus/labels.txt \
        --feature-names corpus/vocab.txt

An instance is a package, its features are the words of its description (how often each occurs), its labels the packages
that it depends on: long-tailed, since most packages are needed by one or two others. Packages of one source stay
together, so that no test package has a sister in training.
"""

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple, NoReturn

import numpy as np

from proxml_mpi.data.dataset import Dataset, Lists, Matrix
from proxml_mpi.data.statistics import describe, table
from proxml_mpi.data.text_writer import write_text
from proxml_mpi.files import replace_text

LISTS = Path("/var/lib/apt/lists")
HELPER = "/usr/lib/apt/apt-helper"
WORD = re.compile(r"[a-z][a-z0-9+#]+")
STANZA_END = re.compile(r"\n\n+")
FIELD = re.compile(r"^([A-Za-z0-9-]+):[ \t]*((?:.*)(?:\n[ \t].*)*)", re.MULTILINE)


class Package(NamedTuple):
    """What matters of one package."""

    name: str
    source: str
    words: Counter[str]
    needs: frozenset[str]


def fail(message: str) -> NoReturn:
    """End with a message for the user."""
    print(f"debian_corpus: error: {message}", file=sys.stderr)
    sys.exit(2)


def run(command: list[str]) -> str:
    """Return what a command prints."""
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", env=os.environ | {"LC_ALL": "C"})
    if done.returncode:
        fail(f"'{' '.join(command)}' failed: {done.stderr.strip()[:300]}")
    return done.stdout


def read_index() -> str:
    """Return apt's index; fetch it when there is none and this user may."""
    if shutil.which("apt-cache") is None:
        fail("apt-cache was not found: this tool needs a Debian or Ubuntu machine")
    index = run(["apt-cache", "dumpavail"])
    if "\nDepends:" not in index:
        if os.geteuid() != 0:
            fail(f"apt has no package lists in {LISTS}: run 'apt-get update' as root once, then this again")
        print("apt has no package lists: running apt-get update", flush=True)
        run(["apt-get", "update", "-q"])
        index = run(["apt-cache", "dumpavail"])
    if "\nDepends:" not in index:
        fail("apt-cache dumpavail lists no packages, even after apt-get update")
    return index


def read_translations() -> dict[str, str]:
    """Return the long descriptions that apt keeps in files of their own, by the digest of the description."""
    files = sorted(LISTS.glob("*_i18n_Translation-en*"))
    texts: dict[str, str] = {}
    for path in files if Path(HELPER).exists() else []:
        for stanza in stanzas(run([HELPER, "cat-file", str(path)])):
            texts[stanza.get("description-md5", "")] = stanza.get("description-en", "")
    return texts


def stanzas(index: str) -> Iterator[dict[str, str]]:
    """Yield the fields of every paragraph, names in lower case."""
    for paragraph in STANZA_END.split(index):
        fields = {name.lower(): value for name, value in FIELD.findall(paragraph)}
        if fields:
            yield fields


def parse_packages(index: str, translations: dict[str, str]) -> list[Package]:
    """Return every package once, with words and dependencies, sorted by name."""
    found: dict[str, Package] = {}
    for fields in stanzas(index):
        name = fields.get("package", "")
        text = translations.get(fields.get("description-md5", ""), "") or fields.get("description", "")
        words = Counter(WORD.findall(text.lower()))
        needs = frozenset(needed(fields.get("depends", ""))) | frozenset(needed(fields.get("pre-depends", "")))
        if name and words and needs - {name}:
            source = fields.get("source", name).split()[0]
            found[name] = Package(name, source, words, needs - {name})
    return [found[name] for name in sorted(found)]


def needed(depends: str) -> Iterator[str]:
    """Yield the names in 'a (>= 1), b | c, d:any': of alternatives the first."""
    for clause in depends.split(","):
        name = clause.partition("|")[0].strip().partition(" ")[0].partition(":")[0]
        if name:
            yield name


def lot(source: str, salt: str) -> float:
    """Return a number from 0 to 1 that depends on nothing but a source package's name."""
    digest = hashlib.blake2b(f"{salt} {source}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") / 2**64


def to_dataset(packages: list[Package], words: dict[str, int], labels: dict[str, int]) -> Dataset:
    """Turn packages into arrays; unknown words are left out."""
    rows = [sorted((words[word], n) for word, n in package.words.items() if word in words) for package in packages]
    positives = [sorted(labels[name] for name in package.needs) for package in packages]
    entries = [entry for row in rows for entry in row]
    features = Matrix(
        pointer(map(len, rows)),
        np.array([word for word, _ in entries], np.int32),
        np.array([n for _, n in entries], np.float32),
    )
    pairs = np.array([label for row in positives for label in row], np.int32)
    return Dataset(features, Lists(pointer(map(len, positives)), pairs), len(words), len(labels))


def pointer(lengths: Iterable[int]) -> np.ndarray:
    """Return where rows of these lengths begin and end."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(list(lengths), dtype=np.int64)])


def main() -> None:
    """Make the data set."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where to write train.txt, test.txt, labels.txt, vocab.txt")
    parser.add_argument("--test-fraction", type=float, default=0.2, help="share of source packages for test [0.2]")
    parser.add_argument("--share", type=float, default=1.0, help="take this share of all source packages only [1]")
    parser.add_argument("--min-count", type=int, default=2, help="keep words of so many training packages [2]")
    options = parser.parse_args()
    if not 0 < options.test_fraction < 1 or not 0 < options.share <= 1:
        fail("--test-fraction must be between 0 and 1, --share above 0 and at most 1")

    index, translations = read_index(), read_translations()
    if not translations:
        print("apt has short descriptions only; 'apt-get -o Acquire::Languages=en update' brings the long ones\n")
    packages = parse_packages(index, translations)
    packages = [package for package in packages if lot(package.source, "share") < options.share]
    train = [package for package in packages if lot(package.source, "test") >= options.test_fraction]
    test = [package for package in packages if lot(package.source, "test") < options.test_fraction]
    counts = Counter(word for package in train for word in package.words)
    vocabulary = sorted(word for word, count in counts.items() if count >= options.min_count)
    if not train or not test or not vocabulary:
        fail(f"{len(packages)} packages are too few for a split: take a larger --share")
    names = sorted({name for package in packages for name in package.needs})

    options.folder.mkdir(parents=True, exist_ok=True)
    ids = [{name: number for number, name in enumerate(every)} for every in (vocabulary, names)]
    parts = {"train": to_dataset(train, *ids), "test": to_dataset(test, *ids)}
    for name, part in parts.items():
        write_text(options.folder / f"{name}.txt", part)
    for name, words in (("labels", names), ("vocab", vocabulary)):
        replace_text(options.folder / f"{name}.txt", "".join(f"{word}\n" for word in words))
    summary = table(describe(parts["train"]))
    replace_text(options.folder / "summary.txt", f"{summary}\n\ntest: {len(test):,} instances\n")
    print(summary)
    print(f"\n{options.folder}: train.txt, test.txt ({len(test):,} instances), labels.txt, vocab.txt, summary.txt")


if __name__ == "__main__":
    main()
