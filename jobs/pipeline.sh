#!/usr/bin/env bash
# Submit training and, once it has succeeded, prediction; prints the jobs. From the directory above jobs/:
#
#     TRAIN=train.h5 TEST=test.h5 MODEL=model.h5 bash jobs/pipeline.sh --partition=compute
#     TRAIN=... LABELS=325056 PARTS=16 bash jobs/pipeline.sh               # training by an array, then a merge
#     TRAIN=... TRAIN_JOB=jobs/requeue.sbatch bash jobs/pipeline.sh        # training that requeues itself
#
# Arguments go to every sbatch. What depends on a job that fails is cancelled.
set -euo pipefail

export TRAIN=${TRAIN:-train.h5}
export TEST=${TEST:-test.h5}
export MODEL=${MODEL:-model.h5}
TRAIN_JOB=${TRAIN_JOB:-jobs/train.sbatch}
PARTS=${PARTS:-0}

source jobs/site.sh

# submit NAME [OPTION...] SCRIPT: submit after the job before, if there is one.
job=
submit() {
    local name=$1
    shift
    job=$(sbatch --parsable --kill-on-invalid-dep=yes ${job:+--dependency=afterok:"$job"} "${arguments[@]}" "$@")
    job=${job%%;*} # the cluster's name follows where there are several
    echo "$name: job $job"
}

arguments=("$@")
if [ "$PARTS" -gt 0 ]; then
    export PARTS LABELS=${LABELS:?"the number of labels of $TRAIN; proxml-data stats tells"}
    submit train --array="0-$((PARTS - 1))" jobs/train_array.sbatch
    MERGE=1 submit merge --array=0 --nodes=1 --ntasks-per-node=1 jobs/train_array.sbatch
else
    submit train "$TRAIN_JOB"
fi
submit predict jobs/predict.sbatch
