"""Fixtures: a stand-in for the program, and the real program."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from anabranch_lab import program


@pytest.fixture
def script(tmp_path: Path) -> Callable[[str], str]:
    """Return a function that creates a shell script to run instead of the program."""

    def make(text: str) -> str:
        path = tmp_path / "stand-in"
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        return str(path)

    return make


@pytest.fixture(scope="session")
def binary() -> str:
    found = shutil.which(os.environ.get(program.VARIABLE, "anabranch"))
    if found is None:
        pytest.skip(f"no anabranch: build it and name it in {program.VARIABLE}")
    return found
