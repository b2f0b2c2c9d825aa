"""The examination: launch, threads, memory, files, kernels, data, network; then one page."""

from proxml_mpi.doctor.files import examine_directory
from proxml_mpi.doctor.finding import Finding, Level, as_json, n_changes, page
from proxml_mpi.doctor.kernels import examine_kernels
from proxml_mpi.doctor.launch import examine_hosts, examine_launch, examine_leftovers, examine_mpi
from proxml_mpi.doctor.memory import examine_data, examine_memory, examine_shared_memory
from proxml_mpi.doctor.network import examine_network
from proxml_mpi.doctor.threads import examine_threads
from proxml_mpi.errors import UserError
from proxml_mpi.output import show
from proxml_mpi.ranks.launch import announced_rank
from proxml_mpi.ranks.threads import choose_threads
from proxml_mpi.ranks.world import World
from proxml_mpi.settings.doctor import DoctorSettings
from proxml_mpi.settings.train import TrainSettings


def examine(settings: DoctorSettings, world: World) -> None:
    """Examine and print; UserError, on every rank, when something is to change. Collective: every rank calls this."""
    launch = examine_launch(world.size)
    findings = [launch]
    # Of processes that know nothing of each other, the first speaks for all.
    if launch.level != Level.CHANGE or announced_rank() == 0:
        findings = _examine_all(settings, world, launch)
    if world.is_first and announced_rank() == 0:
        show(as_json(findings) if settings.json else page(findings))
    n_found = world.from_first(n_changes(findings))
    if n_found:
        error = UserError(f"{n_found} to change")
        error.is_shared = True
        raise error


def _examine_all(settings: DoctorSettings, world: World, launch: Finding) -> list[Finding]:
    """Examine everything, in the order of the page. Collective."""
    findings = [examine_mpi(), launch, examine_hosts(world), examine_threads(world, settings.threads)]
    findings += examine_leftovers(world)
    findings += [examine_memory(world), examine_shared_memory(world)]
    findings += examine_directory(world, settings.directory)
    if settings.data is not None:
        training = TrainSettings(train=settings.data, model=settings.directory / "model.h5", format=settings.format)
        findings += examine_data(world, training, choose_threads(world, settings.threads))
    return [*findings, examine_kernels(world), examine_network(world, settings.seconds)]
