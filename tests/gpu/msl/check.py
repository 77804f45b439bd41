"""Reads the kernels as Metal Shading Language, without a Mac, and proves that the check finds what it is there for.

clang parses the Metal branch of the dialect against stand-ins for Apple's headers, in which address spaces are real and
forbidden words are poisoned; clang-query and clang-tidy find what the parser lets pass (lambdas, recursion, globals);
a pattern finds pointers written without an alias; the host compiler finds what only MSL's vectors have (swizzles).

usage: check.py kernels | violations HOST_COMPILER; exit code 77 says "skipped" to CTest.
"""

import concurrent.futures
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
VERSIONS = (16, 17, 18, 19, 20, 21)  # older ones have no __bf16 on x86-64
FLAGS = [f"-I{HERE}", f"-I{ROOT / 'src'}", "-nostdinc", "-nostdinc++", "-ffreestanding", "-Wno-unknown-attributes"]
WARNINGS = ["-Wall", "-Wextra", "-Wdouble-promotion", "-Wconversion", "-Wno-sign-conversion", "-Wvla",
            "-Werror"]
TENSOR_OPERATIONS = ["-std=c++20", "-DGPU_TENSOR_OPS"]
RAW_POINTER = re.compile(r"\b(?:float|u?int|ushort|uchar|ulong|bfloat|half|auto|void)[234]? *[*&] *[a-z]")


def find(tool):
    for version in VERSIONS:
        path = shutil.which(f"{tool}-{version}")
        if path:
            return path
    return None


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(77)


CLANG, QUERY, TIDY = find("clang++"), find("clang-query"), find("clang-tidy")


def run(command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return done.returncode, done.stdout


def faults(source, host_compiler=None, extra=()):
    """Yields (checker, what it says) for one source file that defines __METAL_VERSION__ itself."""
    for standard in (["-std=c++17"], TENSOR_OPERATIONS):
        code, text = run([CLANG, *standard, "-fsyntax-only", *FLAGS, *WARNINGS, *extra, str(source)])
        if code != 0:
            yield "clang", text
    _, text = run([QUERY, "-f", str(HERE / "rules.query"), str(source), "--", "-std=c++17", *FLAGS])
    if "binds here" in text:
        yield "clang-query", text
    elif text.count("0 matches.") != (HERE / "rules.query").read_text().count("\nm "):
        yield "clang-query", f"error: a rule did not run:\n{text}"
    _, text = run([TIDY, "--quiet", "--checks=-*,misc-no-recursion", str(source), "--", "-std=c++17", *FLAGS])
    if "recursive call chain" in text:
        yield "clang-tidy", text
    if host_compiler:
        host = source.with_name(source.stem + "_host.cpp")
        host.write_text(source.read_text().replace("#define __METAL_VERSION__ 400\n", ""))
        code, text = run([host_compiler, "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-Wno-unused",
                          "-Wno-unused-parameter", f"-I{ROOT / 'src'}", f"-I{ROOT / 'include'}", str(host)])
        if code != 0:
            yield "host compiler", text


def raw_pointers(text):
    for number, line in enumerate(text.splitlines(), 1):
        code = line.split("//")[0]
        if RAW_POINTER.search(code):
            yield f"line {number}: a pointer or reference without an alias: {line.strip()}"


def check_kernels():
    found = list(faults(HERE / "kernels.cpp"))
    for path in sorted((ROOT / "src/backend/gpu/kernels").glob("**/*.h")):
        found += [(str(path.relative_to(ROOT)), fault) for fault in raw_pointers(path.read_text())]
    for checker, text in found:
        print(f"{checker}:\n{text}")
    print(f"msl: {len(found)} faults in the kernels, read by {pathlib.Path(CLANG).name}")
    return 1 if found else 0


def violations():
    """Yields (must it be found, name, declarations, body of a kernel)."""
    for line in (HERE / "violations.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            verdict, name, declarations, body = (part.strip() for part in line.split("|", 3))
            yield verdict == "refused", name, declarations, body


def judge(case, folder, host_compiler):
    number, (must_be_found, name, declarations, body) = case
    source = pathlib.Path(folder) / f"violation_{number}.cpp"
    source.write_text(f"""#define __METAL_VERSION__ 400
#include "backend/gpu/dialect/gpu.h"
using namespace lily::gpu;
struct S {{
  enum : uint {{ threads = 32 }};
  in<float> x; out<float> y; in<bfloat> h; out<atomic_uint> c; uint n;
  struct Shared {{ float f[32]; atomic_uint u[4]; }};
}};
{declarations}
GPU_KERNEL(S) {{ {body} }}
""")
    found = next(faults(source, host_compiler, ["-Wno-unused", "-Wno-unused-parameter"]), None)
    if found is None:
        found = next((("pattern", fault) for fault in raw_pointers(body)), None)
    what = "accepted" if found is None else f"{found[0]}: " + next(
        (line for line in found[1].splitlines() if "error" in line or "warning" in line or "binds" in line),
        found[1].splitlines()[0] if found[1] else "")
    return (found is not None) == must_be_found, name, what.replace(str(source), "")


def check_violations(host_compiler):
    cases = list(enumerate(violations()))
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(2) as pool:
        verdicts = list(pool.map(lambda case: judge(case, folder, host_compiler), cases))
    wrong = 0
    for right, name, what in verdicts:
        wrong += not right
        print(f"{'ok   ' if right else 'WRONG'} {name:45} {what[:110]}")
    print(f"msl: {len(cases)} cases, {wrong} wrong")
    return 1 if wrong or not cases else 0


def main():
    if not (CLANG and QUERY and TIDY):
        skip("clang++, clang-query and clang-tidy of version 16 or newer are not installed (tools/setup.sh --tests)")
    if sys.argv[1:2] == ["kernels"]:
        return check_kernels()
    if sys.argv[1:2] == ["violations"] and len(sys.argv) == 3:
        return check_violations(sys.argv[2])
    print(__doc__)
    return 2


if __name__ == "__main__":
    sys.exit(main())
