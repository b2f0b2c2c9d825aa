"""Files made to mislead: whole by every checksum, wrong in what they say. No kernel may see them."""

import hashlib
import json
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest
from test_journal import IDENTITY, make_block
from test_store import N_FEATURES, N_LABELS, make_facts, replace, set_attribute, set_value
from test_store import make_block as model_block

import proxml_mpi
from proxml_mpi.cli import inspect
from proxml_mpi.errors import FileError, ModelError
from proxml_mpi.ranks.world import World
from proxml_mpi.solve.block import Block
from proxml_mpi.store.checksums import (
    FEATURE_COUNTS_DIGEST,
    HEADER_DIGEST,
    array_digest,
    header_digest,
    label_checksums,
)
from proxml_mpi.store.dataset_file import read_dataset_file
from proxml_mpi.store.journal import BlockError, ForeignBlockError, Journal
from proxml_mpi.store.merge import merge_models
from proxml_mpi.store.model_reader import read_header, read_labels
from proxml_mpi.store.model_writer import write_model
from proxml_mpi.store.names import Names, read_names
from proxml_mpi.store.warm_start import read_starts
from proxml_mpi.work import read_finished

Damage = Callable[[h5py.File], None]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.h5"
    names = Names(tuple(f"label {i}" for i in range(N_LABELS)))
    with World() as world:
        write_model(world, path, [model_block(0, N_LABELS)], make_facts(), "serial", names)
    return path


def renew_checksums(path: Path) -> None:
    """Do what an attacker would: make the checksums fit."""
    with h5py.File(path, "r+") as file:
        fields = {
            "indices": "weights/indices",
            "data": "weights/data",
            "lambda_": "labels/lambda",
            "bias": "bias",
        }
        names = ("n_positives", "objective", "duality_gap", "iterations", "outcome", "seconds")
        fields |= {name: f"labels/{name}" for name in names}
        block = Block(0, file["weights/indptr"][:], **{field: file[name][:] for field, name in fields.items()})
        file["labels/checksum"][:] = label_checksums(block)
        idf = file["features/idf"][:] if "features/idf" in file else None
        file.attrs[FEATURE_COUNTS_DIGEST] = array_digest(file["features/n_instances"][:])
        file.attrs[HEADER_DIGEST] = header_digest(dict(file.attrs), idf)


def claim_more(name: str, dtype: str, length: int) -> Damage:
    """Replace a dataset by one that claims a size of which nothing is in the file."""

    def damage(file: h5py.File) -> None:
        del file[name]
        file.create_dataset(name, (length,), dtype)

    return damage


def overflow(file: h5py.File) -> None:
    """Pointers whose differences overflow to positive numbers."""
    last = file["weights/indptr"][-1]
    file["weights/indptr"][4:6] = [2**62, -(2**63) + 10 + last]


COUNTS = "features/n_instances"
MODELS: dict[str, tuple[Damage, str]] = {
    "pointers that overflow": (overflow, "weights/indptr: found a descent"),
    "feature": (set_value("weights/indices", 0, 2**31 - 1), "weights/indices: found"),
    "order": (set_value("weights/indices", 2, 0), "weights/indices: found a descent within a row"),
    "weight": (set_value("weights/data", 0, np.inf), "weights/data: found"),
    "lambda": (set_value("labels/lambda", 0, np.nan), "labels/lambda: found"),
    "bias": (set_value("bias", 0, np.nan), "bias: found"),
    "count": (set_value(COUNTS, 0, 101), r"features/n_instances: found \[101\], expected numbers from 0 to 100"),
    "negative count": (set_value(COUNTS, 7, -1), r"features/n_instances: found \[-1\], expected numbers from 0"),
    "counts of fewer": (replace(COUNTS, np.zeros(3, "i4")), "features/n_instances: found 3 entries, expected 50"),
    "float counts": (replace(COUNTS, np.ones(50, "f4")), "features/n_instances: found type float32, expected int32"),
    "counts of nothing": (claim_more(COUNTS, "i4", 50), "n_instances: found 0 bytes in the file, expected 200"),
    "weighting": (set_attribute("weighting", "bm25"), "attribute weighting: found bm25, expected none or tfidf"),
    "idf for nothing": (set_attribute("weighting", "none"), "features/idf: found a dataset, expected nothing"),
    "normalize": (set_attribute("normalize", "yes"), "attribute normalize: found yes, expected true or false"),
    "no normalize": (lambda file: file.attrs.__delitem__("normalize"), "attribute normalize: found None"),
    "no digest": (lambda file: file.attrs.__delitem__("data_digest"), "attribute data_digest: found None"),
    "size of nothing": (claim_more("bias", "f4", N_LABELS), "/bias: found 0 bytes in the file, expected 44"),
}


@pytest.mark.parametrize("kind", MODELS)
def test_models_are_refused_by_everybody(model: Path, kind: str, tmp_path: Path) -> None:
    change, message = MODELS[kind]
    with h5py.File(model, "r+") as file:
        change(file)
    if kind != "pointers that overflow":
        renew_checksums(model)
    readers: dict[str, Callable[[], object]] = {
        "predict": lambda: proxml_mpi.load_model(model),
        "warm start": lambda: read_starts(model, N_FEATURES),
        "merge": lambda: merge_models([model], tmp_path / "merged.h5", False, ""),
        "labels": lambda: read_labels(read_header(model), 0, N_LABELS),
    }
    for read in readers.values():
        with pytest.raises(ModelError, match=message):
            read()
    assert [path.name for path in tmp_path.iterdir()] == ["model.h5"]


def test_sizes_are_compared_with_the_file(model: Path, tmp_path: Path) -> None:
    """A file of a few kilobytes must not make anybody take terabytes of memory."""
    n_labels = 2**31 - 1
    with h5py.File(model, "r+") as file:
        file.attrs["n_labels"] = n_labels
        for name, dtype, more in (("weights/indptr", "i8", 1), ("labels/checksum", "u4", 0), ("bias", "f4", 0)):
            claim_more(name, dtype, n_labels + more)(file)
        for name in ("n_positives", "objective", "duality_gap", "iterations", "lambda", "outcome", "seconds"):
            dtype = file[f"labels/{name}"].dtype
            claim_more(f"labels/{name}", dtype, n_labels)(file)
    with pytest.raises(ModelError, match=r"indptr: found 0 bytes in the file, expected 17179869184"):
        read_header(model)


INDEXES: dict[str, Damage] = {
    "labels": lambda file: file["index/labels"].__setitem__(slice(None), file["index/labels"][:][::-1]),
    "a weight": set_value("index/weights", 0, 0.5),
    "a bias": set_value("bias", 3, 7.0),
    "a gap": set_value("labels/duality_gap", 3, 0.0),
    "no digest": lambda file: file["index"].attrs.__delitem__("digest"),
}


@pytest.mark.parametrize("kind", INDEXES)
def test_an_index_that_says_something_else_is_refused(model: Path, kind: str) -> None:
    assert inspect.main([str(model), "--add-index"]) == 0
    proxml_mpi.load_model(model)
    with h5py.File(model, "r+") as file:
        INDEXES[kind](file)
    with pytest.raises(ModelError, match="the index's digest: found"):
        proxml_mpi.load_model(model)


def test_names_that_changed_or_vanished_are_refused(model: Path) -> None:
    assert read_names(model, N_LABELS, N_FEATURES).labels is not None
    with h5py.File(model, "r+") as file:
        file["names/labels"][3] = "another"
    with pytest.raises(FileError, match="names/labels: found the digest"):
        read_names(model, N_LABELS, N_FEATURES)
    with h5py.File(model, "r+") as file:
        del file["names"]
    with pytest.raises(FileError, match="names/labels: found nothing, expected 11 strings"):
        read_names(model, N_LABELS, N_FEATURES)


@pytest.mark.parametrize("size", [0, 2**63])
def test_a_heap_of_strings_without_an_end_is_refused(model: Path, size: int) -> None:
    """HDF5 itself would look for its end for ever."""
    content = bytearray(model.read_bytes())
    struct.pack_into("<H6xQ", content, content.index(b"GCOL") + 16, 0, size)
    model.write_bytes(content)
    with pytest.raises(ModelError, match=r"a heap of strings at byte [0-9]+ is damaged"):
        read_header(model)
    shutil.copy(model, model.with_name("data.h5"))
    with pytest.raises(FileError, match="a heap of strings at byte"):
        read_dataset_file(model.with_name("data.h5"))


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    journal = Journal(tmp_path / "model.h5.journal", IDENTITY)
    journal.open(tmp_path / "model.h5", resume=False, overwrite=False)
    return journal


def write_sealed(journal: Journal, name: str, body: bytes) -> Path:
    """Write a block file with a checksum that fits, whatever is in it."""
    path = journal.folder / name
    path.write_bytes(body + hashlib.blake2b(body, digest_size=16).digest())
    return path


def head(journal: Journal, **more: object) -> bytes:
    facts = {"format": "proxml-block 1", "run": journal.run, "first_label": 3, "n_labels": 5, "n_weights": 5}
    return json.dumps(facts | more).encode() + b"\n"


BODIES: dict[str, tuple[Callable[[Journal], bytes], str]] = {
    "nothing": (lambda journal: b"", "its first line is no JSON"),
    "nested": (lambda journal: b"[" * 100_000, "its first line is no JSON"),
    "list": (lambda journal: b"[]\n", "another run"),
    "counts": (lambda journal: head(journal, n_labels="5"), "counts"),
    "negative": (lambda journal: head(journal, n_weights=-1), "counts"),
    "short": (lambda journal: head(journal) + b"123", "it holds 3 bytes of arrays"),
    "huge": (lambda journal: head(journal, n_weights=2**60), "it holds 0 bytes of arrays"),
}


@pytest.mark.parametrize("kind", BODIES)
def test_sealed_nonsense_is_no_block(journal: Journal, kind: str) -> None:
    body, message = BODIES[kind]
    path = write_sealed(journal, "block-000000003-000000008", body(journal))
    with pytest.raises(BlockError, match=message):
        journal.read(path)


BLOCKS: dict[str, tuple[Callable[[Block], Block], str]] = {
    "pointer": (lambda b: b._replace(indptr=b.indptr[::-1]), r"weights/indptr\[0\]: found"),
    "feature": (lambda b: b._replace(indices=b.indices + 4), "weights/indices: found"),
    "weight": (lambda b: b._replace(data=b.data * np.float32(np.nan)), "weights/data: found"),
    "bias": (lambda b: b._replace(bias=np.full_like(b.bias, np.inf)), "bias: found"),
    "outcome": (lambda b: b._replace(outcome=b.outcome + 9), "labels/outcome: found"),
    "positives": (lambda b: b._replace(n_positives=-1 - b.n_positives), "labels/n_positives: found"),
    "labels": (lambda b: b._replace(first_label=17), "last label: found"),
}


@pytest.mark.parametrize("kind", BLOCKS)
def test_blocks_that_no_run_has_written_are_refused(journal: Journal, kind: str) -> None:
    change, message = BLOCKS[kind]
    journal.write(change(make_block(3, 5)))
    [path] = journal.block_files()
    with pytest.raises(BlockError, match=message):
        journal.read(path)


def test_copies_of_blocks_are_put_aside(journal: Journal, tmp_path: Path) -> None:
    for first, n_labels in ((0, 4), (2, 3), (5, 3)):
        journal.write(make_block(first, n_labels))
    shutil.copy(journal.block_files()[0], journal.folder / "block-000000010-000000014")
    shutil.copy(journal.block_files()[0], journal.folder / "block-copy")
    journal.close()
    journal.open(tmp_path / "model.h5", resume=True, overwrite=False)
    with World() as world:
        blocks = read_finished(world, journal)
    assert [(block.first_label, block.end_label) for block in blocks] == [(0, 4), (5, 8)]
    assert len(journal.block_files()) == 2


@pytest.mark.parametrize("text", ["", "{", "[]", '{"lambda": 0.2}'])
def test_blocks_speak_for_themselves_when_run_json_does_not(journal: Journal, tmp_path: Path, text: str) -> None:
    journal.write(make_block(3, 5))
    (journal.folder / "run.json").write_text(text)
    journal.close()
    other = Journal(journal.folder, IDENTITY | {"lambda": 0.2})
    with pytest.raises(FileError, match=r"cannot resume: it belongs to another run, and run\.json does not tell which"):
        other.open(tmp_path / "model.h5", resume=True, overwrite=False)
    other.close()
    with pytest.raises(ForeignBlockError):
        other.read(journal.block_files()[0])
    journal.open(tmp_path / "model.h5", resume=True, overwrite=False)
    assert len(journal.block_files()) == 1 and "lambda" in (journal.folder / "run.json").read_text()
