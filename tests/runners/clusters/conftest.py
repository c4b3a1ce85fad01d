import subprocess
import sys

import pytest
import slurm_cluster


@pytest.fixture(scope="session")
def slurm_conf(tmp_path_factory):
    """A running Slurm; the path of its configuration."""
    if (what := slurm_cluster.missing()) is not None:
        pytest.skip(f"needs Slurm: {what}")
    folder = tmp_path_factory.mktemp("slurm")
    daemons = subprocess.Popen(
        [sys.executable, slurm_cluster.__file__, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        if daemons.stdout.readline() != "ready\n":
            logs = "\n".join(p.read_text() for p in (folder / "log").glob("*"))
            pytest.fail(f"Slurm did not start:\n{daemons.stderr.read()}\n{logs[-5000:]}")
        yield folder / "slurm.conf"
    finally:
        daemons.communicate("", timeout=60)


@pytest.fixture
def slurm(slurm_conf, monkeypatch):
    """Makes the programs of Slurm speak to the cluster; returns a function that calls them."""
    monkeypatch.setenv("SLURM_CONF", str(slurm_conf))

    def call(*command):
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    return call
