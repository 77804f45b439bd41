"""The suite's file: every line is a chat request with an expectation that a program can judge."""

import json

import pytest

import held_out
import make_suite


@pytest.fixture(scope="module")
def lines(tmp_path_factory):
    """The suite's lines, each whole."""
    path = tmp_path_factory.mktemp("suite") / "suite.jsonl"
    make_suite.write(path, per_kind=8)
    whole = []
    for text in path.read_text(encoding="utf-8").splitlines():
        line = json.loads(text)
        if line.pop("continues", False):
            line = whole[-1] | line | {"messages": whole[-1]["messages"] + line["messages"]}
        whole.append(line)
    return whole


def test_lines_hold_what_a_task_asks(lines):
    asked = [make_suite.suite_line(task) for task in held_out.tasks(held_out.SUITE_SEED, 8)]
    assert lines == asked


def test_every_kind_has_eight_lines(lines):
    assert len(lines) == 8 * len(held_out.KINDS)
    for line in lines:
        assert line["kind"] in held_out.KINDS and isinstance(line["enable_thinking"], bool)
        assert len({"calls", "equals", "contains", "json", "one_of"} & set(line["expect"])) == 1


def test_calls_are_expected_where_calls_are_asked_for(lines):
    for line in lines:
        if line["kind"] in ("one_call", "parallel_calls"):
            assert all(set(call) == {"name", "arguments"} for call in line["expect"]["calls"])
        if line["kind"] == "parallel_calls":
            assert len(line["expect"]["calls"]) > 1
        if line["kind"] in ("no_tool_fits", "tool_error", "reply"):
            assert "equals" in line["expect"] and line["tools"]


def test_results_name_the_call_they_belong_to(lines):
    results = 0
    for line in lines:
        waiting = []
        for message in line["messages"]:
            for call in message.get("tool_calls", ()):
                json.loads(call["function"]["arguments"])
                waiting.append(call["id"])
            if message["role"] == "tool":
                assert message["tool_call_id"] == waiting.pop(0)
                results += 1
        assert not waiting and line["messages"][-1]["role"] in ("user", "tool")
    assert results > 20


def test_facts_stand_in_the_text(lines):
    for line in lines:
        if line["kind"] in ("fact_short", "fact_long"):
            assert line["expect"]["contains"] in json.dumps(line["messages"], ensure_ascii=False)


def test_long_facts_are_thousands_of_tokens_away():
    pytest.importorskip("tokenizers", reason="counting tokens needs tokenizers")
    pytest.importorskip("jinja2", reason="rendering needs jinja2")
    from conversations import Encoder

    encoder = Encoder()
    for task in held_out.tasks(held_out.SUITE_SEED, 20, ("fact_long", "fact_short")):
        ids, _ = encoder.encode(task.conversation)
        assert 2048 < len(ids) <= 8192 if task.kind == "fact_long" else len(ids) <= 2300
