"""The mixture of all kinds: what training sees, and what the held-out set asks."""

from . import arithmetic, documents, json_answers, lists, off_grammar, small_talk, tool_dialogues
from .words import FRESH, Words

# Shares of conversations. Of tokens, 70 % are tool dialogues, which take longest to learn, and 18 % texts; one
# with tools or a text has many more than one of small talk.
TRAINING_SHARES = (
    (tool_dialogues, 0.46),
    (documents, 0.12),
    (off_grammar, 0.11),
    (lists, 0.13),
    (json_answers, 0.09),
    (arithmetic, 0.05),
    (small_talk, 0.04),
)

HELD_OUT_KINDS = {
    "one_call": tool_dialogues,
    "parallel_calls": tool_dialogues,
    "chain": tool_dialogues,
    "tool_error": tool_dialogues,
    "no_tool_fits": tool_dialogues,
    "fact_absent": documents,
    "fact_short": documents,
    "fact_long": documents,
    "json": json_answers,
    "arithmetic": arithmetic,
    "lists": lists,
    "talk": small_talk,
    "off_grammar": off_grammar,
}


class TrainingStream:
    """Conversations without end; the seed decides them all."""

    def __init__(self, seed, fresh=FRESH):
        self.words = Words(seed, held_out=False, fresh=fresh)

    def next(self, max_length):
        """A conversation of about `max_length` tokens at most."""
        self.words.forget()
        position = self.words.random.random()
        for grammar, share in TRAINING_SHARES:
            if position < share:
                break
            position -= share
        return grammar.training_conversation(self.words, max_length)


def held_out_conversations(seed, per_kind, kinds=tuple(HELD_OUT_KINDS)):
    """`per_kind` conversations of each kind, whose words never occur in training. The last turns are to be
    judged."""
    for kind in kinds:
        words = Words(f"{seed} {kind}", held_out=True)
        for _ in range(per_kind):
            words.forget()
            yield HELD_OUT_KINDS[kind].held_out_conversation(words, kind)
