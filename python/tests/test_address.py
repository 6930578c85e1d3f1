"""Choice of the cluster, with a stand-in for Ray."""

from typing import Any

import pytest

from anabranch_lab import cluster
from anabranch_lab.failure import Failure


class Ray:
    """Stand-in for Ray, with or without a running cluster. Starting one fails `failing` times."""

    def __init__(self, there: bool = False, failing: int = 0) -> None:
        self.there, self.failing = there, failing
        self.calls: list[str] = []
        self.up = False

    def init(self, address: str, **_: object) -> None:
        self.calls.append(address)
        if address != "local" and not self.there:
            raise ConnectionError("nobody answers\nat all")
        if address == "local" and self.failing:
            self.failing -= 1
            raise Exception("timed out")
        self.up = True

    def shutdown(self) -> None:
        self.up = False

    def is_initialized(self) -> bool:
        return self.up


def connect(ray: Ray, address: str | None, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr(cluster, "load", lambda: ray)
    with cluster.connected(address, 2) as connected:
        used: Any = connected
        assert used is ray and ray.up
    assert not ray.up
    return ray.calls


def test_a_cluster_that_is_there_goes_before_one_of_our_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    assert connect(Ray(there=True), None, monkeypatch) == ["auto"]
    assert connect(Ray(), None, monkeypatch) == ["auto", "local"]
    assert connect(Ray(there=True), "local", monkeypatch) == ["local"]


def test_a_cluster_that_is_named_must_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    for address in ("auto", "192.0.2.1:6379"):
        with pytest.raises(
            Failure, match=f"cannot reach the Ray cluster {address}: nobody answers;"
        ) as failure:
            connect(Ray(), address, monkeypatch)
        assert failure.value.status == 8
    monkeypatch.setenv("RAY_ADDRESS", "192.0.2.2:6379")
    with pytest.raises(Failure, match="cluster 192.0.2.2:6379: nobody"):
        connect(Ray(), None, monkeypatch)


def test_a_cluster_that_does_not_start_is_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    assert connect(Ray(failing=2), "local", monkeypatch) == ["local"] * 3
    ray = Ray(failing=9)
    with pytest.raises(Failure, match="timed out"):
        connect(ray, "local", monkeypatch)
    assert len(ray.calls) == cluster.STARTS and not ray.up
