"""The Gram matrix of columns of the quadratic model, and Cholesky's factorisation; lower triangles, row after row."""

import numpy as np
from numpy.typing import NDArray

from proxml_mpi.solve.newton_data import ACTIVE, FEW, LIST, SUM, Workspace, inner
from proxml_mpi.solve.newton_model import Model

ONE, UNIT = np.uint64(1), np.uint32(1)


@inner
def list_rows(work: Workspace, model: Model, size: int) -> int:
    """List the entries of the listed columns by active rows, behind those of the model; return where they begin."""
    start, listed, row_end = work.starts[FEW], work.features[LIST], work.instances[ACTIVE]
    first = start[model.n_columns]
    for r in range(model.n_active):
        row_end[r] = 0
    for k in range(size):
        for entry in range(start[listed[k]], start[listed[k] + 1]):
            row_end[model.row[entry]] += 1
    # From lengths to where rows end; filling a row from its end moves that to its beginning.
    end = 0
    for r in range(model.n_active):
        end += row_end[r]
        row_end[r] = end
    for k in range(size - 1, -1, -1):
        for entry in range(start[listed[k]], start[listed[k] + 1]):
            r = model.row[entry]
            row_end[r] -= UNIT
            at = first + row_end[r]
            model.row_column[at] = k
            model.row_value[at] = model.value[entry]
    row_end[model.n_active] = end
    return int(first)


@inner
def fill_gram(work: Workspace, model: Model, size: int, is_free: bool) -> None:
    """Fill the lower triangle of work.gram with X'X (- s s'/m) + mu/2 of the listed columns, and a little more.

    Row by row: what two columns share is far less than what either has.
    """
    gram, s, listed, row_end = work.gram, work.columns[SUM], work.features[LIST], work.instances[ACTIVE]
    first = np.uint64(list_rows(work, model, size))
    for i in range(size):
        at = triangle(i)
        pull = s[listed[i]] / model.m if is_free else 0.0
        for k in range(i + 1):
            gram[at + k] = -pull * s[listed[k]]
    for r in range(model.n_active):
        begin, end = first + row_end[r], first + row_end[r + 1]
        for one in range(begin, end):
            at, x = triangle(model.row_column[one]), np.float64(model.row_value[one])
            for two in range(begin, one + ONE):
                gram[at + model.row_column[two]] += x * model.row_value[two]
    top = 0.0
    for k in range(size):
        top = max(top, gram[triangle(k) + k])
    for k in range(size):
        gram[triangle(k) + k] += 1e-7 * top + model.half_ridge


@inner
def triangle(i: int) -> int:
    """Return where row i of a lower triangle begins, all rows being kept one after the other."""
    return i * (i + 1) // 2


@inner
def solve_dense(a: NDArray[np.float64], x: NDArray[np.float64], n: int, columns: NDArray[np.float64]) -> bool:
    """Overwrite x [n] with the solution of A x = x, the lower triangle of A with L of A = L L'; False when singular.

    columns [4, n] is room for four columns of L.
    """
    if not factorise(a, n, columns):
        return False
    for i in range(n):
        at = triangle(i)
        total = x[i]
        for k in range(i):
            total -= a[at + k] * x[k]
        x[i] = total / a[at + i]
    for i in range(n - 1, -1, -1):
        at = triangle(i)
        x[i] /= a[at + i]
        for k in range(i):
            x[k] -= a[at + k] * x[i]
    return True


@inner
def factorise(a: NDArray[np.float64], n: int, columns: NDArray[np.float64]) -> bool:
    """Overwrite the lower triangle of A with L of A = L L', four columns at a time; False when singular."""
    c0, c1, c2, c3 = columns[0], columns[1], columns[2], columns[3]
    for first in range(0, n, 4):
        last = min(first + 4, n)
        for i in range(first, n):
            at = triangle(i)
            for k in range(first, min(last, i + 1)):
                pivot = triangle(k)
                total = a[at + k]
                for m in range(first, k):
                    total -= a[at + m] * a[pivot + m]
                if k < i:
                    a[at + k] = total / a[pivot + k]
                elif total > 0.0:
                    a[at + k] = np.sqrt(total)
                else:
                    return False
                columns[k - first, i] = a[at + k]
            if i >= last:
                f0, f1, f2, f3 = c0[i], c1[i], c2[i], c3[i]
                for k in range(last, i + 1):
                    a[at + k] -= (f0 * c0[k] + f1 * c1[k]) + (f2 * c2[k] + f3 * c3[k])
    return True
