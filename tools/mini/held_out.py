"""Held-out tasks: a conversation up to one answer, and that answer."""

import dataclasses

from grammar.mixture import HELD_OUT_KINDS, held_out_conversations

# The suite is judged once, at the end of training; what is looked at meanwhile, and what the grammar was
# mended after, have other seeds.
SUITE_SEED = 20261130
SUITE_TASKS = 200
KINDS = (*HELD_OUT_KINDS, "reply")


@dataclasses.dataclass
class Task:
    """The conversation's last message is the answer that is wanted."""

    kind: str
    conversation: object

    @property
    def answer(self):
        return self.conversation.messages[-1]


def up_to(conversation, index):
    """The same conversation, ended by message `index`."""
    return dataclasses.replace(conversation, messages=conversation.messages[: index + 1])


def tasks_of(conversation):
    """A chain and the questions about a long text are judged turn by turn; of a call, the call and, as kind
    `reply`, the reply; else the last answer."""
    answers = [index for index, message in enumerate(conversation.messages) if message["role"] == "assistant"]
    if conversation.kind == "fact_long":  # the call that reads the text is no answer
        answers = [index for index in answers if not conversation.messages[index].get("tool_calls")]
    if conversation.kind in ("chain", "fact_long"):
        return [Task(conversation.kind, up_to(conversation, index)) for index in answers]
    if conversation.kind in ("one_call", "parallel_calls"):
        call, reply = answers
        return [Task(conversation.kind, up_to(conversation, call)), Task("reply", up_to(conversation, reply))]
    return [Task(conversation.kind, conversation)]


def tasks(seed, per_kind, kinds=KINDS):
    """`per_kind` tasks of each kind, in the order they are drawn."""
    counts = dict.fromkeys(kinds, 0)
    for conversation in held_out_conversations(seed, per_kind):
        for task in tasks_of(conversation):
            if counts.get(task.kind, per_kind) < per_kind:
                counts[task.kind] += 1
                yield task
