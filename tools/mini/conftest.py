"""Puts this folder on the path of its tests, and gives them one encoder."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))


@pytest.fixture(scope="session")
def encoder():
    from conversations import Encoder

    return Encoder()
