"""Trains lily-mini: the command line of one run.

usage: main.py --wall SECONDS --to PROGRESS --state FILE --out FOLDER [--seed N] [--begin-with FOLDER]
"""

import argparse
import time

import warm_up

STARTED = time.time()


def main():
    parser = argparse.ArgumentParser(description="Train lily-mini; the top of train.py says how.")
    parser.add_argument("--wall", type=float, required=True, help="seconds this run may take in all")
    parser.add_argument(
        "--to", type=float, required=True, help="progress of the schedule at the end of this run"
    )
    parser.add_argument("--state", required=True, help="file the runs of one training hand on")
    parser.add_argument(
        "--out", required=True, help="folder of the exported checkpoint, the log and the evaluation"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--begin-with",
        default="",
        metavar="FOLDER",
        help="begin with the weights of this export",
    )
    arguments = parser.parse_args()
    compiling = warm_up.start()

    # Not earlier: importing torch takes its time on a fresh machine.
    import torch

    import train
    from architecture import Architecture

    torch.set_float32_matmul_precision("high")
    torch._dynamo.config.cache_size_limit = 64  # layers share code and differ in weights only
    train.run(train.Settings(**vars(arguments)), Architecture(), STARTED, compiling)


if __name__ == "__main__":
    main()
