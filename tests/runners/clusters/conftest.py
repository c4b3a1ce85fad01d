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


@pytest.fixture(scope="module")
def ray_cluster():
    """A Ray of two nodes on this machine, each with one CPU and one GPU by name."""
    pytest.importorskip("ray", reason='needs Ray: pip install "opencompass_ext[ray]"')
    from ray.cluster_utils import Cluster

    resources = {"num_cpus": 1, "num_gpus": 1, "object_store_memory": 100 * 2**20}
    quick = {
        "health_check_initial_delay_ms": 500,
        "health_check_period_ms": 500,
        "health_check_timeout_ms": 500,
        "health_check_failure_threshold": 2,
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_AUTH_MODE", "disabled")
        cluster = Cluster(
            initialize_head=True,
            head_node_args={**resources, "include_dashboard": False, "_system_config": quick},
        )
        try:
            cluster.add_node(**resources)
            cluster.wait_for_nodes()
            yield cluster
        finally:
            cluster.shutdown()
