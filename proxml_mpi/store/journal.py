"""The journal of a run: every finished block of labels as one small file beside the model.

A block file is written under a temporary name, flushed to the disk and renamed, so that a run killed at any moment
loses only what it had in hand. It is trusted for its content, not for its existence:

    one line of JSON     format, run (digest of settings and data), first_label, n_labels, n_weights
    the arrays           those of Block in their order, little endian, without padding
    16 bytes             BLAKE2b of all bytes before

run.json, beside the blocks, says in clear text which run they belong to; without it, or when it is damaged, the blocks
speak for themselves.
"""

import fcntl
import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from proxml_mpi.errors import FileError
from proxml_mpi.files import check_target, reason, replace_file, replace_text
from proxml_mpi.progress import log
from proxml_mpi.solve.block import Block
from proxml_mpi.store.block_checks import check_block, check_range
from proxml_mpi.store.layout import WHEN_ABSENT

FORMAT = "proxml-block 1"
CHECKSUM_BYTES = 16
RUN_FILE, LOCK_FILE = "run.json", "lock"
RUN = "run"  # the digest of the rest of run.json, as in the blocks
FILE_NAME = re.compile(r"block-(\d{9,})-(\d{9,})")

# The arrays of a block: dtype, and whether there is one entry a weight rather than one a label.
ARRAYS: dict[str, tuple[str, bool]] = {
    "indptr": ("<i8", False),
    "indices": ("<i4", True),
    "data": ("<f4", True),
    "bias": ("<f4", False),
    "n_positives": ("<i4", False),
    "objective": ("<f8", False),
    "duality_gap": ("<f8", False),
    "iterations": ("<i4", False),
    "lambda_": ("<f8", False),
    "outcome": ("|u1", False),
    "seconds": ("<f4", False),
}


class BlockError(Exception):
    """A block file that cannot be used; its labels are solved again."""


class ForeignBlockError(BlockError):
    """A block file of another run."""


class Journal:
    """The folder of one run's blocks."""

    def __init__(self, folder: Path, identity: Mapping[str, Any]) -> None:
        """identity: what a resumed run must have in common with this one, n_features and n_labels among it."""
        self.folder = folder
        self.identity = dict(identity)
        self.run = _digest(self.identity)
        self._lock: BinaryIO | None = None

    def open(self, model: Path, resume: bool, overwrite: bool) -> None:
        """Begin or resume the run that this journal belongs to; refuse to mix it with another. Rank 0 calls this."""
        check_target(model, overwrite or resume)
        is_left_over = self.folder.exists()
        self._take_lock()
        try:
            if is_left_over and not (resume or overwrite):
                how = "--resume goes on with it, --overwrite throws it away"
                raise FileError(self.folder, f"an unfinished run left its journal: {how}")
            if resume:
                self._check_identity()
                self._remove_overlaps()
            else:
                self._clear()
            clear_text = json.dumps(self.identity | {RUN: self.run}, indent=2, sort_keys=True)
            replace_text(self.folder / RUN_FILE, clear_text + "\n")
        except FileError:
            self.close()
            raise

    def block_files(self) -> list[Path]:
        """Return the files of finished blocks, in the order of their labels."""
        return sorted(self.folder.glob("block-*"))

    def write(self, block: Block) -> None:
        """Put a finished block on the disk."""
        with replace_file(self.folder / _file_name(block)) as stream:
            stream.write(self._pack(block))

    def read(self, path: Path) -> Block:
        """Read a block and check every byte of it; raise BlockError for one that is damaged or another run's."""
        try:
            content = path.read_bytes()
        except OSError as error:
            raise BlockError(f"cannot be read: {reason(error)}") from error
        body, checksum = content[:-CHECKSUM_BYTES], content[-CHECKSUM_BYTES:]
        if hashlib.blake2b(body, digest_size=CHECKSUM_BYTES).digest() != checksum:
            raise BlockError("its checksum does not fit its content")
        head, _, arrays = body.partition(b"\n")
        header = _read_head(head)
        if header.get("format") != FORMAT or header.get("run") != self.run:
            raise ForeignBlockError("it belongs to another run")
        block = _unpack(header, arrays)
        if path.name != _file_name(block):
            raise BlockError(f"its name is not that of its labels, {_file_name(block)}")
        check_range(BlockError, "last label", np.array([block.end_label]), 1, self.identity["n_labels"])
        check_block(BlockError, block, self.identity["n_features"])
        return block

    def discard(self, path: Path) -> None:
        """Take a block away that cannot be used."""
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise FileError(path, f"is of no use and cannot be removed: {reason(error)}") from error

    def remove(self) -> None:
        """Take the journal away: the model holds all of it now. Rank 0 calls this."""
        try:
            self._clear()
            (self.folder / RUN_FILE).unlink(missing_ok=True)
            (self.folder / LOCK_FILE).unlink(missing_ok=True)
            self.folder.rmdir()
        except (OSError, FileError) as error:
            log.warning("%s: cannot be removed, and is not needed any more: %s", self.folder, error)
        self.close()

    def close(self) -> None:
        """Let go of the journal, so that another run may take it."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _take_lock(self) -> None:
        """Make the folder, and refuse to share it with a run that is going on."""
        try:
            self.folder.mkdir(exist_ok=True)
            self._lock = (self.folder / LOCK_FILE).open("wb")
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            self.close()
            raise FileError(self.folder, "another run is writing this model: wait for it, or end it") from error
        except OSError as error:
            raise FileError(self.folder, f"the journal cannot be made: {reason(error)}") from error

    def _remove_overlaps(self) -> None:
        """Take blocks away whose names promise labels that a block before them has: copies, made by hand."""
        taken = 0
        for path in self.block_files():
            if (match := FILE_NAME.fullmatch(path.name)) is None:
                continue  # reading it will tell what it is
            first, end = map(int, match.groups())
            if first < taken:
                log.warning("%s: its labels are in another block too; it is removed", path)
                self.discard(path)
            else:
                taken = end

    def _clear(self) -> None:
        for path in (*self.block_files(), *self.folder.glob(".*.partial")):
            self.discard(path)

    def _check_identity(self) -> None:
        """Refuse to resume a run with other settings or other data."""
        path = self.folder / RUN_FILE
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            found = None
        if not isinstance(found, dict) or found.pop(RUN, None) != _digest(found):
            self._check_blocks()
            return
        for name in sorted(self.identity.keys() | found.keys()):
            before, now = (values.get(name, WHEN_ABSENT.get(name)) for values in (found, self.identity))
            if before != now:
                raise FileError(path, f"cannot resume: {name} was {before!r} in this run, and is {now!r} now")

    def _check_blocks(self) -> None:
        """Refuse to resume when a whole block, for want of a better witness, says that it belongs to another run."""
        for path in self.block_files():
            try:
                self.read(path)
            except ForeignBlockError as error:
                raise FileError(path, f"cannot resume: {error}, and {RUN_FILE} does not tell which") from error
            except BlockError:
                continue  # whoever reads it for its content will say so

    def _pack(self, block: Block) -> bytes:
        header = {
            "format": FORMAT,
            "run": self.run,
            "first_label": block.first_label,
            "n_labels": block.n_labels,
            "n_weights": len(block.indices),
        }
        arrays = (np.ascontiguousarray(getattr(block, name), dtype).tobytes() for name, (dtype, _) in ARRAYS.items())
        body = json.dumps(header).encode() + b"\n" + b"".join(arrays)
        return body + hashlib.blake2b(body, digest_size=CHECKSUM_BYTES).digest()


def _digest(identity: Mapping[str, Any]) -> str:
    """Digest what tells runs apart; a setting that says what its absence does is left out."""
    told = {name: value for name, value in identity.items() if value is None or value != WHEN_ABSENT.get(name)}
    return hashlib.blake2b(json.dumps(told, sort_keys=True).encode(), digest_size=16).hexdigest()


def _file_name(block: Block) -> str:
    return f"block-{block.first_label:09d}-{block.end_label:09d}"


def _read_head(head: bytes) -> dict[str, Any]:
    try:
        header = json.loads(head)
    except (ValueError, RecursionError) as error:
        raise BlockError(f"its first line is no JSON: {error}") from error
    return header if isinstance(header, dict) else {}


def _unpack(header: dict[str, Any], body: bytes) -> Block:
    """Cut the arrays out of a checked file."""
    counts: list[Any] = [header.get(name) for name in ("first_label", "n_labels", "n_weights")]
    if not all(isinstance(count, int) and count >= 0 for count in counts):
        raise BlockError(f"its first line has the counts {counts}, expected whole numbers")
    _, n_labels, n_weights = counts
    lengths = {name: n_weights if by_weight else n_labels for name, (_, by_weight) in ARRAYS.items()}
    lengths["indptr"] += 1
    n_bytes = sum(np.dtype(dtype).itemsize * lengths[name] for name, (dtype, _) in ARRAYS.items())
    if n_bytes != len(body):
        raise BlockError(f"it holds {len(body)} bytes of arrays, expected {n_bytes}")
    fields, at = {}, 0
    for name, (dtype, _) in ARRAYS.items():
        fields[name] = np.frombuffer(body, dtype, lengths[name], at)
        at += fields[name].nbytes
    return Block(header["first_label"], **fields)


def journal_folder(model: Path, scratch: Path | None) -> Path:
    """Return where the journal of a model is kept."""
    return (scratch or model.parent) / f"{model.name}.journal"
