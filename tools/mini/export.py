"""Writes parameters as a bf16 checkpoint in the Hugging Face layout, in small shards."""

import json
import pathlib

import safetensors.torch
import torch

from architecture import hugging_face_config

SHARD_BYTES = 14_000_000


def shards(tensors):
    """Groups of tensor names, in order, each of at most SHARD_BYTES in bf16."""
    groups, used = [[]], 0
    for name, tensor in tensors.items():
        if used + 2 * tensor.size > SHARD_BYTES and groups[-1]:
            groups.append([])
            used = 0
        groups[-1].append(name)
        used += 2 * tensor.size
    return groups


def export(parameters, values, architecture, end_of_text, folder):
    """`values` are flat like the masters."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    groups = shards(parameters.tensors)
    weight_map, total = {}, 0
    for index, names in enumerate(groups, 1):
        file_name = f"model-{index:05d}-of-{len(groups):05d}.safetensors"
        tensors = {
            name: parameters.view(values, name).to(torch.bfloat16).cpu().contiguous() for name in names
        }
        safetensors.torch.save_file(tensors, folder / file_name, metadata={"format": "pt"})
        weight_map |= dict.fromkeys(names, file_name)
        total += sum(2 * tensor.numel() for tensor in tensors.values())
    write_json(
        folder / "model.safetensors.index.json", {"metadata": {"total_size": total}, "weight_map": weight_map}
    )
    write_json(folder / "config.json", hugging_face_config(architecture, end_of_text))


def load_export(parameters, folder):
    """The masters from an exported checkpoint: bf16 values, no state of an optimizer."""
    for file in sorted(pathlib.Path(folder).glob("model-*.safetensors")):
        for name, value in safetensors.torch.load_file(file).items():
            parameters.view(parameters.masters, name).copy_(value)


def write_json(path, value):
    path.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")
