"""lily-mini's suite is what the grammar of tools/mini makes: held-out tasks that no training has seen."""

import pathlib
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "mini"))

import make_suite  # noqa: E402

with tempfile.TemporaryDirectory() as folder:
    made = pathlib.Path(folder) / "suite.jsonl"
    make_suite.write(made)
    lines, stored = made.read_bytes().splitlines(), (ROOT / "models/lily-mini/suite.jsonl").read_bytes().splitlines()
different = sum(a != b for a, b in zip(lines, stored)) + abs(len(lines) - len(stored))
print(f"{len(lines)} tasks, {different} differ from models/lily-mini/suite.jsonl")
sys.exit(1 if different or not lines else 0)
