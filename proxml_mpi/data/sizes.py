"""How large a data set will be in memory, told from the beginning of its files before all of them are read."""

import zipfile
from os import PathLike
from pathlib import Path
from typing import NamedTuple

from proxml_mpi.data.files import read_beginning
from proxml_mpi.data.formats import Source

SAMPLE_BYTES = 1 << 20


class Size(NamedTuple):
    """The numbers that memory depends on; 0 stands for what a file does not tell."""

    n_instances: int
    n_features: int
    n_labels: int
    n_entries: int  # of the features
    n_pairs: int  # of instances and labels
    reading_bytes: int = 0  # what the reader holds beside the data set

    @property
    def rows_bytes(self) -> int:
        return 8 * (self.n_instances + 1) + 8 * self.n_entries

    @property
    def columns_bytes(self) -> int:
        return 8 * (self.n_features + 1) + 8 * self.n_entries

    @property
    def positives_bytes(self) -> int:
        return 8 * (self.n_labels + 1) + 4 * self.n_pairs

    @property
    def labels_bytes(self) -> int:
        return 8 * (self.n_instances + 1) + 4 * self.n_pairs


def estimate_size(source: Source) -> Size:
    """Estimate the size of text or npz files; a damaged file counts for what can be read of it."""
    if source.format == "npz":
        return _npz_size(source.paths[0], source.paths[1])
    if source.format == "two-file":
        features, labels = (_text_size(path) for path in source.paths)
        reading_bytes = features.reading_bytes + labels.reading_bytes
        return features._replace(
            n_labels=labels.n_features, n_pairs=labels.n_entries, reading_bytes=reading_bytes + 4 * labels.n_entries
        )
    return _text_size(source.paths[0])


def _text_size(path: str | PathLike[str]) -> Size:
    """Extrapolate from the first lines: what a whole file holds if it goes on as it begins."""
    sample = read_beginning(path, SAMPLE_BYTES)
    n_file_bytes = Path(path).stat().st_size
    n_bytes = int(len(sample) * max(1.0, n_file_bytes / SAMPLE_BYTES))
    if not sample:
        return Size(0, 0, 0, 0, 0)
    header, _, lines = sample.partition(b"\n")
    counts = [int(token) for token in header.split() if token.isdigit() and len(token) < 11]
    n_instances, n_features, n_labels = (*counts, 0, 0, 0)[:3] if b":" not in header else (0, 0, 0)
    per_byte = n_bytes / max(1, len(lines))
    n_lines = int(lines.count(b"\n") * per_byte)
    n_entries, n_pairs = int(lines.count(b":") * per_byte), int(lines.count(b",") * per_byte) + n_lines
    # A line has a byte at least, whatever the header promises.
    return Size(min(n_instances, n_bytes) or n_lines, n_features, n_labels, n_entries, n_pairs, n_bytes)


def _npz_size(features: Path, labels: Path) -> Size:
    """Add up the unpacked arrays: ids have 4 bytes unless there are very many."""
    n_bytes, n_entries, n_pairs = 0, 0, 0
    try:
        with zipfile.ZipFile(features) as archive, zipfile.ZipFile(labels) as label_archive:
            infos = archive.infolist() + label_archive.infolist()
            n_bytes = sum(info.file_size for info in infos)
            n_entries, n_pairs = (_n_ids(each.infolist()) for each in (archive, label_archive))
    except (OSError, zipfile.BadZipFile):
        return Size(0, 0, 0, 0, 0)  # whoever reads the files says what is wrong with them
    return Size(0, 0, 0, n_entries, n_pairs, 2 * n_bytes)


def _n_ids(infos: list[zipfile.ZipInfo]) -> int:
    return max((info.file_size // 4 for info in infos if info.filename in ("indices.npy", "row.npy")), default=0)
