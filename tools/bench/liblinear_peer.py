"""LIBLINEAR's L1-regularised L2-loss classifier (-s 5) on the problem of one label; only its C code is timed."""

import time
from typing import NamedTuple

import numpy as np
import scipy.sparse
from liblinear.liblinear import liblinear, parameter, problem, toPyModel
from numpy.typing import NDArray

from proxml_mpi.solve.problem import Problem


class LiblinearSolution(NamedTuple):
    """What LIBLINEAR returns for one label."""

    weights: NDArray[np.float64]  # [n_features]
    bias: float
    seconds: float  # of processor time


class Liblinear:
    """One data set, handed to LIBLINEAR once; the bias is a column of ones, regularised like the others."""

    def __init__(self, features: Problem) -> None:
        self.n_instances, self.n_features = len(features.row_start) - 1, len(features.column_start) - 1
        arrays = (features.row_value.astype(np.float64), features.row_feature, features.row_start)
        rows = scipy.sparse.csr_matrix(arrays, shape=(self.n_instances, self.n_features))
        self._problem = problem(np.full(self.n_instances, -1.0), rows, bias=1)
        self._y = np.ctypeslib.as_array(self._problem.y, (self.n_instances,))

    def solve(self, positives: NDArray[np.int32], penalty: float, eps: float) -> LiblinearSolution:
        """Solve one label with C = 1 / lambda, which is the same problem up to the factor lambda."""
        self._y[:] = -1.0
        self._y[positives] = 1.0
        settings = parameter(f"-s 5 -c {1.0 / penalty!r} -e {eps!r} -q")
        began = time.process_time()
        model = toPyModel(liblinear.train(self._problem, settings))
        seconds = time.process_time() - began
        sign = 1.0 if model.get_labels()[0] == 1 else -1.0
        weights = sign * np.ctypeslib.as_array(model.w, (self.n_features + 1,))
        return LiblinearSolution(weights[:-1].copy(), float(weights[-1]), seconds)
