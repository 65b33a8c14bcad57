"""The devices that play: their ids, accounts and streams."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Text = npt.NDArray[np.uint8]
"""Texts of one width: a row of ASCII codes each."""

Devices = npt.NDArray[np.int32]
"""Devices by number, from 0."""

_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)
_DEVICES_PER_ACCOUNT = 1.25


@dataclass(frozen=True, slots=True)
class Fleet:
    """Devices by number, the consoles first; the same seed has the same ones, so that they play again in the next run.

    Ids are worked out from the number, so that millions of devices take no memory.
    """

    devices: int
    console_share: float
    seed: int

    def ids(self, devices: Devices) -> Text:
        """Device ids, all different."""
        return self._texts(devices, 0)

    def accounts(self, devices: Devices) -> Text:
        """Account ids; some people own a console and a PC, so that a quarter of the accounts has two devices."""
        accounts = max(round(self.devices / _DEVICES_PER_ACCOUNT), 1)
        return self._texts(devices % accounts, 1)

    def are_consoles(self, devices: Devices) -> npt.NDArray[np.bool_]:
        return devices < round(self.devices * self.console_share)

    def _texts(self, numbers: Devices, series: int) -> Text:
        """Sixteen hexadecimal digits that look random, and differ where the numbers do."""
        start = np.random.default_rng([self.seed, series]).integers(0, 2**64, dtype=np.uint64)
        mixed = _mix(numbers.astype(np.uint64) + start).astype(">u8").view(np.uint8).reshape(-1, 8)
        return _HEX[np.stack((mixed >> 4, mixed & 15), axis=2).reshape(-1, 16)]


def _mix(numbers: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Scatter numbers over 64 bits, one to one (the finalizer of SplitMix64)."""
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers ^ (numbers >> np.uint64(31))
