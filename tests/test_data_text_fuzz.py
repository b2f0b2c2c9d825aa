"""The kernels against the slow reference parser: on valid files, on mutated ones, on numbers near rounding edges."""

import random
import re
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxml_mpi.data.dataset import Dataset, Lists, Matrix
from proxml_mpi.data.files import pad_content
from proxml_mpi.data.text import parse_text, read_text, write_text
from proxml_mpi.data.text_lines import parse_lines
from proxml_mpi.data.text_reference import LARGEST_ID_COUNT, Form, parse_header, parse_line
from proxml_mpi.errors import DataError

N_MUTATED = 3000
EXOTIC = [
    b"nan", b"inf", b"-1", b"1e400", b"-1e-400", b"99999999999999999999", b"2147483648", b"0x1p3", b"1_0", b"1.5",
    b":", b",", b"::", b",,", b"\r", b"\0", b"\xff", b"\n", b"\n\n", b" ", b"\t", b"", b"+", b".", b"e", b"0000000001",
    b"0:0", b"1e-46",
    b"3.4028235677973366e38", b"3.4028235677973365e38", b"\xef\xbb\xbf",
    b"1" * 40, b"0." + b"0" * 60 + b"1", b"1e2147483648",
]  # fmt: skip


def reference(content):
    """Parse a whole file line by line in Python."""
    content = content.removeprefix(b"\xef\xbb\xbf")
    if not content:
        raise DataError("x", "the file is empty, expected the header 'N D L'")
    lines = content.removesuffix(b"\n").split(b"\n")
    header = parse_header(lines[0], "x")
    wanted = header.n_instances
    found = [parse_line(line, header, "x", number) for number, line in enumerate(lines[1 : wanted + 1], start=2)]
    n_lines = len(lines) - 1
    if n_lines < wanted:
        raise DataError("x", f"the file ends after {n_lines} instances, the header promises {wanted}", line=n_lines + 1)
    if n_lines > wanted:
        problem = f"found {n_lines} instances, the header promises {wanted}; here is the first too many"
        raise DataError("x", problem, line=wanted + 2)
    return assemble(found, header)


def assemble(found, header):
    """Put the instances of a file together."""
    indptr = np.cumsum([0] + [len(instance.features) for instance in found])
    label_indptr = np.cumsum([0] + [len(instance.labels) for instance in found])
    indices = np.array([feature for instance in found for feature in instance.features], np.int32)
    values = np.array([value for instance in found for value in instance.values], np.float32)
    labels = np.array([label for instance in found for label in instance.labels], np.int32)
    return Dataset(Matrix(indptr, indices, values), Lists(label_indptr, labels), header.n_features, header.n_labels)


def outcome(parse):
    """What a parser makes of a file, comparable: the content or the complaint."""
    try:
        dataset = parse()
    except DataError as error:
        return str(error)
    arrays = (*dataset.features, *dataset.labels)
    return dataset.n_features, dataset.n_labels, [(array.dtype.str, array.tobytes()) for array in arrays]


def check(content, n_threads):
    expected = outcome(lambda: reference(content))
    found = outcome(lambda: parse_text(content, "x", n_threads))
    assert found == expected, content
    return isinstance(expected, str)


FORMS = {
    "libsvm": Form(None, LARGEST_ID_COUNT, 300, 1, 1, n_header_lines=0),
    "matrix": Form(None, 40, 1, n_header_lines=0, has_label_column=False),
}


def check_lines(content, form, n_threads):
    """The same for lines without a header."""
    lines = content.removesuffix(b"\n").split(b"\n") if content else []

    def by_reference():
        return assemble([parse_line(line, form, "x", number) for number, line in enumerate(lines, start=1)], form)

    def by_kernels():
        features, labels = parse_lines(pad_content(content), 0, form, "x", n_threads)
        return Dataset(features, labels, form.n_features, form.n_labels)

    expected = outcome(by_reference)
    assert outcome(by_kernels) == expected, content
    return isinstance(expected, str)


numbers = st.one_of(
    st.floats(width=32, allow_nan=False, allow_infinity=False).map(repr),
    st.floats(-3e38, 3e38).map(repr),
    st.integers(-(10**25), 10**25).map(str),
    st.from_regex(r"[+-]?([0-9]{1,22}\.?[0-9]{0,22}|\.[0-9]{1,22})([eE][+-]?[0-9]{1,2})?", fullmatch=True),
).filter(lambda token: abs(float(token)) < 3.4e38)
blanks = st.sampled_from([" ", "  ", "\t", " \t "])


@st.composite
def valid_files(draw):
    n_features, n_labels = draw(st.integers(1, 30)), draw(st.integers(1, 12))
    ending = draw(st.sampled_from(["\n", "\r\n"]))
    lines = []
    for _ in range(draw(st.integers(1, 12))):
        labels = draw(st.lists(st.integers(0, n_labels - 1), unique=True, max_size=5))
        features = draw(st.lists(st.integers(0, n_features - 1), unique=True, max_size=8))
        entries = "".join(draw(blanks) + f"{feature}:{draw(numbers)}" for feature in features)
        trailing = draw(st.sampled_from(["", " ", "\t"]))
        lines.append(",".join(map(str, labels)) + entries + trailing)
    head = f"{len(lines)} {n_features} {n_labels}"
    last = ending if draw(st.booleans()) or not lines[-1] else ""
    return (ending.join([head, *lines]) + last).encode()


@settings(max_examples=150, deadline=None)
@given(valid_files())
def test_valid_files_agree_with_the_reference(content):
    assert not check(content, 1)
    assert not check(content, 3)


@st.composite
def datasets(draw):
    n_instances, n_features, n_labels = draw(st.integers(1, 8)), draw(st.integers(1, 20)), draw(st.integers(1, 8))
    rows = [sorted(draw(st.sets(st.integers(0, n_features - 1), max_size=6))) for _ in range(n_instances)]
    labels = [sorted(draw(st.sets(st.integers(0, n_labels - 1), max_size=4))) for _ in range(n_instances)]
    indices = np.array([feature for row in rows for feature in row], np.int32)
    value = st.floats(width=32, allow_nan=False, allow_infinity=False).filter(bool)
    values = np.array(draw(st.lists(value, min_size=len(indices), max_size=len(indices))), np.float32)
    indptr, label_indptr = (np.cumsum([0, *map(len, lists)]) for lists in (rows, labels))
    label_indices = np.array([label for row in labels for label in row], np.int32)
    return Dataset(Matrix(indptr, indices, values), Lists(label_indptr, label_indices), n_features, n_labels)


@settings(max_examples=150, deadline=None)
@given(datasets())
def test_what_is_written_is_read_back(tmp_path_factory, dataset):
    path = tmp_path_factory.mktemp("round") / "data.txt"
    write_text(path, dataset)
    assert read_text(path, 2).digest == dataset.digest


def valid_file(rng):
    """A small valid file, quickly."""
    n_features, n_labels, n_instances = rng.choice([3, 40, 10**9]), rng.choice([2, 9, 300]), rng.randint(1, 8)
    lines = [b"%d %d %d" % (n_instances, n_features, n_labels)]
    for _ in range(n_instances):
        labels = sorted({rng.randrange(n_labels) for _ in range(rng.randint(0, 3))})
        features = sorted({rng.randrange(n_features) for _ in range(rng.randint(0, 6))})
        if rng.random() < 0.2:
            rng.shuffle(features)
        values = [rng.choice([f"{rng.random():.6g}", str(rng.randint(0, 30)), repr(rng.gauss(0, 1))]) for _ in features]
        entries = "".join(f" {feature}:{value}" for feature, value in zip(features, values, strict=True))
        lines.append((",".join(map(str, labels)) + entries).encode())
    return b"\n".join(lines) + rng.choice([b"\n", b"\n", b""])


def mutate(rng, content):
    """Do to a file what disks, networks and people do."""
    here, there = sorted(rng.randrange(len(content) + 1) for _ in range(2))
    match rng.randrange(13):
        case 0:
            flipped = content[here : here + 1]
            return content[:here] + bytes([byte ^ 1 << rng.randrange(8) for byte in flipped]) + content[here + 1 :]
        case 1:
            return content[:here]
        case 2:
            return content[:here] + content[min(there, here + 6) :]
        case 3:
            return content[:here] + content[here:there] + content[here:]
        case 4 | 5:
            return content[:here] + rng.choice(EXOTIC) + content[min(there, here + rng.randrange(3)) :]
        case 6:
            return content[:here] + rng.randbytes(rng.randint(1, 20)) + content[here:]
        case 7:
            header = b" ".join(rng.choice([b"1", b"2", b"7", b"2147483647", b"0", b"-3", b"x"]) for _ in range(3))
            return header + content[content.find(b"\n") :]
        case 8:
            swapped = {b" ": b":", b":": b" ", b",": b" ", b"\n": b" "}
            byte = rng.choice(list(swapped))
            return content[:here] + content[here:].replace(byte, swapped[byte], 1)
        case 9:
            return content.replace(b"\n", b"\r\n")
        case 10:
            return content[:here] + content[here:].replace(b" ", b" \t ", 1)
        case _:
            old, new = (b"%d" % rng.randrange(10) for _ in range(2))
            return content[:here] + content[here:].replace(old, new, 1)


def run_mutations(seed, n_files, kind="xmc"):
    """Compare kernels and reference on mutated files; returns how many were refused."""
    rng = random.Random(seed)
    n_refused = 0
    for number in range(n_files):
        content = valid_file(rng)
        if kind != "xmc":
            content = content.partition(b"\n")[2]
        if kind == "libsvm":
            content = re.sub(
                rb"[0-9]+(?=:)|(?m:^[0-9]+)|(?<=,)[0-9]+", lambda number: b"%d" % (int(number[0]) + 1), content
            )
        if kind == "matrix":
            content = re.sub(rb"^[0-9,]* ?", b"", content, flags=re.MULTILINE)
        for _ in range(rng.choice([1, 1, 2, 3])):
            content = mutate(rng, content) if content else content
        n_threads = 1 if number % 2 else 3
        n_refused += check(content, n_threads) if kind == "xmc" else check_lines(content, FORMS[kind], n_threads)
    return n_refused


@pytest.mark.parametrize(("kind", "n_files"), [("xmc", N_MUTATED), ("libsvm", 1000), ("matrix", 1000)])
def test_mutated_files_agree_with_the_reference(kind, n_files):
    n_refused = run_mutations(1, n_files, kind)
    assert 0.3 * n_files < n_refused < 0.9 * n_files


def midpoints(rng, n):
    """Decimals at and beside the point halfway between two neighbouring float32 numbers."""
    for _ in range(n):
        low = np.frombuffer(rng.randbytes(4), np.float32)[0]
        if not np.isfinite(low):
            continue
        with localcontext() as context:
            context.prec = 200
            high = np.nextafter(low, np.float32(0))
            middle = (Decimal(float(low)) + Decimal(float(high))) / 2
            for digits in (15, 17, 18, 19, 20, 40, 120):
                yield f"{middle:.{digits}e}"
            yield str(middle)


def random_tokens(rng, n):
    for _ in range(n):
        digits = "".join(rng.choice("0123456789") for _ in range(rng.randint(1, 25)))
        point = rng.randint(0, len(digits))
        exponent = rng.choice(["", "", f"e{rng.randint(-50, 25)}", f"E+{rng.randint(0, 15)}"])
        yield rng.choice(["", "-", "+"]) + digits[:point] + "." + digits[point:] + exponent
        yield repr(rng.random())
        yield f"{rng.random():.{rng.randint(1, 12)}g}"
        yield str(rng.randint(0, 10 ** rng.randint(1, 20)))


@pytest.mark.parametrize("tokens", [midpoints, random_tokens])
def test_numbers_round_as_numpy_rounds_python_floats(tokens):
    with np.errstate(over="ignore"):
        rounded = [(token, np.float32(float(token))) for token in tokens(random.Random(5), 8000)]
    kept = [(token, value) for token, value in rounded if np.isfinite(value) and value != 0]
    assert len(kept) > 20_000
    content = f"{len(kept)} 1 1\n" + "".join(f" 0:{token}\n" for token, _ in kept)
    found = parse_text(content.encode(), "x", 2).features.values
    expected = np.array([value for _, value in kept], np.float32)
    np.testing.assert_array_equal(found.view(np.int32), expected.view(np.int32))
