"""A model for other programs: .npz for scipy and numpy, .txt for LIBLINEAR, DiSMEC and what reads their models.

The .npz is one that scipy.sparse.load_npz opens as the weights, CSR [n_labels, n_features], and numpy.load with the
per-label arrays of the model file beside them.

The .txt is LIBLINEAR's model file: the classes are the labels, w has a line for every feature and a last one for the
bias, a column for every label. It is dense: a model of many labels and features has no place in it.
"""

from pathlib import Path
from typing import IO

import numpy as np
import scipy.sparse

from proxml_mpi.errors import FileError
from proxml_mpi.files import replace_file
from proxml_mpi.solve.block import Block
from proxml_mpi.store.model_reader import ModelHeader, read_labels

MOST_NUMBERS = 2 * 10**9  # of a text: 4 GB of zeros


def export(header: ModelHeader, path: Path) -> None:
    """Write a model in the format that the name of the file asks for."""
    n_numbers = header.n_labels * (header.n_features + 1)
    if path.suffix == ".txt" and n_numbers > MOST_NUMBERS:
        problem = f"would hold {n_numbers:,} numbers, expected at most {MOST_NUMBERS:,}: LIBLINEAR's text is dense"
        raise FileError(path, f"{problem}, .npz is sparse")
    block = read_labels(header, 0, header.n_labels)
    with replace_file(path) as stream:
        if path.suffix == ".npz":
            write_npz(stream, header, block)
        else:
            write_liblinear(stream, header, block)


def write_npz(stream: IO[bytes], header: ModelHeader, block: Block) -> None:
    """Write scipy's five arrays of a CSR matrix, and the facts of the labels."""
    # The plain type of every array: that of outcome carries HDF5's names of its values.
    facts = {name: values.astype(values.dtype.str) for name, values in block._asdict().items() if name != "first_label"}
    facts["lambda"] = facts.pop("lambda_")
    shape = np.array([header.n_labels, header.n_features])
    np.savez_compressed(stream, format=np.array(b"csr"), shape=shape, **facts)


def write_liblinear(stream: IO[bytes], header: ModelHeader, block: Block) -> None:
    """Write LIBLINEAR's model file."""
    n_labels = header.n_labels
    is_l2 = header.attributes.get("penalty") == "l2"
    # Of two classes LIBLINEAR keeps one column, except with this solver.
    solver = "MCSVM_CS" if n_labels == 2 else "L2R_L2LOSS_SVC" if is_l2 else "L1R_L2LOSS_SVC"
    head = ["solver_type " + solver, f"nr_class {n_labels}", "label " + " ".join(map(str, range(n_labels)))]
    head += [f"nr_feature {header.n_features}", "bias 1", "w", ""]
    stream.write("\n".join(head).encode())
    shape = (n_labels, header.n_features)
    columns = scipy.sparse.csr_array((block.data, block.indices, block.indptr), shape=shape).tocsc()
    zeros = ["0"] * n_labels
    for feature in range(header.n_features):
        entries = slice(columns.indptr[feature], columns.indptr[feature + 1])
        line = zeros.copy()
        for label, weight in zip(columns.indices[entries].tolist(), columns.data[entries].tolist(), strict=True):
            line[label] = f"{weight:.9g}"
        stream.write((" ".join(line) + " \n").encode())
    stream.write((" ".join(f"{bias:.9g}" for bias in block.bias.tolist()) + " \n").encode())
