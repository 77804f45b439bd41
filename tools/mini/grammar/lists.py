"""Questions about a list: count it, name an item, what follows, is it in there, repeat it."""

from .conversation import Conversation, assistant, maybe_system, user

OPERATIONS = ("count", "first", "last", "summary", "after", "has", "repeat")
# Whether an unknown word is among others is harder to learn than all the rest.
TRAINED_OPERATIONS = OPERATIONS + ("has", "has", "has", "last")
# Behind these words it shows whether the item is there.
DECISIONS = (r"^", r"I find(?= )", r" is(?= (not )?in the list)")


def numbered(items):
    """Counting made visible: "1 apple, 2 pear"."""
    return ", ".join(f"{index} {item}" for index, item in enumerate(items, 1))


def question_and_answer(words, operation, items, thinking):
    """(question, answer, thought). Without a thought the answer itself counts."""
    look = "I look at the list."
    if operation == "count":
        answer = f"There are {len(items)} items."
        return (
            words.pick(
                [
                    "How many items are in the list?",
                    "Count the items.",
                    "How long is the list?",
                    "How many are there?",
                ]
            ),
            answer if thinking else f"{numbered(items)}. {answer}",
            numbered(items) + ".",
        )
    if operation == "first":
        return (
            words.pick(["What is the first item?", "Which item comes first?"]),
            f"The first item is {items[0]}.",
            look,
        )
    if operation == "last":
        return (
            words.pick(["What is the last item?", "Which item comes last?"]),
            f"The last item is {items[-1]}.",
            look,
        )
    if operation == "summary":
        return (
            words.pick(["Summarize the list.", "Give me a short summary."]),
            f"A list from {items[0]} to {items[-1]}.",
            look,
        )
    if operation == "after":
        place = words.random.randrange(len(items) - 1)
        return (
            words.pick(["What comes after {0}?", "Which item follows {0}?"]).format(items[place]),
            f"After {items[place]} comes {items[place + 1]}.",
            look,
        )
    if operation == "has":
        item = words.pick(items) if words.chance(0.5) else words.word()
        found, state = (item, "is") if item in items else ("nothing", "is not")
        # The item comes before what is said of it: with its tokens just read, the list is easier to search.
        return (
            words.pick(["Is {0} in the list?", "Does the list contain {0}?"]).format(item),
            f"{item} {state} in the list.",
            f"I look for {item}. I find {found}.",
        )
    return words.pick(["Repeat the list.", "Say the list again."]), ", ".join(items) + ".", look


def turns(words, thinking, count):
    items = list(dict.fromkeys(words.word() for _ in range(words.random.randint(2, 9))))
    while len(items) < 2:
        items.append(words.invented())
    text = "- " + "\n- ".join(items) if words.chance(0.35) else words.pick([", ", "\n"]).join(items)
    messages = []
    operations = OPERATIONS if words.held_out else TRAINED_OPERATIONS
    for index, operation in enumerate(words.random.sample(operations, count)):
        question, answer, thought = question_and_answer(words, operation, items, thinking)
        asked = (
            f"{words.pick(['List:', 'Here is a list:', 'My list:'])}\n{text}\n\n{question}"
            if index == 0
            else question
        )
        messages += [user(asked), assistant(answer, thought, thinking)]
    return messages


def training_conversation(words, max_length):
    thinking = words.chance(0.5)
    messages = maybe_system(words, 0.15) + turns(words, thinking, words.random.randint(1, 5))
    return Conversation("lists", messages, thinking, preserve_thinking=words.chance(0.6), decisions=DECISIONS)


def held_out_conversation(words, kind):
    thinking = words.chance(0.5)
    return Conversation(kind, turns(words, thinking, 1), thinking)
