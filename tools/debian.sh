# shellcheck shell=bash
# Sourced by the tests that take packages of Debian, which need root rights: parallel HDF5 and SLURM.
#
#     install_debian openmpi-bin munge     or say in one line, beginning "skipped", why not, and end the script
#     set_up_parallel                      puts the project beside Debian's parallel h5py into .venv-parallel, once

log=$(mktemp)

skip() {
    echo "skipped, because $1"
    exit 0
}

install_debian() {
    [ "$(id -u)" = 0 ] || skip "installing $* takes root rights"
    command -v apt-get >/dev/null || skip "there is no apt-get to install $*"
    apt_get_install "$@" || { apt-get update -qq >"$log" 2>&1; apt_get_install "$@"; } ||
        skip "apt-get cannot install $*: $(tail -n 1 "$log")"
}

apt_get_install() {
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-upgrade --no-install-recommends \
        -o DPkg::Lock::Timeout=120 "$@" >"$log" 2>&1
}

# h5py with MPI, HDF5 and Open MPI are Debian's: nothing is compiled.
set_up_parallel() {
    local venv=.venv-parallel wanted
    install_debian openmpi-bin python3-h5py-mpi python3-mpi4py python3-venv
    # Debian's own python3 and mpirun, whatever the caller's PATH finds first.
    export PATH=$PWD/$venv/bin:/usr/sbin:/usr/bin:/sbin:/bin
    # Open MPI 4 wants to be asked twice by root, and for more ranks than cores; containers forbid the single copy.
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_btl_vader_single_copy_mechanism=none
    # Debian's h5py takes its serial build outside mpirun, unless told.
    export H5PY_ALWAYS_USE_MPI=1
    # Kernels compiled beside another numpy stay out of the way.
    export NUMBA_CACHE_DIR=$PWD/$venv/numba

    /usr/bin/python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || skip "the system's Python is older than 3.11"
    wanted=$(cat pyproject.toml tools/debian.sh | sha256sum)
    if [ "$(cat "$venv/.installed" 2>/dev/null)" != "$wanted" ]; then
        make_parallel_venv "$venv"
        echo "$wanted" >"$venv/.installed"
    fi
    python -c 'import h5py; assert h5py.get_config().mpi is True, h5py.__file__'
}

make_parallel_venv() {
    local venv=$1
    /usr/bin/python3 -m venv --clear --system-site-packages "$venv"
    list_requirements >"$venv/requirements.txt"
    pip_install --requirement "$venv/requirements.txt" ||
        skip "pip cannot install what the tests need: $(tail -n 1 "$log")"
    pip_install --no-deps --editable . || {
        cat "$log" >&2
        exit 1
    }
}

# All but h5py and mpi4py, which pip would replace by its own; numpy as old as the one that Debian's h5py knows.
list_requirements() {
    /usr/bin/python3 - <<'PYTHON'
import re, tomllib, numpy
with open("pyproject.toml", "rb") as file:
    project = tomllib.load(file)["project"]
for requirement in project["dependencies"] + project["optional-dependencies"]["test"]:
    if not re.match(r"(h5py|mpi4py)\b", requirement):
        print(requirement)
print(f"numpy<{int(numpy.__version__.split('.')[0]) + 1}")
PYTHON
}

pip_install() {
    python -m pip install --quiet --disable-pip-version-check "$@" >"$log" 2>&1
}
