"""Which GPUs are free."""

from __future__ import annotations

from collections.abc import Sequence


class DeviceSlots:
    """Places for workers on the GPUs of a machine.

    Args:
        devices: Names of the GPUs.
        per_device: Workers that may share one GPU.

    Example:
        >>> slots = DeviceSlots(["2", "0"], per_device=1)
        >>> slots.take(1), slots.take(2), slots.take(1)
        (('2',), None, ('0',))
        >>> slots.give_back(("2",))
        >>> slots.take(1)
        ('2',)
    """

    def __init__(self, devices: Sequence[str], per_device: int) -> None:
        self._devices = list(devices)
        self._free = [per_device] * len(devices)

    def take(self, count: int) -> tuple[str, ...] | None:
        """Take a place on each of ``count`` GPUs, the emptiest ones; None if there are too few."""
        by_room = sorted(range(len(self._devices)), key=lambda i: (-self._free[i], i))
        chosen = [i for i in by_room if self._free[i] > 0][:count]
        if len(chosen) < count:
            return None
        for i in chosen:
            self._free[i] -= 1
        return tuple(self._devices[i] for i in sorted(chosen))

    def give_back(self, devices: Sequence[str]) -> None:
        """Free the places of a worker that has ended."""
        for name in devices:
            self._free[self._devices.index(name)] += 1
