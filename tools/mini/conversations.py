"""From a conversation to tokens: rendering with the chat template, and the weight of every token."""

import bisect
import json
import pathlib
import re

import jinja2
import jinja2.ext
import jinja2.sandbox
import tokenizers

FOLDER = pathlib.Path(__file__).resolve().parent
TEMPLATE_FILE = FOLDER.parent.parent / "resources" / "qwen3.6-chat-template.jinja"
TOKENIZER_FILE = FOLDER / "tokenizer.json"

# What a token is to the loss.
FORCED, OTHER, ANSWER, DECISION = range(4)


def load_template():
    """The template in an environment like the one Hugging Face gives it."""
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols]
    )
    environment.filters["tojson"] = lambda value, **_: json.dumps(value, ensure_ascii=False)

    def raise_exception(message):
        raise jinja2.TemplateError(message)

    environment.globals["raise_exception"] = raise_exception
    return environment.from_string(TEMPLATE_FILE.read_text(encoding="utf-8"))


def load_tokenizer():
    return tokenizers.Tokenizer.from_file(str(TOKENIZER_FILE))


class Renderer:
    """Conversations to text."""

    def __init__(self):
        self.template = load_template()

    def render(self, conversation, add_generation_prompt=False):
        options = {"preserve_thinking": True} if conversation.preserve_thinking else {}
        return self.template.render(
            messages=conversation.messages,
            tools=conversation.tools or None,
            add_generation_prompt=add_generation_prompt,
            enable_thinking=conversation.thinking,
            **options
        )


class Encoder:
    """Conversations to token ids and token weights."""

    def __init__(self):
        self.renderer = Renderer()
        self.tokenizer = load_tokenizer()
        self.message_start = self.tokenizer.token_to_id("<|im_start|>")
        self.message_end = self.tokenizer.token_to_id("<|im_end|>")
        self.think = self.tokenizer.token_to_id("<think>")
        self.two_newlines = self.ids("\n\n")[0]
        self.assistant = self.ids("assistant")

    def ids(self, text):
        return self.tokenizer.encode(text).ids

    def answer_spans(self, ids):
        """(first, end) of the tokens that the model itself writes in each assistant turn, <|im_end|>
        included.

        What the template forces is left out: the role, the opening of a thought, and a whole empty thought.
        """
        spans, position = [], 0
        role = [self.message_start, *self.assistant]
        while position < len(ids):
            if ids[position : position + len(role)] != role:
                position += 1
                continue
            first = position + len(role) + 1  # behind the newline
            if first + 1 < len(ids) and ids[first] == self.think:
                empty = ids[first + 1] == self.two_newlines
                first += 4 if empty else 2
            end = ids.index(self.message_end, first) + 1
            spans.append((first, end))
            position = end
        return spans

    def encode(self, conversation):
        """(ids, weights): weights[i] says what predicting ids[i] is worth."""
        text = self.renderer.render(conversation)
        encoding = self.tokenizer.encode(text)
        ids = encoding.ids
        weights = [OTHER] * len(ids)
        starts = [start for start, _ in encoding.offsets]
        for first, end in self.answer_spans(ids):
            forced = first - 1
            while ids[forced] != self.message_start:
                weights[forced] = FORCED
                forced -= 1
            weights[first:end] = [ANSWER] * (end - first)
            answer = text[starts[first] : starts[end - 1]]
            for pattern in conversation.decisions:
                for match in re.finditer(pattern, answer):
                    begin, stop = match.span(1) if match.re.groups else (match.end(), match.end() + 1)
                    begin, stop = (
                        bisect.bisect_right(starts, starts[first] + place) for place in (begin, stop - 1)
                    )
                    for index in range(max(first, begin - 1), min(stop, end)):
                        weights[index] = DECISION
        return ids, weights
