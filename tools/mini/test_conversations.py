"""Rendering and token weights: what is trained is exactly what the model has to write itself."""

import dataclasses
import json
import pathlib

import pytest

pytest.importorskip("tokenizers", reason="encoding needs tokenizers")
pytest.importorskip("jinja2", reason="rendering needs jinja2")

import held_out  # noqa: E402
from conversations import ANSWER, DECISION, FORCED, OTHER, Renderer  # noqa: E402
from grammar.conversation import Conversation, assistant, user  # noqa: E402
from grammar.mixture import TrainingStream  # noqa: E402

CASES = pathlib.Path(__file__).resolve().parents[2] / "tests" / "data" / "qwen3.6-chat-template-cases.json"


def written(message):
    """An assistant message as the model writes it, behind the opening that the prompt gives."""
    text = message["content"]
    for index, call in enumerate(message.get("tool_calls", ())):
        function = call["function"]
        text += ("\n" if index else "") + f"<tool_call>\n<function={function['name']}>\n"
        for name, value in function["arguments"].items():
            shown = value if isinstance(value, str) else json.dumps(value)
            text += f"<parameter={name}>\n{shown}\n</parameter>\n"
        text += "</function>\n</tool_call>"
    thought = message.get("reasoning_content")
    return (f"{thought}\n</think>\n\n" if thought else "") + text + "<|im_end|>"


def test_the_answer_span_decodes_to_the_answer(encoder):
    for task in held_out.tasks(11, 6):
        ids, _ = encoder.encode(task.conversation)
        first, end = encoder.answer_spans(ids)[-1]
        assert encoder.tokenizer.decode(ids[first:end], skip_special_tokens=False) == written(task.answer)


def test_the_answer_begins_where_the_generation_prompt_ends(encoder):
    for task in held_out.tasks(12, 3):
        asked = dataclasses.replace(task.conversation, messages=task.conversation.messages[:-1])
        prompt = encoder.ids(encoder.renderer.render(asked, add_generation_prompt=True))
        ids, _ = encoder.encode(task.conversation)
        first, _ = encoder.answer_spans(ids)[-1]
        assert ids[:first] == prompt


def test_every_answer_of_a_training_conversation_has_a_span(encoder):
    stream = TrainingStream(8)
    for _ in range(60):
        conversation = stream.next(900)
        ids, weights = encoder.encode(conversation)
        answers = [message for message in conversation.messages if message["role"] == "assistant"]
        spans = encoder.answer_spans(ids)
        assert len(spans) == len(answers) and len(ids) == len(weights)
        for first, end in spans:
            assert set(weights[first:end]) <= {ANSWER, DECISION}
            assert weights[first - 1] == FORCED


def test_the_decision_is_the_token_behind_the_pattern(encoder):
    conversation = Conversation(
        "documents",
        [user("Hi"), assistant("The code of X is 7.", "", False)],
        False,
        decisions=(r" is(?= )",),
    )
    ids, weights = encoder.encode(conversation)
    decided = [index for index, weight in enumerate(weights) if weight == DECISION]
    assert len(decided) == 1
    assert encoder.tokenizer.decode(ids[: decided[0]], skip_special_tokens=False).endswith("The code of X is")
    assert OTHER in weights


def test_every_token_of_a_group_decides(encoder):
    conversation = Conversation(
        "documents",
        [user("Hi"), assistant("The code of X is 12345.", "", False)],
        False,
        decisions=(r" is (\d+)\.",),
    )
    ids, weights = encoder.encode(conversation)
    decided = [token for token, weight in zip(ids, weights) if weight == DECISION]
    assert encoder.tokenizer.decode(decided) == "12345"


def test_rendering_equals_the_published_cases():
    renderer, compared = Renderer(), 0
    for case in json.loads(CASES.read_text(encoding="utf-8"))["cases"]:
        if "rendered" not in case or "add_vision_id" in case["options"]:
            continue
        options = dict(case["options"])
        thinking = options.pop("enable_thinking", True)
        conversation = Conversation(
            "case", case["messages"], thinking, case["tools"], options.pop("preserve_thinking", False)
        )
        assert renderer.render(conversation, **options) == case["rendered"], case["name"]
        compared += 1
    assert compared > 30
