#!/usr/bin/env bash
# The whole journey on one machine: make a long-tailed data set, train, predict, look at the model.
set -euo pipefail
cd "$(dirname "$0")/.."
source tools/setup.sh
set_up openmpi

show() {
    printf '\n$ %s\n' "$*"
    "$@"
}

mkdir -p demo
show proxml-data synthesize demo/train.txt --test demo/test.txt --instances 6000 --features 20000 --labels 2000 --seed 1
show mpirun -n 2 proxml-train demo/train.txt demo/model.h5 --weighting tfidf --overwrite
show mpirun -n 2 proxml-predict demo/model.h5 demo/test.txt --metrics demo/metrics.json --output demo/predictions.txt
show proxml-inspect demo/model.h5
printf '\nEverything is in demo/. To go on: proxml-train --help, and the tour in README.md.\n'
