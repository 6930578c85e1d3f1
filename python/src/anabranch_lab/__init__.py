"""Sweeps of anabranch's lab on a Ray cluster, and their results as tables."""

from anabranch_lab.results import read

__all__ = ["read"]
