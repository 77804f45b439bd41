"""Sums, differences and the multiplication table."""

from .conversation import Conversation, assistant, maybe_system, user

QUESTIONS = (
    "What is {a} {sign} {b}?",
    "{a} {sign} {b} = ?",
    "Compute {a} {sign} {b}.",
    "How much is {a} {sign} {b}?",
    "{a}{sign}{b}",
    "{a} {sign} {b}",
    "Calculate {a} {sign} {b}",
    "what's {a} {sign} {b}?",
)


def addition(a, b):
    """The written way: units, tens, carry."""
    units = a % 10 + b % 10
    thought = f"{a % 10} + {b % 10} = {units}. {a // 10} + {b // 10} = {a // 10 + b // 10}."
    return a + b, thought + (" Carry 1." if units > 9 else "")


def subtraction(a, b):
    units = a % 10 - b % 10
    first = (
        f"{a % 10} - {b % 10} = {units}. "
        if units >= 0
        else f"1{a % 10} - {b % 10} = {units + 10}. Borrow 1. "
    )
    return a - b, first + f"{a // 10} - {b // 10} = {a // 10 - b // 10}."


def exercise(words):
    """(question, answer, thought)."""
    random = words.random
    sign = words.pick("+++---*")
    if sign == "*":
        a, b = random.randint(0, 10), random.randint(0, 10)
        result, thought = a * b, f"{a} times {b}."
    else:
        a, b = random.randint(0, 99), random.randint(0, 99)
        if sign == "-" and a < b:
            a, b = b, a
        result, thought = (addition if sign == "+" else subtraction)(a, b)
    spoken = {"+": "plus", "-": "minus", "*": "times"}[sign]
    question = words.pick(QUESTIONS)
    asked = question.format(a=a, b=b, sign=spoken if "} {" in question and words.chance(0.1) else sign)
    return asked, f"{a} {sign} {b} = {result}.", thought


def turns(words, thinking, count):
    messages = []
    for _ in range(count):
        question, answer, thought = exercise(words)
        messages += [user(question), assistant(answer, thought, thinking)]
    return messages


def training_conversation(words, max_length):
    thinking = words.chance(0.5)
    messages = maybe_system(words, 0.15) + turns(words, thinking, words.random.randint(1, 10))
    return Conversation(
        "arithmetic", messages, thinking, preserve_thinking=words.chance(0.6), decisions=(r"= ",)
    )


def held_out_conversation(words, kind):
    thinking = words.chance(0.5)
    return Conversation(kind, turns(words, thinking, 1), thinking)
