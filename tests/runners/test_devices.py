import os

import pytest

from opencompass_ext.runners import devices
from opencompass_ext.runners.devices import only_devices, visible_devices, worker_environment
from opencompass_ext.runners.slots import DeviceSlots

LISTING = """\
GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77)
  MIG 1g.5gb      Device  0: (UUID: MIG-c6d4f1ef-42e4-5de3-91c7-45d71c87eb3f)
  MIG 1g.5gb      Device  1: (UUID: MIG-cba663e8-9bed-5b25-b243-5985ef7c9beb)
GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-77aa0000-d33d-2b2c-524d-9e3d8d2b8a77)
"""


@pytest.mark.parametrize(
    ("value", "entries"),
    [
        ("GPU-5d5b", ("GPU-5d5b",)),
        ("MIG-ab/1/0", ("MIG-ab/1/0",)),
        ("", ()),
        ("2,0", ("2", "0")),
        (" 1 , 3 ", ("1", "3")),
        ("-1", ()),
        ("0,-1,1", ("0",)),
        ("0,,1", ("0",)),
    ],
)
def test_entries_are_those_of_the_variable(value, entries):
    assert visible_devices({"CUDA_VISIBLE_DEVICES": value}) == entries


@pytest.fixture
def tool(tmp_path, monkeypatch):
    """Puts an nvidia-smi of our own first on the path."""

    def make(script):
        path = tmp_path / "nvidia-smi"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    monkeypatch.setenv("PATH", str(tmp_path))
    devices._devices_of_driver.cache_clear()
    yield make
    devices._devices_of_driver.cache_clear()


def test_the_driver_is_asked_when_the_variable_is_not_set(tool):
    tool('[ "$1" = -L ] && printf "GPU 0: A (UUID: GPU-1)\\nGPU 1: B (UUID: GPU-2)\\n"')
    assert visible_devices({}) == ("0", "1")


def test_slices_stand_for_their_gpu():
    assert devices.parse_device_list(LISTING) == (
        "MIG-c6d4f1ef-42e4-5de3-91c7-45d71c87eb3f",
        "MIG-cba663e8-9bed-5b25-b243-5985ef7c9beb",
        "1",
    )


def test_no_driver_no_gpus(tool):
    assert visible_devices({}) == ()


def test_a_driver_that_fails_is_reported(tool, caplog):
    tool("echo couldnt talk to the driver; exit 9")
    assert visible_devices({}) == ()
    assert "couldnt talk to the driver" in caplog.text


@pytest.mark.parametrize(("workers", "threads"), [(1, "8"), (3, "2"), (20, "1")])
def test_workers_share_the_cores(monkeypatch, workers, threads):
    monkeypatch.setattr(devices, "cpu_cores", lambda: 8)
    environment = worker_environment((), workers, {"PATH": "x"})
    assert environment == {
        "PATH": "x",
        "CUDA_VISIBLE_DEVICES": "",
        "GOMP_SPINCOUNT": "20000",
        "OMP_NUM_THREADS": threads,
        "MKL_NUM_THREADS": threads,
    }


@pytest.mark.parametrize("name", ["OMP_NUM_THREADS", "MKL_NUM_THREADS"])
def test_a_number_of_threads_set_by_the_user_stays(name):
    environment = worker_environment((), 2, {name: "5"})
    assert environment.keys() & {"OMP_NUM_THREADS", "MKL_NUM_THREADS"} == {name}
    assert environment[name] == "5"


@pytest.mark.parametrize("devices", [(), ("0",)])
def test_waiting_threads_go_to_sleep_soon_unless_the_user_says_how_they_wait(devices):
    assert "GOMP_SPINCOUNT" in worker_environment(devices, 1, {})
    for chosen in ({"OMP_WAIT_POLICY": "ACTIVE"}, {"GOMP_SPINCOUNT": "7"}):
        environment = worker_environment(devices, 1, chosen)
        waiting = environment.keys() & {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"}
        assert {name: environment[name] for name in waiting} == chosen


def test_gpu_workers_keep_their_threads():
    environment = worker_environment(("1",), 4, {})
    assert environment["CUDA_VISIBLE_DEVICES"] == "1"
    assert "OMP_NUM_THREADS" not in environment


@pytest.mark.parametrize("before", [None, "3"])
def test_only_devices_puts_the_variable_back(monkeypatch, before):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if before is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", before)
    with only_devices(("1", "0")):
        assert os.environ["CUDA_VISIBLE_DEVICES"] == "1,0"
    assert os.environ.get("CUDA_VISIBLE_DEVICES") == before


def test_workers_spread_over_the_gpus_before_they_share_one():
    slots = DeviceSlots(["a", "b"], per_device=2)
    assert [slots.take(1) for _ in range(5)] == [("a",), ("b",), ("a",), ("b",), None]
    slots.give_back(("b",))
    assert slots.take(2) is None
    assert slots.take(1) == ("b",)


def test_a_worker_without_gpus_needs_no_place():
    assert DeviceSlots([], per_device=1).take(0) == ()
