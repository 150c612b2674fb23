"""A SLURM of one node, this machine: its daemons run in a directory of their own."""

import os
import platform
import secrets
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel", "scontrol")
CONF = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=15
CryptoType=crypto/munge
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
ReturnToService=2
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
SlurmdSpoolDir={folder}/spool
SlurmUser=root
StateSaveLocation={folder}/state
SwitchType=switch/none
SchedulerType=sched/backfill
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
JobAcctGatherType=jobacct_gather/none
KillWait=2
MinJobAge=5
OverTimeLimit=0
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
JobRequeue=1
SchedulerParameters=sched_interval=2,bf_interval=2,batch_sched_delay=1
NodeName={host} NodeAddr=127.0.0.1 CPUs=2 RealMemory=1000
PartitionName=main Nodes={host} Default=YES PriorityTier=1 PreemptMode=REQUEUE
PartitionName=high Nodes={host} PriorityTier=10 PreemptMode=OFF
AccountingStorageType=accounting_storage/none
"""


def missing() -> str:
    """Why no SLURM can be started here; empty if one can."""
    if absent := [name for name in PROGRAMS if shutil.which(name) is None]:
        return f"no {absent[0]} here; Debian's packages slurm-wlm and munge have it"
    return "" if os.getuid() == 0 else "only root starts the daemons of SLURM"


@contextmanager
def one_node_slurm() -> Iterator[Path]:
    """Start the daemons, and point the clients to them; yield the directory."""
    folder = Path(tempfile.mkdtemp(prefix="eb-slurm-"))  # sockets lie there, whose paths are short
    daemons: list[subprocess.Popen[bytes]] = []
    try:
        for name in ("spool", "state"):
            (folder / name).mkdir()
        (folder / "slurm.conf").write_text(
            CONF.format(folder=folder, host=platform.node(), ports=_ports(2))
        )
        os.environ["SLURM_CONF"] = str(folder / "slurm.conf")
        daemons += [_start(folder, "munged", *_munge(folder))]
        _wait(folder, (folder / "munge.socket").exists)
        for name in ("slurmctld", "slurmd"):
            daemons += [_start(folder, name, "-D", "-f", str(folder / "slurm.conf"))]
        _wait(folder, lambda: "idle" in said("sinfo", "-h", "-o", "%T"))
        yield folder
    finally:
        with suppress(OSError):
            said("scancel", "--user", "root")
            _wait(folder, lambda: not said("squeue", "-h"), seconds=30)
        for daemon in reversed(daemons):
            daemon.send_signal(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                daemon.wait(20)
            daemon.kill()
        os.environ.pop("SLURM_CONF", None)
        shutil.rmtree(folder, ignore_errors=True)


def said(*line: str) -> str:
    """What a command of SLURM prints."""
    made = subprocess.run(line, capture_output=True, text=True, check=False, timeout=60)
    return made.stdout.strip()


def _munge(folder: Path) -> list[str]:
    (key := folder / "munge.key").write_bytes(secrets.token_bytes(1024))
    key.chmod(stat.S_IRUSR)
    files = {name: f"--{name}-file={folder}/munge.{name}" for name in ("key", "pid", "log", "seed")}
    return ["--foreground", "--force", f"--socket={folder}/munge.socket", *files.values()]


def _start(folder: Path, *line: str) -> subprocess.Popen[bytes]:
    with (folder / "printed").open("ab") as printed:
        return subprocess.Popen(line, stdout=printed, stderr=printed)


def _ports(number: int) -> list[int]:
    """Ports that are free."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(number)]
    ports = [made.getsockname()[1] for made in sockets]
    for made in sockets:
        made.close()
    return ports


def _wait(folder: Path, ready: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < end, (folder / "printed").read_text()
        time.sleep(0.2)


if __name__ == "__main__":  # a shell with a SLURM, to try things by hand
    with one_node_slurm():
        sys.exit(subprocess.run(sys.argv[1:] or ["bash"], check=False).returncode)
