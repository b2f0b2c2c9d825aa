"""The model file, format_version 1: what is in it, field by field.

Few datasets of exact size and no group per label, so that a million labels open as fast as ten. Weights lie by label
(CSR), feature ids ascending; certificates and facts are one array over the labels each.

    /                    attributes: format = "proxml-model", format_version, creator, created, command_line,
                         n_instances, n_features, n_labels, data_digest, every training setting under its option's
                         name, names (which there are), feature_counts_digest (of /features/n_instances),
                         header_digest (of the attributes and /features/idf)
    /weights/indptr      int64 [n_labels + 1]
    /weights/indices     int32 [n_weights]     feature ids
    /weights/data        float32 [n_weights]
    /bias                float32 [n_labels]    -inf: never predict this label (not trained, or without positives)
    /labels/...          see PER_LABEL; objective and duality_gap are those of the float32 weights in this file
    /labels/checksum     uint32 [n_labels]     CRC-32 of a label's feature ids, weights and facts (see checksums.py)
    /features/idf        float32 [n_features]  with --weighting tfidf
    /features/n_instances  int32 [n_features]  training instances with the feature, as read; older files lack it
    /names/labels, /names/features             UTF-8 strings of any length, when known; attribute digest
    /index/...           see INDEX; the same weights by feature, labels by bias descending, after --add-index;
                         attribute digest, of the index and of the labels' facts
"""

from typing import Any

import h5py

from proxml_mpi.solve.problem import Outcome

FORMAT = "proxml-model"
FORMAT_VERSION = 1

# Settings that files of before they existed lack, and what that means.
WHEN_ABSENT: dict[str, Any] = {"ridge": 0.0}

# Dataset over the labels -> (field of Block, dtype of the file).
PER_LABEL: dict[str, tuple[str, Any]] = {
    "bias": ("bias", "f4"),
    "labels/n_positives": ("n_positives", "i4"),
    "labels/objective": ("objective", "f8"),
    "labels/duality_gap": ("duality_gap", "f8"),
    "labels/iterations": ("iterations", "i4"),
    "labels/lambda": ("lambda_", "f8"),
    "labels/outcome": ("outcome", h5py.enum_dtype({o.name: o.value for o in Outcome}, basetype="u1")),
    "labels/seconds": ("seconds", "f4"),
}

CHECKSUM = "labels/checksum"
FEATURE_COUNTS = "features/n_instances"

# Dataset over the weights -> (field of Block, dtype of the file).
PER_WEIGHT: dict[str, tuple[str, Any]] = {
    "weights/indices": ("indices", "i4"),
    "weights/data": ("data", "f4"),
}

# The weights by feature: dataset -> (dtype of the file, whether there is one entry a weight rather than one a feature).
INDEX: dict[str, tuple[str, bool]] = {
    "index/indptr": ("i8", False),
    "index/labels": ("i4", True),
    "index/weights": ("f4", True),
}
