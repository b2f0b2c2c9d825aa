# mypy: ignore-errors
"""Kernels of the text readers: bytes in, arrays out, at the speed of memory.

The text, uint8, ends in at least 64 newlines beyond the last line, so that a look ahead never leaves the array and
every loop over digits or blanks ends without asking where the end is. A kernel that meets anything it is not sure of
stops at the beginning of that line and leaves it to `text_reference`: malformed lines, but also the rare number whose
rounding it cannot guarantee.
"""

import numpy as np
from numba import njit

from proxml_mpi.data.number_kernels import load_byte, read_id, read_value

TAB, NEWLINE, RETURN, SPACE, COMMA, COLON = 9, 10, 13, 32, 44, 58


@njit(nogil=True, cache=True)
def next_line(text, position):
    """Find the beginning of the line after the one at a position."""
    while text[position] != NEWLINE:
        position += 1
    return position + 1


@njit(nogil=True, cache=True)
def count_marks(text, begin, end):
    """Count newlines, colons and commas: bounds on the lines, features and labels in a range of bytes."""
    n_newlines = n_colons = n_commas = 0
    while begin < end:
        # Counters of one byte, emptied before they can overflow, let the compiler use whole vector registers.
        newlines = colons = commas = np.uint8(0)
        for byte in text[begin : min(begin + 128, end)]:
            newlines = np.uint8(newlines + np.uint8(byte == NEWLINE))
            colons = np.uint8(colons + np.uint8(byte == COLON))
            commas = np.uint8(commas + np.uint8(byte == COMMA))
        n_newlines += newlines
        n_colons += colons
        n_commas += commas
        begin += 128
    return n_newlines, n_colons, n_commas


@njit(nogil=True)
def _sort(ids, values):
    """Sort ids ascending and move their values along; heap sort, which no input makes slow. Tell whether all differ."""
    n = len(ids)
    for step in range(n // 2 + n - 1, 0, -1):
        # First every parent, last to first, sinks into a heap of all; then the largest leaves it and the last sinks.
        root, size = (step - n, n) if step >= n else (0, step)
        if step < n:
            _swap(ids, values, root, size)
        while 2 * root + 1 < size:
            child = 2 * root + 1
            if child + 1 < size and ids[child] < ids[child + 1]:
                child += 1
            if ids[root] >= ids[child]:
                break
            _swap(ids, values, root, child)
            root = child
    all_differ = True
    for place in range(1, n):
        all_differ &= ids[place - 1] != ids[place]
    return all_differ


@njit(nogil=True)
def _swap(ids, values, here, there):
    ids[here], ids[there] = ids[there], ids[here]
    values[here], values[there] = values[there], values[here]


@njit(nogil=True)
def _drop_zeros(ids, values):
    """Close the gaps that zero values leave; returns the number of the other values."""
    kept = 0
    for place in range(len(ids)):
        if values[place] != 0:
            ids[kept], values[kept] = ids[place], values[place]
            kept += 1
    return kept


@njit(nogil=True)
def _read_labels(at, first_label, n_labels, labels, place):
    """Read the labels of a line: the address after them (-1: unsure) and the next free place."""
    begin, previous, is_ascending = place, -1, True
    if load_byte(at) <= SPACE:
        return at, place
    while True:
        label, at = read_id(at)
        label -= first_label
        if label < 0 or label >= n_labels:
            return np.int64(-1), begin
        labels[place] = label
        place += 1
        is_ascending &= label > previous
        previous = label
        if load_byte(at) != COMMA:
            break
        at += 1
    no_values = np.empty(0 if is_ascending else place - begin, np.float32)
    if not is_ascending and not _sort(labels[begin:place], no_values):
        return np.int64(-1), begin
    return at, place


@njit(nogil=True)
def _read_features(at, first_feature, n_features, features, values, place, has_label_column):
    """Read the features of a line: the address of its newline (-1: unsure) and the next free place."""
    needs_no_blank = np.int64(0) if has_label_column else at
    begin, previous, is_ascending, has_zero = place, -1, True, False
    while True:
        after_blanks = at
        while load_byte(after_blanks) == SPACE or load_byte(after_blanks) == TAB:
            after_blanks += 1
        if load_byte(after_blanks) <= RETURN:
            at = after_blanks + (load_byte(after_blanks) == RETURN)
            break
        feature, after = read_id(after_blanks)
        feature -= first_feature
        if feature < 0 or feature >= n_features or load_byte(after) != COLON:
            return np.int64(-1), begin
        if after_blanks == at and at != needs_no_blank:
            return np.int64(-1), begin
        value, at = read_value(after + 1)
        if at < 0:
            return np.int64(-1), begin
        features[place], values[place] = feature, value
        place += 1
        is_ascending &= feature > previous
        has_zero |= value == 0
        previous = feature
    if load_byte(at) != NEWLINE:
        return np.int64(-1), begin
    if not is_ascending and not _sort(features[begin:place], values[begin:place]):
        return np.int64(-1), begin
    if has_zero:
        place = begin + _drop_zeros(features[begin:place], values[begin:place])
    return at, place


@njit(nogil=True, cache=True)
def read_lines(text, position, instance, end_instance, form, counts, features, values, labels, place, label_place):
    """Read instances until the last one or the first unsure line.

    form is (first_feature, n_features, first_label, n_labels, has_label_column); counts, int64 [2, n_instances],
    receives the features and labels of every instance. Returns position, instance, and free places of features and
    labels at which the next line begins.
    """
    first_feature, n_features, first_label, n_labels, has_label_column = form
    base = np.int64(text.ctypes.data)
    at = base + position
    while instance < end_instance:
        after, label_end = at, label_place
        if has_label_column:
            after, label_end = _read_labels(at, first_label, n_labels, labels, label_place)
            if after < 0:
                break
        after, end = _read_features(after, first_feature, n_features, features, values, place, has_label_column)
        if after < 0:
            break
        counts[0, instance], counts[1, instance] = end - place, label_end - label_place
        at, instance, place, label_place = after + 1, instance + 1, end, label_end
    return at - base, instance, place, label_place
