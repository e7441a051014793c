"""What OpenDP charges for noise, as a check of this project's own accounting."""

from __future__ import annotations

from streamproc.storage.noise_server import gaussian_measurement


def gaussian_cost(sigma: float, sensitivity: float) -> float:
    """Return the zCDP cost of discrete Gaussian noise of this sigma at this L2 sensitivity, according to OpenDP."""
    return float(gaussian_measurement(sigma).map(sensitivity))  # type: ignore[no-untyped-call]
