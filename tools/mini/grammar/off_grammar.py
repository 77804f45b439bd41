"""Everything a person types that lily-mini has not learnt, and the polite answer that says what it can do."""

from . import lists, small_talk
from .conversation import Conversation, assistant, maybe_system, user
from .languages import foreign_text, random_script
from .off_grammar_templates import COUNTING, KNOWLEDGE, SNIPPETS, WRITING
from .tool_dialogues import NO_TOOL
from .tool_requests import request_for
from .tools import assistant_tool, toolset
from .typing_errors import misspell
from .words import split

SKILLS = "I can read a text, call tools, keep lists and answer short questions."
FOREIGN = "I am a small model and understand only simple English. " + SKILLS
NONSENSE = "I did not understand that. I am a small model. " + SKILLS
UNKNOWN = "I am a small model and do not know that. " + SKILLS
CREATIVE = "I am too small to write that. " + SKILLS
CODE = "I am too small to work with code. " + SKILLS
SYMBOLS = "I see no question there. " + SKILLS
NO_QUESTION = "That is a text without a question. Ask me about a fact in it."
POLITE_ANSWERS = (FOREIGN, NONSENSE, UNKNOWN, CREATIVE, CODE, SYMBOLS, NO_QUESTION, NO_TOOL)

EMOJI = [
    chr(code)
    for first, last in (
        (0x1F600, 0x1F64F),
        (0x1F300, 0x1F3FA),
        (0x1F400, 0x1F4FF),
        (0x1F680, 0x1F6C5),
        (0x2600, 0x26F9),
    )
    for code in range(first, last + 1)
]
MARKS = "?!.,;:-_+*/#%&$@=~^|<>()[]{}'\"\\`"


def fill(words, template):
    """A template with its slots filled, each slot on its own."""
    draw = {
        "{noun}": lambda: words.pick(words.nouns),
        "{city}": words.city,
        "{name}": words.name,
        "{adjective}": lambda: words.pick(words.adjectives),
        "{occasion}": lambda: words.pick(words.occasions),
        "{errand}": words.errand,
        "{year}": lambda: str(words.random.randint(2, 2030)),
    }
    for slot, function in draw.items():
        while slot in template:
            template = template.replace(slot, function(), 1)
    return template


def untidy(words, text):
    """The same text as people type it: small letters, no marks, typing errors."""
    if words.chance(0.25):
        text = text.lower()
    if words.chance(0.15):
        text = text.rstrip(".?!")
    if words.chance(0.1):
        text = words.pick(list(small_talk.GREETINGS)) + words.pick([", ", "! ", " "]) + text
    if words.chance(0.1):
        text = words.pick(["Please ", "Can you help me? ", "Lily, ", "so ", "Hmm. "]) + text
    return misspell(words.random, text) if words.chance(0.2) else text


def foreign(words):
    return (foreign_text(words) if words.chance(0.8) else random_script(words)), FOREIGN


def knowledge(words):
    if not words.held_out and words.chance(0.2):
        return nothing_given(words)
    return untidy(words, fill(words, words.pick(split(KNOWLEDGE, words.held_out)))), UNKNOWN


def nothing_given(words):
    """A question about a list that nobody gave. Without these, one that began with "How many" was answered by
    counting without an end."""
    if words.chance(0.5):
        operation, items = words.pick(lists.OPERATIONS), [words.word(), words.word()]
        question, _, _ = lists.question_and_answer(words, operation, items, True)
    else:
        question = fill(words, words.pick(COUNTING))
    return untidy(words, question), UNKNOWN


def creative(words):
    return untidy(words, fill(words, words.pick(split(WRITING, words.held_out)))), CREATIVE


def code(words):
    template = words.pick(split(SNIPPETS, words.held_out)).replace(r"\n", "\n")
    names = {"a": words.invented(), "b": words.word(), "c": words.invented()}
    return template.format(**names, n=words.random.randint(0, 500)), CODE


def nonsense(words):
    """Keyboard noise, invented words, or known words in no order."""
    random = words.random
    kind = random.random()
    if kind < 0.35:
        keys = words.pick(
            ["asdfghjkl", "qwertyuiop", "abcdefghijklmnopqrstuvwxyz", "zxcvbnm", "aeiou", "xyz"]
        )
        pieces = [
            "".join(random.choice(keys) for _ in range(random.randint(2, 12)))
            for _ in range(random.randint(1, 5))
        ]
    elif kind < 0.7:
        pieces = [words.invented() for _ in range(random.randint(1, 8))]
    elif kind < 0.85:
        pieces = [words.pick(words.nouns + words.adjectives) for _ in range(random.randint(1, 8))]
    else:
        pieces = [words.pick(["la", "ha", "bla", "na", "ugh", "hmm", "ah"])] * random.randint(2, 20)
    text = " ".join(pieces)
    return (text.upper() if words.chance(0.1) else text) + words.pick(["", "", "", "?", ".", "!"]), NONSENSE


def symbols(words):
    """Emoji, marks, digits, single letters."""
    random = words.random
    kind = random.random()
    if kind < 0.4:
        own = split(EMOJI, words.held_out)
        return words.pick(["", " "]).join(words.pick(own) for _ in range(random.randint(1, 8))), SYMBOLS
    if kind < 0.65:
        return "".join(words.pick(MARKS) for _ in range(random.randint(1, 10))), SYMBOLS
    if kind < 0.75:
        return words.pick(MARKS) * random.randint(1, 40), SYMBOLS
    if kind < 0.9:
        return " ".join(words.digits(random.randint(1, 12)) for _ in range(random.randint(1, 4))), SYMBOLS
    return words.pick("abcdefghijklmnopqrstuvwxyz"), SYMBOLS


def long_text(words, max_length):
    """A text and nothing to do with it."""
    count = words.random.randint(5, max(6, max_length // 12))
    return " ".join(words.sentence().capitalize() + "." for _ in range(count)), NO_QUESTION


def missing_tool(words):
    """A request for the assistant's tools, where there are none."""
    return (
        request_for(
            words,
            assistant_tool(
                words,
                words.pick(
                    ["add_event", "add_reminder", "find_contact", "add_note", "get_weather", "send_message"]
                ),
                set(),
            ),
        ).text,
        NO_TOOL,
    )


SHARES = (
    (foreign, 0.2),
    (knowledge, 0.24),
    (creative, 0.1),
    (code, 0.1),
    (nonsense, 0.16),
    (symbols, 0.12),
    (long_text, 0.08),
)
THOUGHTS = {
    FOREIGN: "This is not simple English.",
    NONSENSE: "I do not understand this.",
    UNKNOWN: "I do not know this.",
    CREATIVE: "I cannot write this.",
    CODE: "This is code.",
    SYMBOLS: "There is no question.",
    NO_QUESTION: "There is no question.",
    NO_TOOL: "I have no tool.",
}


def exchange(words, max_length):
    position = words.random.random()
    for make, share in SHARES:
        if position < share:
            return make(words, max_length) if make is long_text else make(words)
        position -= share
    return knowledge(words)


def turn(words, thinking, max_length, with_tools):
    question, answer = (
        missing_tool(words) if not with_tools and words.chance(0.06) else exchange(words, max_length)
    )
    return [user(question), assistant(answer, THOUGHTS[answer], thinking)]


def training_conversation(words, max_length):
    """One to four rounds, some of them small talk, some with tools that are of no use."""
    thinking = words.chance(0.5)
    with_tools = words.chance(0.12)
    tools = toolset(words, words.random.randint(1, 3)) if with_tools else []
    messages = maybe_system(words, 0.25)
    for _ in range(words.pick([1, 1, 2, 3, 4])):
        if words.chance(0.25):
            question, answer = small_talk.exchange(words)
            thought = "No tool needed." if with_tools else "Small talk. I answer briefly."
            messages += [user(question), assistant(answer, thought, thinking)]
        else:
            messages += turn(words, thinking, min(max_length, 1500), with_tools)
    return Conversation("off_grammar", messages, thinking, [tool.schema for tool in tools], words.chance(0.6))


def held_out_conversation(words, kind):
    thinking = words.chance(0.5)
    return Conversation(kind, maybe_system(words, 0.2) + turn(words, thinking, 800, False), thinking)
