"""Averages the weights of two exported checkpoints of one training.

usage: average.py FIRST SECOND SHARE OUT   (SHARE of the second's weights, 0 to 1)

Between the first training's end and the second's lie weights that answer better than either.
"""

import pathlib
import shutil
import sys

import safetensors.torch
import torch


def average(first, second, share, out):
    first, second, out = (pathlib.Path(folder) for folder in (first, second, out))
    own = shutil.ignore_patterns("log.json", "evaluation.json", "output.txt")
    shutil.copytree(second, out, ignore=own, dirs_exist_ok=True)
    for file in sorted(second.glob("model-*.safetensors")):
        old, new = (safetensors.torch.load_file(folder / file.name) for folder in (first, second))
        mixed = {
            name: ((1 - share) * old[name].float() + share * value.float()).to(torch.bfloat16)
            for name, value in new.items()
        }
        safetensors.torch.save_file(mixed, out / file.name, metadata={"format": "pt"})


if __name__ == "__main__":
    average(sys.argv[1], sys.argv[2], float(sys.argv[3]), sys.argv[4])
