"""LIBLINEAR's L1-regularised L2-loss classifier (-s 5) on the problem of one label; only its C code is timed.

It is coordinate descent with shrinking. eps is relative: it ends once the sum of violations is at most
eps x (share of the rarer of positives and negatives) x the sum at its start. Features that it has shrunk
away return only when the rest has met eps, and 1,000 iterations end it wherever it is: that number is written into its
code. For any other number there is scikit-learn's copy of the same code.
"""

import ctypes
import re
import time
import warnings
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from proxml_mpi.errors import UserError
from proxml_mpi.solve.problem import Problem

OWN_LIMIT = 1000  # of iterations
BYTES_PER_ENTRY = 32  # LIBLINEAR's nodes: once by row, once more by column while it solves


class LiblinearSolution(NamedTuple):
    """What LIBLINEAR returns for one label."""

    weights: NDArray[np.float64]  # [n_features]
    bias: float
    iterations: int
    n_returns: int | None  # how often shrunk features were let back; None where it does not tell
    seconds: float  # of processor time


class Liblinear:
    """One data set, handed to LIBLINEAR once; the bias is a column of ones, regularised like the others."""

    def __init__(self, features: Problem, has_bias: bool = True) -> None:
        self._library = import_liblinear()
        self._has_bias = has_bias
        self.n_instances, self.n_features = len(features.row_start) - 1, len(features.column_start) - 1
        arrays = (features.row_value.astype(np.float64), features.row_feature, features.row_start)
        self._rows = scipy.sparse.csr_matrix(arrays, shape=(self.n_instances, self.n_features))
        self._problem = self._library.problem(np.full(self.n_instances, -1.0), self._rows, bias=1 if has_bias else -1)
        self._y = np.ctypeslib.as_array(self._problem.y, (self.n_instances,))
        self._said: list[str] = []
        # The library keeps no reference to what it calls.
        self._listener = ctypes.CFUNCTYPE(None, ctypes.c_char_p)(lambda text: self._said.append(text.decode()))

    def solve(
        self, positives: NDArray[np.int32], penalty: float, eps: float, max_iterations: int = OWN_LIMIT
    ) -> LiblinearSolution:
        """Solve one label with C = 1 / lambda, which is the same problem up to the factor lambda.

        positives: neither none nor all of the instances. The result depends on nothing solved before.
        """
        self._y[:] = -1.0
        self._y[positives] = 1.0
        if max_iterations != OWN_LIMIT:
            return self._solve_by_scikit(penalty, eps, max_iterations)
        settings = self._library.parameter(f"-s 5 -c {float(1.0 / penalty)!r} -e {float(eps)!r} -q")
        self._said.clear()
        self._library.liblinear.set_print_string_function(self._listener)
        # It shuffles features by C's generator, which would go on from the last label.
        ctypes.CDLL(None).srand(1)
        began = time.process_time()
        found = self._library.liblinear.train(self._problem, settings)
        seconds = time.process_time() - began
        model = self._library.toPyModel(found)
        sign = 1.0 if model.get_labels()[0] == 1 else -1.0
        weights = sign * np.ctypeslib.as_array(model.w, (self.n_features + self._has_bias,))
        bias = float(weights[self.n_features]) if self._has_bias else 0.0
        iterations, n_returns = read_log("".join(self._said))
        return LiblinearSolution(weights[: self.n_features].copy(), bias, iterations, n_returns, seconds)

    def _solve_by_scikit(self, penalty: float, eps: float, max_iterations: int) -> LiblinearSolution:
        """Solve the label in hand with the copy of LIBLINEAR whose limit can be set."""
        classifier = import_scikit()(
            penalty="l1",
            loss="squared_hinge",
            dual=False,
            C=1.0 / penalty,
            tol=eps,
            max_iter=max_iterations,
            fit_intercept=self._has_bias,
            intercept_scaling=1.0,
            random_state=0,
        )
        began = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that the limit was reached is told by the number
            classifier.fit(self._rows, self._y)
        seconds = time.process_time() - began
        bias = float(classifier.intercept_[0]) if self._has_bias else 0.0
        return LiblinearSolution(classifier.coef_[0], bias, int(classifier.n_iter_), None, seconds)


def read_log(text: str) -> tuple[int, int]:
    """Return the iterations that LIBLINEAR tells of, and how often it let shrunk features back (a star each)."""
    found = re.search(r"#iter = (\d+)", text)
    if found is None:
        raise RuntimeError(f"LIBLINEAR said {text!r}, expected the number of its iterations")
    return int(found[1]), text[: found.start()].count("*")


def import_liblinear() -> Any:
    """Return the module of LIBLINEAR's own package."""
    try:
        import liblinear.liblinear
    except ImportError:
        message = "certify needs the Python package liblinear-official: pip install 'proxml-mpi[compare]'"
        raise UserError(message) from None
    return liblinear.liblinear


def import_scikit() -> Any:
    """Return scikit-learn's classifier."""
    try:
        from sklearn.svm import LinearSVC
    except ImportError:
        message = (
            f"--max-iterations other than {OWN_LIMIT:,}, which is fixed in LIBLINEAR, needs the Python package "
            "scikit-learn: pip install 'proxml-mpi[compare]'"
        )
        raise UserError(message) from None
    return LinearSVC
