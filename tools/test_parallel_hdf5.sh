#!/usr/bin/env bash
# The tests of the model file with parallel HDF5, where all ranks write at once. Where Debian's packages cannot be had,
# this says so in one line, beginning "skipped", and succeeds.
set -euo pipefail
cd "$(dirname "$0")/.."
source tools/debian.sh
trap 'rm -f "$log"' EXIT
set_up_parallel

tests=(tests/test_store.py tests/test_train_predict.py)

run_pytest() {
    local ranks=$1
    shift
    echo "== tests with parallel HDF5, ranks: $ranks"
    # Bibtex and csv take long and are not about the model file; the warnings are between Debian's h5py and numpy.
    timeout --foreground --kill-after=10 600 "$@" python -m pytest -q --color=no -m "parallel[$ranks]" \
        -k "not bibtex and not csv" -W ignore::DeprecationWarning "${tests[@]}"
}

run_pytest 1
run_pytest 2 mpirun -n 2
run_pytest 3 mpirun -n 3
# pytest refuses a count that no test names: there must be tests for 2 and 3, there may be some for 5.
if grep -Eq 'mark\.parallel\(.*\b5\b' "${tests[@]}"; then
    run_pytest 5 mpirun -n 5
fi
