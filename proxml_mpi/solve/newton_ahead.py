"""Ask for rows and columns shortly before they are read.

They are short and lie far apart: the processor would wait for the first entries of each, and by the time that it has
seen how they follow each other, the row has ended. Asking changes no result.
"""

from collections.abc import Callable
from typing import Any, cast

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from proxml_mpi.solve.newton_data import NewtonProblem, inner

ROWS_AHEAD, COLUMNS_AHEAD = 4, 2
LINE = np.uint64(16)  # entries of a cache line
MOST = np.uint64(192)  # entries that are asked for; what follows is read in order, and the processor asks for it


def _prefetch(_typing: Any, array: Any, index: Any) -> Any:
    """Ask for the cache line of array[index]."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        function = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
        # To be read, to be kept in all caches, as data.
        builder.call(
            function, [builder.bitcast(builder.gep(data, [arguments[1]]), byte), number(0), number(3), number(1)]
        )
        return context.get_dummy_value()

    return types.void(array, index), generate


prefetch = cast(Callable[[Any, Any], None], intrinsic(_prefetch))  # numba itself passes the first argument


@inner
def ask(indices: NDArray[np.uint32], values: NDArray[np.float32], start: np.uint64, end: np.uint64) -> None:
    """Ask for the entries from start to end, as far as that is worth it."""
    for line in range(start, min(end, start + MOST), LINE):
        prefetch(indices, line)
        prefetch(values, line)


@inner
def ask_row(problem: NewtonProblem, i: int) -> None:
    """Ask for the features of instance i."""
    ask(problem.row_feature, problem.row_value, problem.row_start[i], problem.row_start[i + 1])


@inner
def ask_column(problem: NewtonProblem, j: int) -> None:
    """Ask for the instances of feature j."""
    ask(problem.column_instance, problem.column_value, problem.column_start[j], problem.column_start[j + 1])
