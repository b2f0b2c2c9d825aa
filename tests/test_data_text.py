"""XMC text: what is read, what is refused and in which words, packed files, writing."""

import gzip
import lzma
import os
import sys
from pathlib import Path

import numpy as np
import pytest
import zstandard

from proxml_mpi.data.files import read_beginning
from proxml_mpi.data.names import read_names
from proxml_mpi.data.text import parse_text, read_text, write_text
from proxml_mpi.errors import DataError, FileError

GOOD = b"3 5 4\n0,2 0:1 3:0.5\n 1:2\n3\n"


def rows(dataset):
    """The data set as plain lists: for every instance its labels and its (feature, value) pairs."""
    features, labels = dataset.features, dataset.labels
    return [
        (
            labels.indices[labels.indptr[row] : labels.indptr[row + 1]].tolist(),
            [
                (int(features.indices[entry]), float(features.values[entry]))
                for entry in range(features.indptr[row], features.indptr[row + 1])
            ],
        )
        for row in range(dataset.n_instances)
    ]


def test_plain_example():
    dataset = parse_text(GOOD, "good.txt")
    assert rows(dataset) == [([0, 2], [(0, 1.0), (3, 0.5)]), ([], [(1, 2.0)]), ([3], [])]
    assert (dataset.n_instances, dataset.n_features, dataset.n_labels) == (3, 5, 4)
    arrays = (*dataset.features, *dataset.labels)
    assert [array.dtype.name for array in arrays] == ["int64", "int32", "float32", "int64", "int32"]


@pytest.mark.parametrize(
    ("line", "labels", "entries"),
    [
        (b"", [], []),
        (b" ", [], []),
        (b"\t", [], []),
        (b"2", [2], []),
        (b"2 ", [2], []),
        (b"3,0,2 4:1 0:2", [0, 2, 3], [(0, 2.0), (4, 1.0)]),
        (b" 1:1   2:2\t3:3 \t", [], [(1, 1.0), (2, 2.0), (3, 3.0)]),
        (b"0 1:+1.5 2:-2.5e-1 3:.5 4:5.", [0], [(1, 1.5), (2, -0.25), (3, 0.5), (4, 5.0)]),
        (b"0 1:1E2 2:1e+2 3:00012.5", [0], [(1, 100.0), (2, 100.0), (3, 12.5)]),
        (b"0003 0000000000000000000002:1", [3], [(2, 1.0)]),
        (b"0 1:0 2:-0.0 3:1e-60 4:7", [0], [(4, 7.0)]),
        (b"0 4:1 1:0 0:2", [0], [(0, 2.0), (4, 1.0)]),
        (
            b"0 0:12345678901234567890 1:3.4028234e38 2:0e999",
            [0],
            [(0, 1.2345678901234567e19), (1, 3.4028234663852886e38)],
        ),
    ],
)
@pytest.mark.parametrize("ending", [b"", b"\n", b"\r\n"])
def test_accepted_lines(line, labels, entries, ending):
    content = b"1 5 4\n" + line + (ending if line else b"\n")  # nothing at all would be no line
    found_labels, found_entries = rows(parse_text(content, "x"))[0]
    assert found_labels == labels
    assert [feature for feature, _ in found_entries] == [feature for feature, _ in entries]
    np.testing.assert_allclose([value for _, value in found_entries], [value for _, value in entries], rtol=1e-7)


def test_byte_order_mark_and_crlf_are_accepted():
    dataset = parse_text(b"\xef\xbb\xbf" + GOOD.replace(b"\n", b"\r\n"), "x")
    assert dataset.digest == parse_text(GOOD, "x").digest


MALFORMED = {
    "empty file": (b"", "x: the file is empty, expected the header 'N D L'"),
    "byte order mark alone": (b"\xef\xbb\xbf", "x: the file is empty"),
    "blank header": (b"\n0 1:1\n", "x:1: header: found '', expected three whole numbers 'N D L'"),
    "no header": (b"0,1 1:1 2:1 3:1\n", "x:1: header: found '0,1 1:1 2:1 3:1', expected three whole numbers"),
    "header of two": (b"1 5\n 1:1\n", "x:1: header: found '1 5', expected three whole numbers 'N D L'"),
    "header of four": (b"1 5 4 1\n 1:1\n", "x:1: header: found '1 5 4 1', expected three whole numbers"),
    "header word": (b"1 five 4\n 1:1\n", "x:1: header: 'five' is not a whole number, expected three"),
    "header fraction": (b"1 5.0 4\n 1:1\n", "x:1: header: '5.0' is not a whole number"),
    "header negative": (b"-1 5 4\n 1:1\n", "x:1: header: '-1' is negative"),
    "header zero": (b"1 0 4\n\n", "x:1: header: found '0', expected at least 1 instance, 1 feature and 1 label"),
    "header too large": (
        b"1 2147483648 4\n 1:1\n",
        "x:1: header: '2147483648' is too large, expected at most 2147483647",
    ),
    "header huge": (b"1 5 " + b"9" * 5000 + b"\n", "x:1: header: '" + "9" * 37 + "...' is too large"),
    "binary header": (b"\x89PNG\r\n\x1a\n\0\0", "x:1: header: found '\\x89PNG\\r', expected three whole numbers"),
    "label word": (
        b"1 5 4\nsport 1:1\n",
        "x:2: label id 'sport' is not a whole number, expected a label id from 0 to 3",
    ),
    "label fraction": (b"1 5 4\n1.5 1:1\n", "x:2: label id '1.5' is not a whole number"),
    "label negative": (b"1 5 4\n0,-1 1:1\n", "x:2: label id '-1' is negative, expected a label id from 0 to 3"),
    "label out of range": (b"1 5 4\n4 1:1\n", "x:2: label id '4' is out of range, the header allows 0 to 3"),
    "label huge": (b"1 5 4\n4294967296 1:1\n", "x:2: label id '4294967296' is out of range"),
    "label beyond integers": (b"1 5 4\n18446744073709551616 1:1\n", "x:2: label id '18446744073709551616' is out of"),
    "label empty": (b"1 5 4\n0,,1 1:1\n", "x:2: a label id is empty in '0,,1', expected a label id from 0 to 3"),
    "label comma first": (b"1 5 4\n,1 1:1\n", "x:2: a label id is empty in ',1'"),
    "label comma last": (b"1 5 4\n0, 1:1\n", "x:2: a label id is empty in '0,'"),
    "label repeated": (b"1 5 4\n2,0,2 1:1\n", "x:2: label 2 is repeated in one instance, in '2,0,2'; expected it once"),
    "labels missing": (b"1 5 4\n1:1 2:1\n", "x:2: found '1:1' in the place of labels, expected ids like 3,17; a line"),
    "feature without colon": (b"1 5 4\n0 1:1 2\n", "x:2: found '2', expected feature:value (there is no colon)"),
    "feature word": (
        b"1 5 4\n0 cat:1\n",
        "x:2: feature id 'cat' is not a whole number, expected a feature id from 0 to 4",
    ),
    "feature sign": (b"1 5 4\n0 +1:1\n", "x:2: feature id '+1' is not a whole number"),
    "feature negative": (b"1 5 4\n0 -1:1\n", "x:2: feature id '-1' is negative, expected a feature id from 0 to 4"),
    "feature out of range": (b"1 5 4\n0 5:1\n", "x:2: feature id '5' is out of range, the header allows 0 to 4"),
    "feature empty": (b"1 5 4\n0 :1\n", "x:2: a feature id is empty in ':1', expected a feature id from 0 to 4"),
    "feature repeated": (
        b"1 5 4\n0 1:1 1:2\n",
        "x:2: feature 1 is repeated in one instance, by '1:2'; expected it once",
    ),
    "feature repeated apart": (b"1 5 4\n0 3:1 1:2 3:1\n", "x:2: feature 3 is repeated in one instance, by '3:1'"),
    "feature repeated as zero": (b"1 5 4\n0 1:0 1:2\n", "x:2: feature 1 is repeated in one instance, by '1:2'"),
    "value empty": (b"1 5 4\n0 1: 2:1\n", "x:2: the value is empty in '1:', expected feature:value"),
    "value word": (b"1 5 4\n0 1:one\n", "x:2: value 'one' in '1:one' is not a number"),
    "value of two points": (b"1 5 4\n0 1:1.2.3\n", "x:2: value '1.2.3' in '1:1.2.3' is not a number"),
    "value of two colons": (b"1 5 4\n0 1:2:3\n", "x:2: value '2:3' in '1:2:3' is not a number"),
    "value point alone": (b"1 5 4\n0 1:.\n", "x:2: value '.' in '1:.' is not a number"),
    "value sign alone": (b"1 5 4\n0 1:-\n", "x:2: value '-' in '1:-' is not a number"),
    "value exponent alone": (b"1 5 4\n0 1:1e\n", "x:2: value '1e' in '1:1e' is not a number"),
    "value underscore": (b"1 5 4\n0 1:1_0\n", "x:2: value '1_0' in '1:1_0' is not a number"),
    "value hexadecimal": (b"1 5 4\n0 1:0x10\n", "x:2: value '0x10' in '1:0x10' is not a number"),
    "value comma": (b"1 5 4\n0 1:0,5\n", "x:2: value '0,5' in '1:0,5' is not a number"),
    "nan": (b"1 5 4\n0 1:NaN\n", "x:2: value 'NaN' in '1:NaN' is not finite, expected a finite number"),
    "infinity": (b"1 5 4\n0 1:-inf\n", "x:2: value '-inf' in '1:-inf' is not finite"),
    "overflow of float32": (
        b"1 5 4\n0 1:3.5e38\n",
        "x:2: value '3.5e38' in '1:3.5e38' is too large, float32 ends at 3.4e38",
    ),
    "overflow of float64": (b"1 5 4\n0 1:1e999\n", "x:2: value '1e999' in '1:1e999' is too large"),
    "NUL": (b"1 5 4\n0 1:1\0\n", "x:2: value '1\\x00' in '1:1\\x00' is not a number"),
    "NUL line": (b"1 5 4\n\0\n", "x:2: label id '\\x00' is not a whole number"),
    "not ASCII": (b"1 5 4\n0 1:\xd9\xa1\n", "x:2: value '\\xd9\\xa1' in '1:\\xd9\\xa1' is not a number"),
    "return inside": (b"1 5 4\n0 1:1\r2:1\n", "x:2: value '1\\r2:1' in '1:1\\r2:1' is not a number"),
    "second line": (b"2 5 4\n0 1:1\n0 1:x\n", "x:3: value 'x' in '1:x' is not a number"),
    "header only": (b"2 5 4\n", "x:1: the file ends after 0 instances, the header promises 2"),
    "too few lines": (b"3 5 4\n0 1:1\n\n", "x:3: the file ends after 2 instances, the header promises 3"),
    "far too few lines": (
        b"2147483647 5 4\n0 1:1\n",
        "x:2: the file ends after 1 instances, the header promises 2147483647",
    ),
    "too many lines": (
        b"1 5 4\n0 1:1\n0 1:1\n",
        "x:3: found 2 instances, the header promises 1; here is the first too many",
    ),
    "empty line too many": (b"1 5 4\n0 1:1\n\n", "x:3: found 2 instances, the header promises 1"),
}


@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("kind", MALFORMED)
def test_malformed(kind, n_threads):
    content, message = MALFORMED[kind]
    with pytest.raises(DataError) as caught:
        parse_text(content, "x", n_threads)
    assert str(caught.value).startswith(message)
    assert str(caught.value).isascii() and "\n" not in str(caught.value)


@pytest.mark.parametrize("n_threads", [1, 2, 5])
def test_first_bad_line_is_reported_whatever_the_threads(n_threads):
    lines = [b"0 1:1"] * 1000
    lines[400] = b"0 1:x"
    lines[700] = b"0 9:1"
    with pytest.raises(DataError, match=r"^x:402: value 'x'"):
        parse_text(b"900 5 4\n" + b"\n".join(lines), "x", n_threads)
    lines[400] = lines[700] = b""
    with pytest.raises(DataError, match=r"^x:902: found 1000 instances"):
        parse_text(b"900 5 4\n" + b"\n".join(lines), "x", n_threads)


def test_long_unsorted_line():
    order = np.random.default_rng(0).permutation(20_000)
    line = b"0 " + b" ".join(b"%d:%d" % (feature, feature + 1) for feature in order)
    features = parse_text(b"1 20000 1\n" + line, "x").features
    np.testing.assert_array_equal(features.indices, np.arange(20_000))
    np.testing.assert_array_equal(features.values, np.arange(20_000) + 1)


def two_members(data):
    """Two gzip members and the zero padding that tapes leave."""
    return gzip.compress(data[:7]) + gzip.compress(data[7:]) + bytes(512)


@pytest.mark.parametrize("pack", [bytes, gzip.compress, lzma.compress, two_members])
@pytest.mark.parametrize("name", ["data.txt", "data.gz"])
def test_packing_is_told_by_content(tmp_path, pack, name):
    (tmp_path / name).write_bytes(pack(GOOD))
    assert read_text(tmp_path / name, 2).digest == parse_text(GOOD, "x").digest


@pytest.mark.parametrize(("packing", "pack"), [("gzip", gzip.compress), ("xz", lzma.compress)])
@pytest.mark.parametrize("lost", [1, 5, 12])
def test_truncated_archives(tmp_path, packing, pack, lost):
    path = tmp_path / "data"
    path.write_bytes(pack(GOOD * 100)[:-lost])
    with pytest.raises(DataError, match=f"truncated {packing} file: it breaks off after"):
        read_text(path)


@pytest.mark.parametrize(("packing", "pack"), [("gzip", gzip.compress), ("xz", lzma.compress)])
def test_damaged_archives(tmp_path, packing, pack):
    path = tmp_path / "data"
    packed = bytearray(pack(GOOD * 100))
    packed[-6] ^= 0xFF
    path.write_bytes(packed)
    with pytest.raises(DataError, match=f"damaged {packing} file"):
        read_text(path)
    path.write_bytes(pack(GOOD) + b"garbage" * 10)
    with pytest.raises(DataError, match=f"damaged {packing} file"):
        read_text(path)


def test_the_beginning_of_a_packed_file(tmp_path):
    path = tmp_path / "data"
    for pack in (bytes, gzip.compress, lzma.compress, two_members):
        path.write_bytes(pack(GOOD))
        assert GOOD.startswith(read_beginning(path)) and read_beginning(path)
        path.write_bytes(pack(GOOD * 1000)[:-20])
        assert (GOOD * 1000).startswith(read_beginning(path))
    path.write_bytes(lzma.compress(bytes(1 << 28)))
    assert len(read_beginning(path, 1 << 16)) < 1 << 26
    path.write_bytes(b"\x1f\x8b" + bytes(range(60)))
    with pytest.raises(DataError, match="damaged gzip file"):
        read_beginning(path)


def test_zstd_without_its_package(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "zstandard", None)
    (tmp_path / "data.zst").write_bytes(b"\x28\xb5\x2f\xfd" + GOOD)
    with pytest.raises(DataError, match="needs the Python package 'zstandard'"):
        read_text(tmp_path / "data.zst")


def test_zstd_through_its_package(tmp_path):
    frame = zstandard.compress(GOOD)
    (tmp_path / "data").write_bytes(frame)
    assert read_text(tmp_path / "data").digest == parse_text(GOOD, "x").digest
    half = len(GOOD) // 2
    (tmp_path / "data").write_bytes(zstandard.compress(GOOD[:half]) + zstandard.compress(GOOD[half:]))
    assert read_text(tmp_path / "data").digest == parse_text(GOOD, "x").digest
    (tmp_path / "data").write_bytes(frame[:-3])
    with pytest.raises(DataError, match="truncated zstd file"):
        read_text(tmp_path / "data")
    (tmp_path / "data").write_bytes(frame[:4] + bytes(range(60)))
    with pytest.raises(DataError, match="damaged zstd file"):
        read_text(tmp_path / "data")


def test_unreadable_paths(tmp_path, monkeypatch):
    with pytest.raises(DataError, match="nothing: cannot be read: no such file"):
        read_text(tmp_path / "nothing")
    with pytest.raises(DataError, match="cannot be read: it is a directory, expected a file"):
        read_text(tmp_path)

    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(DataError, match="secret: cannot be read: permission denied"):
        read_text(tmp_path / "secret")


def test_pipe():
    reader, writer = os.pipe()
    os.write(writer, GOOD)
    os.close(writer)
    try:
        assert read_text(f"/dev/fd/{reader}").digest == parse_text(GOOD, "x").digest
    finally:
        os.close(reader)


def test_written_text_is_short_and_complete_or_absent(tmp_path):
    path = tmp_path / "out.txt"
    write_text(path, parse_text(b"2 5 4\n2,0 3:0.10 1:7.0 4:1e-20\n\n", "x"))
    assert path.read_bytes() == b"2 5 4\n0,2 1:7 3:0.1 4:1e-20\n \n"
    assert [entry.name for entry in tmp_path.iterdir()] == ["out.txt"]
    with pytest.raises(FileError, match="cannot be written: no such file"):
        write_text(tmp_path / "nowhere" / "out.txt", parse_text(GOOD, "x"))


def test_names(tmp_path):
    path = tmp_path / "names"
    path.write_bytes(gzip.compress("Grüße\r\nzwei Wörter\n\n".encode()))
    assert read_names(path, 3) == ("Grüße", "zwei Wörter", "")
    with pytest.raises(DataError, match="found 3 names, one a line, expected 4"):
        read_names(path, 4)
    path.write_bytes(b"one\n\xff\xfe\n")
    with pytest.raises(DataError, match=r"names:2: found b'\\xff\\xfe', expected a name in UTF-8"):
        read_names(path, 2)
    path.write_bytes(b"one\0\n")
    with pytest.raises(DataError, match="names:1: found a NUL byte"):
        read_names(path, 1)
    path.write_bytes(b"")
    with pytest.raises(DataError, match="found 0 names"):
        read_names(path, 1)
