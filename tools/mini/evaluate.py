"""Judges held-out tasks: an answer counts when each of its tokens is the likeliest behind those before it.

That is what greedy generation would write, except that it needs one pass over the whole conversation only.
"""

import dataclasses

import torch

from data import pack, row_length


@dataclasses.dataclass
class Item:
    kind: str
    ids: list
    first: int  # the tokens of the answer
    end: int


def prepare(tasks, encoder):
    items = []
    for task in tasks:
        ids, _ = encoder.encode(task.conversation)
        items.append(Item(task.kind, ids, *encoder.answer_spans(ids)[-1]))
    return items


@dataclasses.dataclass
class Score:
    """Shares of exact answers by kind, and the mean loss of a token of an answer."""

    exact: dict
    counts: dict
    loss: float


def batches(items, lengths, slots):
    """(items, row length) with at most as many rows as a training batch has."""
    by_length = {}
    for item in items:
        length = row_length(len(item.ids), lengths)
        if length is not None and length <= slots:
            by_length.setdefault(length, []).append(item)
    for length, own in sorted(by_length.items()):
        rows = slots // length
        for start in range(0, len(own), rows):
            yield own[start : start + rows], length


def evaluate(model, items, lengths, slots, device):
    """Full batches with gradients on, as in training, so that nothing is compiled for evaluation alone."""
    exact, total, count = {}, 0.0, 0
    for own, length in batches(items, lengths, slots):
        samples = [(item.ids, [0] * len(item.ids)) for item in own]
        for item, (_, weights) in zip(own, samples):
            weights[item.first : item.end] = [1] * (item.end - item.first)
        ids, weights = map(torch.from_numpy, pack(samples, length, slots // length))
        weights = weights.float()
        _, _, by_token, correct = model.loss(ids.to(device).long(), weights.to(device))
        total += (by_token.detach().cpu() * weights).sum().item()
        count += int(weights.sum())
        correct = correct.cpu()
        for row, item in enumerate(own):
            exact.setdefault(item.kind, []).append(bool(correct[row, item.first - 1 : item.end - 1].all()))
    return Score(
        {kind: round(100 * sum(own) / len(own), 1) for kind, own in sorted(exact.items())},
        {kind: len(own) for kind, own in sorted(exact.items())},
        round(total / max(1, count), 5),
    )
