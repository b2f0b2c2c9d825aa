# shellcheck shell=bash
# Sourced by test_slurm.sh: a SLURM cluster of two nodes, n1 and n2, on this machine, all of it in one folder.
#
#     start_cluster FOLDER     munged, slurmctld and two slurmd, as root; afterwards sbatch and the others work
#     stop_cluster FOLDER      ends all jobs, then the daemons by their pid files

start_cluster() {
    local folder=$1 node
    write_slurm_conf "$folder"
    export SLURM_CONF=$folder/slurm.conf
    # Open MPI names the memory that messages pass through after the host, which the two nodes have in common.
    export OMPI_MCA_btl=self,tcp
    head -c 128 /dev/urandom >"$folder/munge.key"
    chmod 600 "$folder/munge.key"
    munged --num-threads=2 --key-file="$folder/munge.key" --seed-file="$folder/munge.seed" \
        --socket="$folder/munge.socket" --pid-file="$folder/munged.pid" --log-file="$folder/munged.log"
    slurmctld
    for node in n1 n2; do
        mkdir -p "$folder/$node/tmp"
        slurmd -N "$node"
    done
    wait_until 30 cluster_is_idle || {
        tail -n 5 "$folder"/*.log "$folder"/n?/*.log >&2
        return 1
    }
}

cluster_is_idle() {
    [ "$(sinfo --noheader --format=%T:%D 2>/dev/null)" = idle:2 ]
}

stop_cluster() {
    local folder=$1 pid_file pid
    if [ -f "$folder/slurmctld.pid" ]; then
        scancel --user=root 2>/dev/null || true
        wait_until 20 no_jobs || true
    fi
    for pid_file in "$folder"/n?/slurmd.pid "$folder"/slurmctld.pid "$folder"/munged.pid; do
        if [ -f "$pid_file" ]; then
            pid=$(cat "$pid_file")
            kill "$pid" 2>/dev/null || true
            wait_until 10 has_ended "$pid" || kill -KILL "$pid" 2>/dev/null || true
        fi
    done
}

no_jobs() {
    [ -z "$(squeue --noheader 2>/dev/null)" ]
}

has_ended() {
    ! kill -0 "$1" 2>/dev/null
}

# wait_until SECONDS COMMAND...: wait for a command to succeed.
wait_until() {
    local deadline=$((SECONDS + $1))
    shift
    until "$@"; do
        [ "$SECONDS" -lt "$deadline" ] || return 1
        sleep 0.2
    done
}

# Nodes with more cores than the machine has; every node with folders of its own, or pmix takes them for one. Steps may
# take long to end on a busy machine: SLURM would take the node out of service after a minute of that.
write_slurm_conf() {
    local folder=$1 host port
    host=$(hostname -s)
    port=$((20000 + RANDOM % 10000)) # two such clusters may be up at once
    cat >"$folder/slurm.conf" <<CONF
ClusterName=proxml
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$port
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$folder/munge.socket
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=sched_min_interval=100000,sched_interval=5,bf_interval=5,batch_sched_delay=0
MpiDefault=none
ReturnToService=2
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
JobRequeue=1
KillWait=4
UnkillableStepTimeout=180
PropagateResourceLimits=NONE
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/%n/spool
TmpFS=$folder/%n/tmp
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/%n/slurmd.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/%n/slurmd.log
NodeName=n[1-2] NodeHostname=$host NodeAddr=127.0.0.1 Port=[$((port + 1))-$((port + 2))] CPUs=4 Sockets=1 CoresPerSocket=4 ThreadsPerCore=1 RealMemory=4000
PartitionName=test Nodes=n[1-2] Default=YES MaxTime=INFINITE State=UP
CONF
    mkdir -p "$folder/state"
}
