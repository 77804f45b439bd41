"""Questions about a text in the prompt: find the fact and copy it, or say that it is not there."""

import dataclasses
import math

from .conversation import Conversation, assistant, system, tool_result, user
from .tools import assistant_tool

FACTS = (
    "The {attribute} of {entity} is {value}.",
    "{entity}'s {attribute} is {value}.",
    "{entity} has the {attribute} {value}.",
    "As {attribute}, {entity} has {value}.",
    "For {entity} the {attribute} is {value}.",
    "{value} is the {attribute} of {entity}.",
    "{entity} ({attribute}: {value}).",
)
QUESTIONS = (
    "What is the {attribute} of {entity}?",
    "Tell me the {attribute} of {entity}.",
    "What is {entity}'s {attribute}?",
    "Which {attribute} does {entity} have?",
    "Give me the {attribute} of {entity}.",
    "{entity}: which {attribute}?",
    "I need the {attribute} of {entity}.",
    "Please find the {attribute} of {entity}.",
    "what is the {attribute} of {entity}",
    "Do you know the {attribute} of {entity}?",
)
PREFIXES = (
    "",
    "Text:\n",
    "Read this.\n\n",
    "Document:\n",
    "Here is a text.\n\n",
    "Answer from this text.\n\n",
)
# After these words it shows whether the fact is there.
DECISIONS = (r"I find(?= )", r"The [^.]* of [^.]* is(?= )")
ABSENT_SHARE = 0.27
# Held-out words are not in the tokenizer's vocabulary as a whole.
TOKENS_PER_CHARACTER = {False: 0.45, True: 0.54}


@dataclasses.dataclass
class Document:
    text: str
    entities: list
    attributes: list
    facts: list  # (entity, attribute, value), as they follow each other in the text

    def values(self):
        return {(entity, attribute): value for entity, attribute, value in self.facts}


def entity_name(words):
    """A name, or in training also a thing: "the red door"."""
    if not words.held_out and words.chance(0.15):
        adjective = words.pick(words.adjectives) + " " if words.chance(0.4) else ""
        return f"the {adjective}{words.word()}"
    kind = words.random.random()
    return words.name() if kind < 0.6 else words.city() if kind < 0.75 else words.invented().capitalize()


def layout(words, lines):
    """The lines as paragraphs, as a list of lines or as bullets."""
    style = words.random.random()
    if style < 0.65:
        paragraphs = []
        while lines:
            count = words.random.randint(2, 8)
            paragraphs.append(" ".join(lines[:count]))
            lines = lines[count:]
        return words.pick(["\n", "\n", "\n\n"]).join(paragraphs)
    bullet = "- " if style > 0.9 else ""
    return "\n".join(bullet + line for line in lines)


def draw_document(words, tokens):
    """Facts about a few things, with or without filler, of about `tokens` tokens."""
    count = max(2, int(tokens / words.pick([30, 50, 80, 150])))
    entities = list(dict.fromkeys(entity_name(words) for _ in range(count)))
    attributes = list(
        dict.fromkeys(
            words.listed(words.attributes) if words.chance(0.85) else words.invented()
            for _ in range(words.pick([2, 3, 5, 8]))
        )
    )
    filler_share = words.pick([0.0, 0.2, 0.5, 0.7, 0.85])
    only_template = words.pick(FACTS) if words.chance(0.3) else None
    terse = words.chance(0.15)
    lines, facts, known, length = [], [], set(), 0
    pairs = len(entities) * len(attributes)
    while length < tokens or not facts:
        entity, attribute = words.pick(entities), words.pick(attributes)
        full = len(known) == pairs
        if facts and (full or words.chance(filler_share)):
            line = words.sentence().capitalize() + "."
        elif (entity, attribute) in known:
            length += 1  # so that a nearly full table ends
            continue
        else:
            value = words.value()
            known.add((entity, attribute))
            facts.append((entity, attribute, value))
            template = "{entity} - {attribute}: {value}" if terse else only_template or words.pick(FACTS)
            line = template.format(entity=entity, attribute=attribute, value=value)
            if line.startswith("the "):
                line = "T" + line[1:]
        lines.append(line)
        length += len(line) * TOKENS_PER_CHARACTER[words.held_out]
    return Document(layout(words, lines), entities, attributes, facts)


def absent_pair(words, document):
    """An entity and an attribute that the text does not bring together; both may occur in it."""
    known = document.values()
    for _ in range(50):
        entity = words.pick(document.entities) if words.chance(0.7) else entity_name(words)
        attribute = words.pick(document.attributes) if words.chance(0.6) else words.listed(words.attributes)
        if (entity, attribute) not in known:
            return entity, attribute
    return None


def question_and_answer(words, document, absent, position=None):
    """(question, answer, thought); `position` in 0..1 chooses the fact by its place in the text."""
    pair = absent_pair(words, document) if absent else None
    if pair:
        entity, attribute = pair
        found, answer = "nothing", f"The {attribute} of {entity} is not in the text."
    else:
        if position is None:
            # Half of the questions prefer the beginning, which is the farthest away.
            position = words.random.random() if words.chance(0.5) else words.random.random() ** 2
        entity, attribute, found = document.facts[
            min(len(document.facts) - 1, int(position * len(document.facts)))
        ]
        answer = f"The {attribute} of {entity} is {found}."
    question = words.pick(QUESTIONS).format(attribute=attribute, entity=entity)
    return question, answer, f"I look for the {attribute} of {entity}. I find {found}."


def opening(words, text, question, thinking):
    """The messages up to the first answer, and the tools: the text stands in the message, in the system
    prompt or in a file that a tool reads."""
    place = words.random.random()
    if place < 0.6:
        return [
            user(words.pick(PREFIXES) + text + words.pick(["\n\n", "\n\nQuestion: ", "\n"]) + question)
        ], []
    if place < 0.75:
        return [user(question + "\n\n" + words.pick(["", "Text:\n"]) + text)], []
    if place < 0.88:
        return [
            system(
                words.pick(
                    ["Answer from this text.\n\n", "Use this text:\n", "You are Lily. You know this:\n"]
                )
                + text
            ),
            user(question),
        ], []
    reader = assistant_tool(words, "read_file", set())
    path = words.path()
    call = assistant(
        "",
        reader.plan("read a file", {"path": path}),
        thinking,
        [reader.call({"path": path})],
    )
    return [user(f"Read {path}. {question}"), call, tool_result(text)], [reader.schema]


def draw_length(words, max_length):
    """Tokens of a document: evenly on a logarithmic scale, and half of the long ones evenly above 1,500."""
    longest = max(60, max_length - 150)
    if longest > 1700 and words.chance(0.5):
        return words.random.randint(1500, longest)
    return int(math.exp(words.random.uniform(math.log(25), math.log(longest))))


def training_conversation(words, max_length):
    """One text and many questions: the longer the text, the more of them."""
    thinking = words.chance(0.4)
    document = draw_document(words, draw_length(words, max_length))
    count = min(24, 1 + int((1.5 * len(document.facts)) ** 0.5) + words.random.randint(0, 3))
    messages, tools = [], []
    for index in range(count):
        question, answer, thought = question_and_answer(words, document, words.chance(ABSENT_SHARE))
        if index == 0:
            messages, tools = opening(words, document.text, question, thinking)
        else:
            messages.append(user(question))
        messages.append(assistant(answer, thought, thinking))
    return Conversation("documents", messages, thinking, tools, words.chance(0.7), DECISIONS)


LENGTHS = {"fact_short": (30, 1800), "fact_long": (2900, 6400), "fact_absent": (50, 1800)}
QUESTIONS_OF_LONG_TEXTS = 4  # about one text, which is most of what the suite's file holds


def held_out_conversation(words, kind):
    """One question, or a few; a fact that is there stands in the first half, so that its distance is that of
    the kind."""
    shortest, longest = LENGTHS[kind]
    thinking = words.chance(0.5)
    tokens = int(math.exp(words.random.uniform(math.log(shortest), math.log(longest))))
    document = draw_document(words, tokens)
    absent = kind == "fact_absent"
    messages, tools = [], []
    for index in range(QUESTIONS_OF_LONG_TEXTS if kind == "fact_long" else 1):
        position = words.random.random() * (0.3 if kind == "fact_long" else 0.5)
        question, answer, thought = question_and_answer(words, document, absent, position)
        if index == 0:
            messages, tools = opening(words, document.text, question, thinking)
        else:
            messages.append(user(question))
        messages.append(assistant(answer, thought, thinking))
    return Conversation(kind, messages, thinking, tools, decisions=DECISIONS)
