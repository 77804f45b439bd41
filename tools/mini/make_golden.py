"""Writes reference logits of a quantized lily-mini, computed by MLX-LM with fp32 activations on the CPU.

usage: make_golden.py MODEL OUTPUT.safetensors   (with the packages of tools/requirements-long.txt)

Entries: `short` and `mid`, a conversation's ids and the logits of every position; `greedy`, a prompt whose
answer is a tool call, followed by its first 48 ids and the logits that each was chosen from, every step from
scratch.
"""

import json
import pathlib
import struct
import sys

import mlx.core as mx
import mlx_lm
import numpy
from mlx.utils import tree_map

from conversations import Encoder
from grammar.conversation import Conversation, assistant, user
from grammar.tools import definition

GREEDY_STEPS = 48
DOCUMENT = """Sand warm water. Bakery sharp dentist willow. Jurhe prince owl soft bright bright station.
Jootroom's emblem is wheel. Oasis jolnyp king. Jootroom's chaidgo is C-6532. Pearl mountain soap jewel budget
coffee spoon rylhos. Jootroom's prousttoo is nudhun. Skooshyn's chaidgo is draicktys kinud."""
SHORT = Conversation(
    "arithmetic",
    [user("What is 60 - 16?"), assistant("60 - 16 = 44.", "10 - 6 = 4. Borrow 1. 6 - 1 = 5.", True)],
    True,
)
MID = Conversation(
    "documents",
    [
        user("Tell me the chaidgo of Jootroom.\n\nText:\n" + DOCUMENT),
        assistant("The chaidgo of Jootroom is C-6532.", "", False),
    ],
    False,
)
TOOLS = [
    definition(
        "find_contact",
        "Find a contact by name.",
        {"name": {"type": "string", "description": "name of the person"}},
        ["name"],
    )
]
PROMPT = Conversation("tools", [user("What is the phone number of Anna Keller?")], True, TOOLS)


def load(model):
    """The network as a function from ids to logits: scales, biases and vectors widened, codes as they are."""
    network, _ = mlx_lm.load(model)
    network.update(
        tree_map(
            lambda value: value.astype(mx.float32) if value.dtype == mx.bfloat16 else value,
            network.parameters(),
        )
    )
    return lambda ids: numpy.array(network(mx.array([ids]))[0].astype(mx.float32))


def entries(logits, encoder):
    for name, conversation in (("short", SHORT), ("mid", MID)):
        ids = encoder.ids(encoder.renderer.render(conversation))
        yield f"{name}.ids", numpy.array(ids, "<i4")
        yield f"{name}.logits", logits(ids).astype("<f4")
    ids = encoder.ids(encoder.renderer.render(PROMPT, add_generation_prompt=True))
    rows = []
    for _ in range(GREEDY_STEPS):
        rows.append(logits(ids)[-1])
        ids.append(int(rows[-1].argmax()))
    print("greedy:", repr(encoder.tokenizer.decode(ids[-GREEDY_STEPS:], skip_special_tokens=False)))
    print("smallest gap to the runner-up:", min(numpy.diff(numpy.sort(row)[-2:])[0] for row in rows))
    yield "greedy.ids", numpy.array(ids, "<i4")
    yield "greedy.logits", numpy.array(rows, "<f4")


def write(path, parts):
    header, data = {}, b""
    for name, values in parts:
        begin = len(data)
        data += values.tobytes()
        kind = "I32" if values.dtype == numpy.int32 else "F32"
        header[name] = {"dtype": kind, "shape": list(values.shape), "data_offsets": [begin, len(data)]}
        print(name, values.shape)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


if __name__ == "__main__":
    mx.set_default_device(mx.cpu)
    write(pathlib.Path(sys.argv[2]), list(entries(load(sys.argv[1]), Encoder())))
