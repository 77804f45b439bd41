"""Runs the tests of tools/mini that need no PyTorch: the grammar, its rendering and the suite."""

import pathlib
import sys

try:
    import jinja2  # noqa: F401
    import pytest
    import tokenizers  # noqa: F401
except ImportError as error:
    print(f"skipped: {error}; tools/setup.sh --tests installs it")
    sys.exit(77)

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "tools" / "mini"
NAMES = ("test_grammar.py", "test_conversations.py", "test_suite.py")
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", *(str(FOLDER / name) for name in NAMES)]))
