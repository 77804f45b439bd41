"""Compiles the parts of a training step side by side, in processes whose caches the run itself then uses.

One after the other they took 168 s before training began; this way 101 s, of which 54 are the slowest part.
A process runs the step with one part compiled and the others plain, so that the part sees what it will see.

usage: warm_up.py PART   (main.py starts one process a part)
"""

import dataclasses
import os
import pathlib
import subprocess
import sys
import time

MODEL_PARTS = ("delta_before", "delta_after", "attention_before", "attention_after", "head")
DELTA_RULE, OPTIMIZER = "delta_rule", "optimizer"
# Each of these compiles for a third of the row lengths.
CUMULATIVE_SUMS = ("cumulative_sums_1", "cumulative_sums_2", "cumulative_sums_3")
PARTS = (*MODEL_PARTS, DELTA_RULE, *CUMULATIVE_SUMS, OPTIMIZER)
LONGEST_SECONDS = 120  # of waiting; 39 were needed on a machine with nothing else to do
LAYERS = 4  # one of each kind among them: plain layers take much memory


def start():
    """The processes, one a part. What they compile goes where the environment says that caches are."""
    # Else each would start as many compilers as there are cores.
    own = os.environ | {"TORCHINDUCTOR_COMPILE_THREADS": "1"}
    return [
        subprocess.Popen([sys.executable, str(pathlib.Path(__file__).resolve()), part], env=own)
        for part in PARTS
    ]


def wait(processes):
    """The parts that failed or were late: the run compiles them itself, and says why it cannot."""
    end, missing = time.time() + LONGEST_SECONDS, []
    for part, process in zip(PARTS, processes):
        try:
            failed = process.wait(max(0.0, end - time.time()))
        except subprocess.TimeoutExpired:
            process.kill()
            failed = process.wait()
        missing += [part] if failed else []
    return missing


class StandIn:
    """In the delta rule's place: right shapes that depend on all inputs, nothing to compile."""

    @staticmethod
    def fast_delta_rule(q, k, v, log_decay, beta):
        repeat = v.shape[2] // q.shape[2]
        return v * (log_decay * beta)[..., None].to(v.dtype) + (q * k).repeat_interleave(repeat, 2)


def compile_model_part(part, architecture, slots, device):
    import torch

    from model import Model
    from parameters import Parameters

    architecture = dataclasses.replace(architecture, layers=LAYERS)
    working_type = torch.bfloat16 if device == "cuda" else torch.float32
    parameters = Parameters(architecture, 1, device, working_type, lambda function: function)
    parameters.refresh(quantized=False)
    model = Model(architecture, parameters.weights, fast=False, compiled_parts=(part,))
    model.fast = StandIn
    ids = torch.randint(0, architecture.vocabulary, (slots // 512, 513), device=device)
    weights = torch.ones(ids.shape[0], 512, device=device)
    loss, balance, _, _ = model.loss(ids, weights)
    (loss + balance).backward()


def compile_optimizer(architecture, device):
    import torch

    from optimizer import Optimizer
    from parameters import Parameters

    working_type = torch.bfloat16 if device == "cuda" else torch.float32
    parameters = Parameters(architecture, 1, device, working_type, torch.compile)
    parameters.refresh(quantized=True)
    optimizer = Optimizer(parameters, torch.compile)
    optimizer.set_step(1, 1.0, 1.0)
    optimizer.step()


def compile_delta_rule(a):
    import fast_delta_rule

    fast_delta_rule.check(
        a.delta_key_heads, a.delta_value_heads // a.delta_key_heads, a.delta_head_size, "cuda"
    )


def compile_cumulative_sums(architecture, slots, lengths):
    """The delta rule's one kernel that is compiled anew for every number of rows."""
    import torch

    import fast_delta_rule

    for length in lengths:
        fast_delta_rule.cumulative_sums(
            torch.zeros(slots // length, length, architecture.delta_value_heads, device="cuda")
        )


def main():
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    from architecture import Architecture
    from data import BATCH_SLOTS
    from schedule import LENGTHS

    part, architecture = sys.argv[1], Architecture()
    torch.set_float32_matmul_precision("high")
    torch._dynamo.config.cache_size_limit = 64
    if part == DELTA_RULE:
        compile_delta_rule(architecture)
    elif part in CUMULATIVE_SUMS:
        own = LENGTHS[CUMULATIVE_SUMS.index(part) :: len(CUMULATIVE_SUMS)]
        compile_cumulative_sums(architecture, BATCH_SLOTS, own)
    elif part == OPTIMIZER:
        compile_optimizer(architecture, "cuda")
    else:
        with sdpa_kernel([SDPBackend.FLASH_ATTENTION]):
            compile_model_part(part, architecture, BATCH_SLOTS, "cuda")


if __name__ == "__main__":
    main()
