"""Checks that the #include lines of src/ and include/ only point down the layers of docs/architecture.md."""

import pathlib
import re
import sys

# The folders each layer may include besides itself, the public headers, the system's and its libraries.
ALLOWED = {
    "base": set(),
    "model": set(),
    "checkpoint": {"model", "base"},
    "text": {"base"},
    "backend": {"checkpoint", "model", "base"},
    "engine": {"backend", "text", "checkpoint", "model", "base"},
    "serve": set(),
    "cli": {"serve"},
}
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)


def layer_of(include: str) -> str:
    return include.split("/", 1)[0]


def faults(root: pathlib.Path):
    """Yields (file, include, reason) for every include that points up or sideways."""
    for path in sorted([*root.glob("src/**/*.[ch]pp"), *root.glob("src/**/*.h")]):
        own = path.relative_to(root / "src").parts[0]
        if own not in ALLOWED:
            yield path, "", f"src/{own} is no layer of tools/check_layers.py"
            continue
        for include in INCLUDE.findall(path.read_text()):
            layer = layer_of(include)
            if layer not in {own, "lily"} | ALLOWED[own]:
                yield path, include, f"{own}/ may include only {', '.join(sorted(ALLOWED[own] | {'lily'}))}"
    for path in sorted(root.glob("include/lily/*.hpp")):
        for include in INCLUDE.findall(path.read_text()):
            if layer_of(include) != "lily":
                yield path, include, "public headers may include only public headers"


def main() -> int:
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    files = len([*root.glob("src/**/*.[ch]pp"), *root.glob("src/**/*.h")])
    if files == 0:
        print(f"layers: no sources under {root}/src")
        return 2
    found = list(faults(root))
    for path, include, reason in found:
        print(f'{path.relative_to(root)}: includes "{include}": {reason}')
    print(f"layers: {files} files, {len(found)} faults")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
