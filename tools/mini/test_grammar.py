"""The grammar: the same conversations for the same seed, and a held-out side that training never sees."""

import itertools
import json

import pytest

import held_out
from grammar import mixture, off_grammar, tools, word_lists, words
from grammar.languages import SENTENCES


def names_of(tools):
    """Names of the tools and of their fields."""
    for tool in tools:
        yield tool["function"]["name"]
        yield from tool["function"]["parameters"]["properties"]


def training_conversations(seed, count, max_length=1500):
    stream = mixture.TrainingStream(seed)
    return [stream.next(max_length) for _ in range(count)]


def test_the_seed_decides_the_conversations():
    first = training_conversations("1 0", 50)
    assert first == training_conversations("1 0", 50)
    assert first != training_conversations("1 1", 50)


def test_the_held_out_tasks_are_always_the_same():
    assert list(held_out.tasks(5, 3)) == list(held_out.tasks(5, 3))


def test_every_kind_has_its_tasks():
    counts = {kind: 0 for kind in held_out.KINDS}
    for task in held_out.tasks(5, 4):
        counts[task.kind] += 1
    assert counts == dict.fromkeys(held_out.KINDS, 4)


@pytest.mark.parametrize("lists", [word_lists.TOOL_VERBS, word_lists.TOOL_NOUNS, word_lists.PARAMETER_NAMES])
def test_pieces_of_names_exist_on_both_sides(lists):
    for kind, own in lists.items():
        assert words.split(own, True), kind
        assert len(words.split(own, False)) >= 4, kind


def test_tool_and_field_names_of_the_suite_never_occur_in_training():
    held = {
        name for task in held_out.tasks(held_out.SUITE_SEED, 60) for name in names_of(task.conversation.tools)
    }
    conversations = training_conversations(1, 2000)
    trained = {name for one in conversations for name in names_of(one.tools)}
    assert len(held) > 300 and len(trained) > 2000
    assert not held & trained


@pytest.mark.parametrize(
    "side, fresh", [(False, words.LISTED_ONLY), (False, words.FRESH), (True, words.FRESH)]
)
def test_invented_words_belong_to_one_side(side, fresh):
    source = words.Words(3, held_out=side, fresh=fresh)
    drawn = []
    for _ in range(300):
        source.forget()
        drawn.append(source.invented())
    assert all(words.is_held_out(word) == side for word in drawn)


def test_off_grammar_templates_are_split_and_both_sides_have_some():
    for templates in (off_grammar.KNOWLEDGE, off_grammar.WRITING, off_grammar.SNIPPETS, off_grammar.EMOJI):
        held = set(words.split(templates, True))
        assert len(held) >= 5 and held.isdisjoint(words.split(templates, False))
    assert len(SENTENCES) == 20


def test_facts_of_the_suite_are_in_the_text_and_absent_ones_are_not():
    for task in itertools.islice(held_out.tasks(9, 40, ("fact_short", "fact_absent")), 80):
        answer = task.answer["content"]
        text = json.dumps(task.conversation.messages[:-1], ensure_ascii=False)
        if task.kind == "fact_short":
            assert answer.split(" is ", 1)[1].removesuffix(".") in text
        else:
            assert answer.endswith(" is not in the text.")


def test_every_call_fits_its_schema():
    types = {"string": str, "integer": int, "boolean": bool}
    calls = 0
    for conversation in training_conversations(4, 400):
        schemas = {tool["function"]["name"]: tool["function"]["parameters"] for tool in conversation.tools}
        for message in conversation.messages:
            for call in message.get("tool_calls", ()):
                schema = schemas[call["function"]["name"]]
                arguments = call["function"]["arguments"]
                assert set(schema["required"]) <= set(arguments) <= set(schema["properties"])
                for name, value in arguments.items():
                    assert type(value) is types[schema["properties"][name]["type"]]
                calls += 1
    assert calls > 200


def test_the_thought_before_a_call_goes_through_all_fields():
    calls = 0
    thoughtful = [one for one in training_conversations(6, 300) if one.tools and one.thinking]
    for conversation in thoughtful:
        schemas = {tool["function"]["name"]: tool["function"] for tool in conversation.tools}
        for message in conversation.messages:
            if "tool_calls" not in message:
                continue
            blocks = [block.split("\n") for block in message["reasoning_content"].split("I need to ")[1:]]
            assert len(blocks) == len(message["tool_calls"])
            for (_, description, name, *lines), call in zip(blocks, message["tool_calls"]):
                schema = schemas[call["function"]["name"]]
                assert (description, name) == (schema["description"], schema["name"])
                said = [line.split(": ", 1) for line in lines if line]
                assert [field.split(" (")[0] for field, _ in said] == list(schema["parameters"]["properties"])
                given = {field.split(" (")[0]: value for field, value in said if value != "none"}
                arguments = call["function"]["arguments"]
                assert given == {field: tools.spoken(value) for field, value in arguments.items()}
                calls += 1
    assert calls > 100


def test_invented_words_resemble_each_other_in_some_conversations():
    source, starts = words.Words(3, held_out=False), {True: [], False: []}
    for _ in range(400):
        source.forget()
        drawn = {source.invented()[:2] for _ in range(10)}
        starts[bool(source.pieces)].append(len(drawn))
    few, many = (sum(starts[some]) / len(starts[some]) for some in (True, False))
    assert len(starts[True]) > 150 and few < many - 0.5


def test_string_arguments_are_said_before_the_call():
    for task in held_out.tasks(7, 100, ("one_call", "parallel_calls", "chain")):
        before = json.dumps(task.conversation.messages[:-1], ensure_ascii=False)
        for call in task.answer.get("tool_calls", ()):
            for value in call["function"]["arguments"].values():
                if isinstance(value, str):
                    said = value.removeprefix("call ")
                    assert json.dumps(said, ensure_ascii=False)[1:-1] in before
