"""Read and write XMC repository text: a header `N D L`, then `l1,l2 f:v f:v` for every instance."""

from proxml_mpi.data.complaints import Complain, insist
from proxml_mpi.data.dataset import Dataset
from proxml_mpi.data.files import Path, pad_content, read_content
from proxml_mpi.data.text_lines import Bytes, parse_lines, split_header
from proxml_mpi.data.text_reference import parse_header
from proxml_mpi.data.text_writer import write_text

__all__ = ["parse_content", "parse_text", "read_text", "write_text"]


def read_text(path: Path, n_threads: int = 1) -> Dataset:
    """Read a file of XMC text: plain, .gz, .xz or .zst, as its content tells."""
    return parse_content(read_content(path), path, n_threads)


def parse_text(content: bytes, name: Path, n_threads: int = 1) -> Dataset:
    """Parse XMC text that is in memory already; name stands for the file in complaints."""
    return parse_content(pad_content(content), name, n_threads)


def parse_content(text: Bytes, path: Path, n_threads: int, complain: Complain = insist) -> Dataset:
    """Parse XMC text that `read_content` or `pad_content` has made ready."""
    line, begin = split_header(text, path, "the header 'N D L'")
    form = parse_header(line, path)
    features, labels = parse_lines(text, begin, form, path, n_threads, complain)
    return Dataset(features, labels, form.n_features, form.n_labels)
