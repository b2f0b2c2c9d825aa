#!/usr/bin/env bash
# The job scripts under a real SLURM of two nodes, which this brings up on the machine and takes down again, with
# parallel HDF5: what they do when all goes well, and through signals, a lost node and a wrong launcher. Where Debian's
# packages cannot be had, this says so in one line, beginning "skipped", and succeeds.
set -euo pipefail
cd "$(dirname "$0")/.."
project=$PWD
source tools/debian.sh
source tools/slurm.sh
install_debian slurm-wlm munge libpmix-dev # without the latter, srun --mpi=pmix finds no libpmix.so
set_up_parallel

folder=$(mktemp -d)
chmod 755 "$folder"
trap 'stop_cluster "$folder/cluster"; rm -rf "$folder" "$log"' EXIT
mkdir "$folder/cluster"
start_cluster "$folder/cluster"

# A user's directory: the scripts, data, and jobs that fit into nodes of four cores.
cd "$folder"
cp -r "$project/jobs" .
export SBATCH_OPEN_MODE=append TRAIN=train.h5 TEST=test.h5 LABELS=600
export TRAIN_OPTIONS='--weighting tfidf' SLOW_OPTIONS='--weighting tfidf --solver forward-backward --max-iterations 10'
small=(--ntasks-per-node=2 --cpus-per-task=1 --time=10 --output=%x.log)

say() {
    printf '%4d s  %s\n' "$SECONDS" "$*"
}

fail() {
    echo "FAILED: $1" >&2
    tail -n 25 ./*.log >&2
    timeout 30 sinfo --list-reasons >&2 || true
    timeout 30 squeue --long >&2 || true
    exit 1
}

expect() {
    grep -q -- "$2" "$1" || fail "$1 does not say '$2'"
}

state() {
    scontrol show job "$1" | sed -n 's/.*JobState=\([A-Z_]*\).*/\1/p' | sort -u | tr '\n' ' '
}

# A job that has failed will not come to another state.
is_settled() {
    [ "$(state "$1")" = "$2 " ] || [[ $(state "$1") = *FAILED* ]]
}

expect_state() {
    wait_until 90 is_settled "$1" "$2" || true
    [ "$(state "$1")" = "$2 " ] || fail "job $1 is $(state "$1"), expected $2"
}

# on_both OUTPUT OPTION... COMMAND...: run on two nodes of two ranks. srun by itself waits for ever for a node that was
# drained, and for ranks that wait for each other.
on_both() {
    local output=$1 status=0
    shift
    wait_until 90 cluster_is_idle || fail 'the nodes do not become idle'
    timeout --kill-after=10 120 srun --immediate=60 --nodes=2 --ntasks-per-node=2 "$@" >"$output" 2>&1 || status=$?
    [ "$status" != 124 ] || fail "not done after 120 seconds: srun $*"
    return "$status"
}

n_equal=0
equal() {
    PYTHONPATH=$project/tests python - "$1" "$2" <<'PYTHON' || fail "$1 and $2 differ"
import pathlib, sys
from conftest import model_content
sys.exit(model_content(pathlib.Path(sys.argv[1])) != model_content(pathlib.Path(sys.argv[2])))
PYTHON
    n_equal=$((n_equal + 1))
}

n_blocks() {
    find "$1.journal" -name 'block-*' 2>/dev/null | wc -l
}

has_blocks() {
    [ "$(n_blocks "$1")" -gt "$2" ]
}

has_left() {
    ! pgrep -f "slurmstepd: \[$1\." >/dev/null
}

# A requeued job waits two minutes. Here it may start as soon as both nodes are done with its last start, and KillWait
# is over, after which they kill whatever has its number.
start_again() {
    expect_state "$1" PENDING
    wait_until 30 has_left "$1" || fail "job $1 does not end"
    sleep 5
    wait_until 30 scontrol update JobId="$1" StartTime=now 2>/dev/null || fail "job $1 cannot start again"
}

node_is_back() {
    cluster_is_idle || scontrol update NodeName=n2 State=RESUME 2>/dev/null
}

summarise() {
    local jobs restarts
    jobs=$(scontrol --oneliner show job)
    restarts=$(grep -o 'Restarts=[0-9]*' <<<"$jobs" | awk -F= '{n += $2} END {print n}')
    say "$(wc -l <<<"$jobs") jobs, $restarts interruptions survived, $n_equal models equal to those of one process"
}

skip_rest() {
    summarise
    skip "$1"
}

pipeline() {
    local job jobs
    jobs=$(bash jobs/pipeline.sh "${small[@]}" | sed 's/.*job //')
    for job in $jobs; do
        expect_state "$job" COMPLETED
    done
}

train_by() {
    expect_state "$(LAUNCHER=$1 sbatch --parsable "${small[@]}" --output="$MODEL.log" jobs/train.sbatch)" "$2"
}

say "two nodes are up: $(sinfo --noheader --format='%N, %c cores each'), $(srun --version)"
proxml-data synthesize train.h5 --test test.h5 --instances 3000 --features 4000 --labels "$LABELS" --seed 1 >/dev/null
proxml-train train.h5 alone.h5 --weighting tfidf --log-level warning
# shellcheck disable=SC2086  # options are words
proxml-train train.h5 slow_alone.h5 $SLOW_OPTIONS --log-level error
say "models to compare with: one process, no SLURM"

MODEL=model.h5 pipeline
expect proxml-train.log '4 ranks x 1 threads on 2 nodes'
expect proxml-train.log 'on each of 2 nodes'
[ -s model.h5.metrics.json ] || fail 'there are no metrics'
equal model.h5 alone.h5
say 'pipeline.sh: training on two nodes (srun --mpi=pmix, parallel HDF5), then prediction; model equal'

on_both doctor.log --mpi=pmix proxml-doctor --seconds 1 || true
expect doctor.log '2 nodes: n1 (2 ranks), n2 (2 ranks)'
expect doctor.log 'parallel; writing works'
say 'proxml-doctor sees two nodes of two ranks, and that they write one HDF5 file together'

MODEL=mpirun.h5 train_by mpirun COMPLETED
equal mpirun.h5 alone.h5
say 'train.sbatch by mpirun: model equal'

PARTS=3 MODEL=merged.h5 pipeline
equal merged.h5 alone.h5
say 'pipeline.sh with PARTS=3: array, merge, prediction; model equal'

export TRAIN_OPTIONS=$SLOW_OPTIONS
job=$(MODEL=requeued.h5 sbatch --parsable "${small[@]}" jobs/requeue.sbatch)
for ((interruptions = 0; interruptions < 2; interruptions++)); do
    wait_until 60 has_blocks requeued.h5 "$(n_blocks requeued.h5)" || fail "start $((interruptions + 1)) does no work"
    scancel --signal=USR1 --batch "$job"
    start_again "$job"
done
expect_state "$job" COMPLETED
expect proxml-requeue.log 'start 3:'
[ "$(grep -c 'SIGUSR1 was received' proxml-requeue.log)" = "$interruptions" ] || fail 'not every signal was heard'
equal requeued.h5 slow_alone.h5
say "requeue.sbatch through $interruptions interruptions by USR1, status 75 and scontrol requeue; model equal"

job=$(MODEL=survivor.h5 sbatch --parsable "${small[@]}" --output=down.log jobs/requeue.sbatch)
wait_until 60 has_blocks survivor.h5 8 || fail 'nothing was journalled before the node was lost'
scontrol update NodeName=n2 State=DOWN Reason=test
expect_state "$job" PENDING
wait_until 30 node_is_back || fail 'node n2 does not come back'
start_again "$job"
expect_state "$job" COMPLETED
grep -Eq '[1-9][0-9]* labels found in the journal' down.log || fail 'the job began anew'
equal survivor.h5 slow_alone.h5
say 'requeue.sbatch with node n2 set DOWN in the middle: requeued by SLURM, resumed; model equal'

# The plain environment, whose Open MPI 5 srun cannot start; with MPICH's library, from its wheel, srun --mpi=pmi2 can.
[ -x "$project/.venv/bin/proxml-train" ] || skip_rest "there is no .venv for the rest: tools/test.sh makes it"
unset NUMBA_CACHE_DIR
export PATH=$project/.venv/bin:$PATH TRAIN_OPTIONS='--weighting tfidf'

MODEL=singletons.h5 train_by 'srun --mpi=none' FAILED
expect singletons.h5.log "SLURM_STEP_NUM_TASKS=4.*but MPI sees a world of 1.*use 'srun --mpi=pmix'"
[ "$(grep -c 'error: the launcher' singletons.h5.log)" = 1 ] || fail 'there is more than one message'
[ ! -e singletons.h5 ] || fail 'silent singletons wrote a model'
say "train.sbatch by srun --mpi=none, silent singletons: $(grep -o 'the launcher started.*' singletons.h5.log)"

if on_both broken.log --mpi=none proxml-doctor; then
    fail 'the doctor finds nothing wrong with silent singletons'
fi
[ "$(grep -c '^change  launch' broken.log)" = 1 ] || fail 'the doctor does not name the broken launch, once'
say 'proxml-doctor by srun --mpi=none: status 2, "change  launch", one page'

pip install --quiet --disable-pip-version-check --no-deps --ignore-installed --prefix "$folder/mpich" mpich 2>"$log" ||
    skip_rest "pip cannot install mpich: $(tail -n 1 "$log")"
export LD_LIBRARY_PATH=$folder/mpich/lib MPI4PY_MPIABI=mpich
MODEL=pmi2.h5 train_by 'srun --mpi=pmi2' COMPLETED
equal pmi2.h5 alone.h5
say 'train.sbatch by srun --mpi=pmi2 (MPICH, serial HDF5): model equal'
summarise
