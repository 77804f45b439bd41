"""A conversation as the grammar makes it: messages, and what training has to know about them."""

import dataclasses


@dataclasses.dataclass
class Conversation:
    """One training or evaluation sample.

    `decisions` are regular expressions; the token after a match inside an answer, or all tokens of the group
    where there is one, decide whether the answer is right (which tool, is the fact there) and get more weight
    in training."""

    kind: str
    messages: list
    thinking: bool
    tools: list = dataclasses.field(default_factory=list)
    preserve_thinking: bool = False
    decisions: tuple = ()


def user(content):
    return {"role": "user", "content": content}


def system(content):
    return {"role": "system", "content": content}


def tool_result(content):
    return {"role": "tool", "content": content}


def assistant(content, thought, thinking, calls=()):
    """An answer; the thought is left out where the conversation has none."""
    message = {"role": "assistant", "content": content}
    if thinking:
        message["reasoning_content"] = thought
    if calls:
        message["tool_calls"] = list(calls)
    return message


SYSTEM_PROMPTS = (
    "You are Lily, a helpful assistant.",
    "You are Lily.",
    "You are a helpful assistant.",
    "Answer briefly.",
    "Be polite and short.",
    "You help the user with daily work.",
)


def maybe_system(words, probability):
    """No message, or a system message that changes nothing."""
    if not words.chance(probability):
        return []
    facts = (
        f"The user is {words.name()}.",
        f"Today is {words.iso_date()}.",
        f"The user lives in {words.city()}.",
    )
    return [system(words.pick(SYSTEM_PROMPTS if words.chance(0.7) else facts))]
