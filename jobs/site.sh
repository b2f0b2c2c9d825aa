# shellcheck shell=bash
# The one file that a site edits. Every job script sources it, and so may the shell that calls sbatch.

# What starts the ranks: "srun --mpi=pmix" (Open MPI), "srun --mpi=pmi2" (MPICH, Intel MPI) or "mpirun".
LAUNCHER=${LAUNCHER:-srun --mpi=pmix}

# Where jobs go: sbatch reads these from the shell that it is called in, which `source jobs/site.sh` prepares.
# export SBATCH_PARTITION=compute SBATCH_ACCOUNT=project

# What brings proxml-train: modules, a virtual environment, or both; between set +u and set -u where they need that.
# module load python openmpi hdf5-parallel
# source "$HOME/proxml/bin/activate"

# Nothing below needs a change: ranks x threads as sbatch's --nodes, --ntasks-per-node and --cpus-per-task say.
if [ -n "${SLURM_JOB_ID:-}" ]; then
    ranks=${SLURM_NTASKS:-$((SLURM_JOB_NUM_NODES * ${SLURM_NTASKS_PER_NODE:-1}))}
    threads=${SLURM_CPUS_PER_TASK:-1}
    read -ra launch <<<"$LAUNCHER"
    case ${launch[0]} in
        # srun inherits no --cpus-per-task; when one rank is killed, the others end a minute later.
        srun) launch+=(--ntasks "$ranks" --cpus-per-task "$threads" --wait 60) ;;
        # mpirun would bind each rank, and so all of its threads, to one core.
        *) launch+=(-n "$ranks" --bind-to none) ;;
    esac
    echo "$(date +%Y-%m-%dT%H:%M:%S) job $SLURM_JOB_ID, start $((${SLURM_RESTART_COUNT:-0} + 1)):" \
        "$ranks ranks x $threads threads on $SLURM_JOB_NUM_NODES nodes ($SLURM_JOB_NODELIST) by $LAUNCHER"
fi
