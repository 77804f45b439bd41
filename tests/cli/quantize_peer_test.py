"""Compares `lily quantize` with MLX-LM: the bytes of its converter, and its fp32 logits on what Lily wrote.

usage: quantize_peer_test.py PROGRAM BF16_MODEL QUANTIZED_MODEL...   Exit code 77 says "skipped" to CTest.

The bf16 model is quantized by both in four ways. Then MLX-LM loads Lily's result and each of the quantized models, and
Lily's reference backend is measured against its logits.
"""

import contextlib
import io
import json
import pathlib
import struct
import subprocess
import sys
import tempfile

try:
    import mlx.core as mx
    import mlx_lm
    import numpy
    from mlx.utils import tree_map
    from mlx_lm.convert import convert
except ImportError as error:
    print(f"skipped: {error}; tools/setup.sh --long-tests installs the packages of tools/requirements-long.txt")
    sys.exit(77)

LARGEST_LOGIT_ERROR = 1e-5  # of the largest logit: fp32 sums in another order
PAIRS = [(4, 64), (4, 32), (8, 64), (8, 32)]


def tensors(folder: pathlib.Path) -> dict:
    """Name to (dtype, shape, bytes), read without either program's code."""
    found = {}
    for path in sorted(folder.glob("model*.safetensors")):
        data = path.read_bytes()
        start = 8 + struct.unpack("<Q", data[:8])[0]
        for name, entry in json.loads(data[8:start]).items():
            if name != "__metadata__":
                begin, end = entry["data_offsets"]
                found[name] = (entry["dtype"], entry["shape"], data[start + begin:start + end])
    return found


def config(folder: pathlib.Path) -> dict:
    return json.loads((folder / "config.json").read_text())


def quantized_by_lily(program: str, model: str, out: pathlib.Path, bits: int, group_size: int) -> None:
    subprocess.run([program, "quantize", "--model", model, "--out", str(out), "--bits", str(bits),
                    "--group-size", str(group_size)], check=True, stdout=subprocess.DEVNULL)


def compare_bytes(program: str, model: str, folder: pathlib.Path) -> int:
    faults = 0
    for bits, group_size in PAIRS:
        ours, theirs = folder / f"lily-{bits}-{group_size}", folder / f"mlx-{bits}-{group_size}"
        quantized_by_lily(program, model, ours, bits, group_size)
        with contextlib.redirect_stdout(io.StringIO()):
            convert(model, str(theirs), quantize=True, q_bits=bits, q_group_size=group_size)
        a, b = tensors(ours), tensors(theirs)
        different = sorted(name for name in a.keys() | b.keys() if a.get(name) != b.get(name))
        same_config = all(config(ours)[key] == config(theirs)[key] for key in ("quantization", "quantization_config"))
        print(f"{bits} bits, groups of {group_size}: {len(b)} tensors, {len(different)} differ: {different[:5]}; "
              f"config {'equal' if same_config else 'differs'}")
        faults += len(different) + (not same_config) + (not b)
    return faults


def mlx_logits(model: str, ids: list) -> numpy.ndarray:
    """MLX-LM's logits with fp32 activations: scales, biases and vectors widened, codes as they are."""
    network, _ = mlx_lm.load(model)
    network.update(tree_map(lambda value: value.astype(mx.float32) if value.dtype == mx.bfloat16 else value,
                            network.parameters()))
    return numpy.array(network(mx.array([ids]))[0].astype(mx.float32))


def write_reference(path: pathlib.Path, ids: list, logits: numpy.ndarray) -> None:
    parts = [("short.ids", "I32", numpy.array(ids, "<i4")), ("short.logits", "F32", logits.astype("<f4"))]
    header, data = {}, b""
    for name, dtype, values in parts:
        begin = len(data)
        data += values.tobytes()
        header[name] = {"dtype": dtype, "shape": list(values.shape), "data_offsets": [begin, len(data)]}
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def compare_logits(program: str, model: str, reference: pathlib.Path) -> int:
    vocabulary = config(pathlib.Path(model))["text_config"]["vocab_size"]
    ids = [(at * 7919 + at * at) % (vocabulary - 40) for at in range(200)]
    logits = mlx_logits(model, ids)
    write_reference(reference, ids, logits)
    output = subprocess.run([program, "eval", "--model", model, "--backend", "reference", "--golden", str(reference),
                             "--json"], check=True, stdout=subprocess.PIPE).stdout
    row = json.loads(output)
    error = row["max_abs_error"] / float(numpy.abs(logits).max())
    print(f"{model}: {row['positions']} positions, largest logit error {error:.3g} of the largest logit, top-1 {row['top1']}")
    return int(row["positions"] != len(ids) or not error <= LARGEST_LOGIT_ERROR)


def main() -> int:
    program, bf16_model, others = sys.argv[1], sys.argv[2], sys.argv[3:]
    mx.set_default_device(mx.cpu)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        faults = compare_bytes(program, bf16_model, folder)
        for model in [str(folder / "lily-4-64"), *others]:
            faults += compare_logits(program, model, folder / "reference.safetensors")
    print(f"{faults} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
