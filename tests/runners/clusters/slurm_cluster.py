"""A Slurm of one controller and two nodes on this machine; without root, munge or accounting.

As a script, ``python slurm_cluster.py FOLDER`` starts the daemons, prints ``ready``, and ends them
when its standard input does: also when whoever started it was killed.
"""

import contextlib
import os
import pwd
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

NODES = ("n1", "n2")
# Slurm believes in a GPU when there is a character device for it.
GPUS = ("/dev/null", "/dev/zero")
SECONDS_TO_START = 40
SECONDS_TO_STOP = 10

CONF = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/none
CredType=cred/none
AuthInfo=cred_expire=5
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/log/slurmctld.log
SlurmdLogFile={folder}/log/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=sched_min_interval=0,sched_interval=1,bf_interval=1
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
GresTypes=gpu
ReturnToService=0
MinJobAge=3600
KillWait=1
"""


def missing() -> str | None:
    """Return what this machine lacks for a Slurm, or None."""
    programs = ("slurmctld", "slurmd", "sbatch", "squeue", "scontrol", "scancel", "sinfo")
    path = os.environ.get("PATH", "") + ":/usr/sbin"
    absent = [program for program in programs if shutil.which(program, path=path) is None]
    if absent:
        return f"no {', '.join(absent)}: apt-get install slurm-wlm"
    return None


def main(folder: Path) -> None:
    write_conf(folder)
    env = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}
    env["PATH"] = env.get("PATH", "") + ":/usr/sbin"
    daemons = []
    try:
        for command in (["slurmctld", "-D"], *(["slurmd", "-D", "-N", node] for node in NODES)):
            with open(folder / "log" / f"{command[-1]}.out", "wb") as log:
                daemons.append(
                    subprocess.Popen(
                        command, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log
                    )
                )
        wait_until(lambda: ask(env, "sinfo", "-h", "-t", "idle", "-o", "%D") == str(len(NODES)))
        print("ready", flush=True)
        sys.stdin.read()
    finally:
        # Jobs first, the controller last: steps need it in order to end.
        ask(env, "scancel", "-u", str(os.getuid()))
        with contextlib.suppress(TimeoutError):
            wait_until(lambda: ask(env, "squeue", "-h") == "", SECONDS_TO_STOP)
        for daemon in reversed(daemons):
            daemon.terminate()
            try:
                daemon.wait(SECONDS_TO_STOP)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()


def write_conf(folder: Path) -> None:
    for name in ("state", "log"):
        (folder / name).mkdir()
    host = socket.gethostname().partition(".")[0]
    nodes = "".join(
        f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={free_port()} CPUs=2 "
        f"RealMemory=2000 Gres=gpu:{len(GPUS)}\n"
        for node in NODES
    )
    conf = CONF.format(
        host=host, port=free_port(), user=pwd.getpwuid(os.getuid()).pw_name, folder=folder
    )
    partition = "PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP\n"
    (folder / "slurm.conf").write_text(conf + nodes + partition)
    (folder / "gres.conf").write_text("".join(f"Name=gpu File={path}\n" for path in GPUS))


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def ask(env: dict[str, str], *command: str) -> str:
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=30, check=False)
    return done.stdout.strip()


def wait_until(is_so, seconds: float = SECONDS_TO_START) -> None:
    end = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > end:
            raise TimeoutError(f"not so within {seconds} s")
        time.sleep(0.05)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
