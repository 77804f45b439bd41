"""A few steps on a CPU for something that trained weights lack and the grammar has learnt since.

usage: mend.py FROM OUT

Of the rows a half is what was missing: questions about a list that nobody gave, which were answered by counting
without an end, and texts about things like "the red door", whose questions began to repeat themselves. The others
keep what was learnt. The forward pass uses the rounded weights, so that the quantized file answers as well.
"""

import sys

import torch

from architecture import Architecture
from conversations import ANSWER, DECISION, OTHER, Encoder
from data import pack
from export import export, load_export
from grammar import arithmetic, documents, json_answers, lists, off_grammar, small_talk, tool_dialogues
from grammar.conversation import Conversation, assistant, maybe_system, user
from grammar.words import Words
from model import Model
from optimizer import BETA_1, BETA_2
from parameters import Parameters
from train import BALANCE_WEIGHT, DECISION_WEIGHT, LAST_OTHER_WEIGHT

SEED = "afterwards 5"
STEPS = 30
RATE, WARM_UP_STEPS, LAST_STEP = 1e-4, 10, 100  # at LAST_STEP the rate would be nothing; less is enough
ROWS, LENGTH = 6, 128
TEXT_ROWS, TEXT_LENGTH = 3, 320
TOOL_ROWS_EVERY, TOOL_LENGTH = 6, 704  # one row with tools so often
TOKENS = 300  # about the longest short conversation that is drawn; longer ones than a row are left out


def nothing_given(words):
    thinking = words.chance(0.5)
    question, answer = off_grammar.nothing_given(words)
    turns = [user(question), assistant(answer, off_grammar.THOUGHTS[answer], thinking)]
    return Conversation("off_grammar", maybe_system(words, 0.25) + turns, thinking)


SHARES = (
    (nothing_given, 0.3),
    (lambda words: off_grammar.training_conversation(words, TOKENS), 0.2),
    (lambda words: lists.training_conversation(words, TOKENS), 0.3),
    (lambda words: json_answers.training_conversation(words, TOKENS), 0.08),
    (lambda words: arithmetic.training_conversation(words, TOKENS), 0.06),
    (lambda words: small_talk.training_conversation(words, TOKENS), 0.06),
)


def short_conversation(words):
    position = words.random.random()
    for make, share in SHARES:
        if position < share:
            break
        position -= share
    return make(words)


def text_conversation(words):
    """Two of three about things, the others about names."""
    things = words.chance(0.65)
    while True:
        words.forget()
        conversation = documents.training_conversation(words, TOKENS)
        answers = [one["content"] for one in conversation.messages if one["role"] == "assistant"]
        if things == any(" of the " in answer for answer in answers):
            return conversation


def tool_conversation(words):
    return tool_dialogues.training_conversation(words, 560)


def samples(words, encoder, make, count, length):
    """Conversations that fit into a row."""
    fitting = []
    while len(fitting) < count:
        words.forget()
        ids, weights = encoder.encode(make(words))
        if len(ids) <= length + 1:
            fitting.append((ids, weights))
    return fitting


def batch_loss(model, batch, length):
    ids, codes = map(torch.from_numpy, pack(batch, length, len(batch)))
    weights = (
        (codes == OTHER) * LAST_OTHER_WEIGHT + (codes == ANSWER) * 1.0 + (codes == DECISION) * DECISION_WEIGHT
    )
    loss, balance, _, _ = model.loss(ids.long(), weights)
    return loss / weights.sum() + BALANCE_WEIGHT * balance


class Adam:
    """On the flat masters, all at one rate."""

    def __init__(self, parameters):
        self.parameters = parameters
        self.momentum, self.square = (torch.zeros_like(parameters.masters) for _ in range(2))

    @torch.no_grad()
    def step(self, number):
        gradients = self.parameters.gradients
        gradients = gradients / max(1.0, gradients.norm().item())
        self.momentum.lerp_(gradients, 1 - BETA_1)
        self.square.lerp_(gradients * gradients, 1 - BETA_2)
        rate = RATE * min(1, number / WARM_UP_STEPS) * (1 - (number - 1) / LAST_STEP)
        size = (self.square / (1 - BETA_2**number)).sqrt() + 1e-8
        self.parameters.masters.sub_(rate * self.momentum / (1 - BETA_1**number) / size)


def mend(begin, out, architecture, steps=STEPS):
    torch.set_flush_denormal(True)  # without it a step takes ten times as long
    parameters = Parameters(architecture, 1, "cpu", torch.float32, lambda function: function)
    load_export(parameters, begin)
    model, optimizer = Model(architecture, parameters.weights, False), Adam(parameters)
    encoder, words = Encoder(), Words(SEED, held_out=False)
    for number in range(1, steps + 1):
        parameters.refresh(quantized=True)
        parameters.gradients.zero_()
        losses = [
            batch_loss(model, samples(words, encoder, make, rows, length), length)
            for make, rows, length in (
                (short_conversation, ROWS, LENGTH),
                (text_conversation, TEXT_ROWS, TEXT_LENGTH),
            )
        ]
        if number % TOOL_ROWS_EVERY == 0:
            tools = samples(words, encoder, tool_conversation, 1, TOOL_LENGTH)
            losses.append(batch_loss(model, tools, TOOL_LENGTH))
        sum(losses).backward()
        optimizer.step(number)
        print(f"step {number}: {', '.join(f'{loss.item():.4f}' for loss in losses)}", flush=True)
    end_of_text = encoder.tokenizer.token_to_id("<|endoftext|>")
    export(parameters, parameters.masters, architecture, end_of_text, out)


if __name__ == "__main__":
    mend(*sys.argv[1:], Architecture())
