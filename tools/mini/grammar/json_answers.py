"""Answers that are nothing but a JSON object with the fields asked for."""

import json

from .conversation import Conversation, assistant, maybe_system, user
from .tool_requests import spoken


def draw_object(words):
    fields = {}
    for _ in range(words.random.randint(1, 5)):
        name = words.listed(words.attributes) if words.chance(0.55) else words.invented()
        kind = words.random.random()
        fields[name] = (
            words.random.randint(0, 9999)
            if kind < 0.3
            else words.chance(0.5) if kind < 0.37 else words.value()
        )
    return fields


def quoted(value):
    return spoken(value) if isinstance(value, int) else f'"{value}"'


def request(words, fields):
    """The object told in words, as pairs, as lines, or as facts to pick from."""
    kind = words.random.random()
    if kind < 0.4:
        start = words.pick(["Give me a JSON object with ", "Make a JSON object with ", "I need JSON with "])
        return start + ", ".join(f"{name} {quoted(value)}" for name, value in fields.items()) + "."
    if kind < 0.6:
        start = words.pick(["Write this as JSON: ", "Turn this into JSON: ", "As JSON: "])
        return start + ", ".join(f"{name} = {quoted(value)}" for name, value in fields.items()) + "."
    if kind < 0.8:
        start = words.pick(["Reply only with JSON. Fields:\n", "Answer in JSON with these fields:\n"])
        return start + "\n".join(f"{name}: {quoted(value)}" for name, value in fields.items())
    entity = words.name()
    shuffled = words.random.sample(list(fields), len(fields))
    facts = " ".join(f"The {name} of {entity} is {quoted(fields[name])}." for name in shuffled)
    return (
        facts
        + "\n"
        + words.pick(["Give the fields ", "Return the fields "])
        + ", ".join(fields)
        + " as JSON."
    )


def turns(words, thinking, count):
    messages = []
    for _ in range(count):
        fields = draw_object(words)
        messages += [
            user(request(words, fields)),
            assistant(json.dumps(fields, ensure_ascii=False), "Fields: " + ", ".join(fields) + ".", thinking),
        ]
    return messages


def training_conversation(words, max_length):
    thinking = words.chance(0.4)
    messages = maybe_system(words, 0.15) + turns(words, thinking, words.random.randint(1, 4))
    return Conversation("json", messages, thinking, preserve_thinking=words.chance(0.6))


def held_out_conversation(words, kind):
    thinking = words.chance(0.5)
    return Conversation(kind, turns(words, thinking, 1), thinking)
