"""Puts this folder on the path of its tests, and gives them one encoder."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
pytest.importorskip("tokenizers", reason="the tests of tools/mini need tokenizers and jinja2")
pytest.importorskip("jinja2", reason="the tests of tools/mini need tokenizers and jinja2")


@pytest.fixture(scope="session")
def encoder():
    from conversations import Encoder

    return Encoder()
