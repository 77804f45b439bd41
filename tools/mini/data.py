"""Batches made on the fly by worker processes: no sample is seen twice."""

import collections
import multiprocessing
import queue
import random
import threading

import numpy
import torch

from conversations import Encoder
from grammar.mixture import TrainingStream

# A batch has rows of one length and always the same number of tokens, so that flat operations have one shape.
# 46,080 has many divisors: row lengths can lie close to each other, and nine slots of ten are used.
BATCH_SLOTS = 46080
WAITING_BATCHES = 60
WAIT_SECONDS = 90  # without a batch for so long, the workers must have failed
# The memory of a batch belongs to the copying stream, which would write the next one over it as soon as it is
# free. The device has read a batch when the optimizer's settings are copied, once in at most two batches;
# four are held.
HELD_BATCHES = 4


def row_length(tokens, lengths):
    """The shortest row that holds a conversation of so many tokens; one token is only ever a target."""
    return next((length for length in lengths if length >= tokens - 1), None)


def pack(samples, length, rows):
    """(ids [rows, length + 1], weights [rows, length]) of samples (ids, weights); weights say what predicting
    the next token is worth, and are FORCED where a row has ended."""
    ids = numpy.zeros((rows, length + 1), numpy.int16)
    weights = numpy.zeros((rows, length), numpy.uint8)
    for row, (sample_ids, sample_weights) in enumerate(samples):
        ids[row, : len(sample_ids)] = sample_ids
        weights[row, : len(sample_ids) - 1] = sample_weights[1:]
    return ids, weights


def work(seed, schedule, slots, progress, batches):
    """A worker: fills rows of every length and hands over a batch when its rows are full."""
    encoder, stream = Encoder(), TrainingStream(seed)
    chance = random.Random(seed)
    pools = {length: [] for length in schedule.lengths if length <= slots}
    while True:
        conversation = stream.next(schedule.longest_conversation(progress.value, chance))
        sample = encoder.encode(conversation)
        length = row_length(len(sample[0]), schedule.lengths)
        if length not in pools:
            continue
        pool = pools[length]
        pool.append(sample)
        if len(pool) == slots // length:
            batches.put(pack(pool, length, len(pool)))
            pool.clear()


class Loader:
    """Batches on the device: workers, and a thread that copies ahead."""

    def __init__(self, seed, schedule, workers, slots, device):
        context = multiprocessing.get_context("fork")
        self.progress = context.Value("d", 0.0)
        self.device = device
        self.made = context.Queue(WAITING_BATCHES)
        self.processes = [
            context.Process(
                target=work,
                args=(f"{seed} {index}", schedule, slots, self.progress, self.made),
                daemon=True,
            )
            for index in range(workers)
        ]
        for process in self.processes:
            process.start()

    def start_copying(self):
        """Not before the workers were forked: the device must not be touched until then."""
        self.ready = queue.Queue(6)
        self.in_use = collections.deque(maxlen=HELD_BATCHES)
        threading.Thread(target=self.copy_ahead, daemon=True).start()

    def copy_ahead(self):
        stream = torch.cuda.Stream() if self.device == "cuda" else None
        while True:
            ids, weights = map(torch.from_numpy, self.made.get())
            if stream is None:
                self.ready.put((ids, weights, None, None))
                continue
            with torch.cuda.stream(stream):
                pinned = ids.pin_memory(), weights.pin_memory()
                copies = [tensor.to(self.device, non_blocking=True) for tensor in pinned]
                copied = torch.cuda.Event()
                copied.record()
            # The pinned sources travel along, so that they live until the copy is done.
            self.ready.put((*copies, copied, pinned))

    def next(self):
        """(ids, weights) whose copy is ordered before what the current stream does next."""
        batch = self.ready.get(timeout=WAIT_SECONDS)
        self.in_use.append(batch)
        ids, weights, copied, _ = batch
        if copied is not None:
            torch.cuda.current_stream().wait_event(copied)
        return ids, weights

    def stop(self):
        for process in self.processes:
            process.terminate()
