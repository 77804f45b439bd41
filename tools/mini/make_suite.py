"""Writes the held-out tasks for `lily eval --suite mini`: chat requests and what is expected, as JSON lines.

usage: make_suite.py OUTPUT.jsonl

A line has `kind`, the members of a chat request (`messages`, `tools` where there are any, `enable_thinking`),
and `expect` with one of
  calls   the tool calls, all of them, in this order: [{"name", "arguments"}]
  equals  the whole answer
  contains  a part of the answer
  json    the value of the answer, read as JSON
  one_of  the answers that are right
Where no calls are expected, there must be none. With `continues` the messages go on from those of the line before,
whose tools and thinking hold.
"""

import itertools
import json
import sys

import held_out
from grammar.off_grammar import POLITE_ANSWERS


def request_message(message, numbers, waiting):
    """The message as a client sends it back: arguments as JSON text, results with the id of their call.

    `numbers` counts the calls of the conversation; `waiting` holds the ids of calls whose results come next.
    """
    if message["role"] == "tool":
        return {"role": "tool", "tool_call_id": waiting.pop(0), "content": message["content"]}
    if "tool_calls" not in message:
        return message
    calls = []
    for call in message["tool_calls"]:
        identifier = f"call_{next(numbers)}"
        waiting.append(identifier)
        function = call["function"]
        arguments = json.dumps(function["arguments"], ensure_ascii=False)
        calls.append(
            {
                "id": identifier,
                "type": "function",
                "function": {"name": function["name"], "arguments": arguments},
            }
        )
    return message | {"tool_calls": calls}


def expectation(task):
    answer = task.answer
    if "tool_calls" in answer:
        return {"calls": [call["function"] for call in answer["tool_calls"]]}
    if task.kind == "json":
        return {"json": json.loads(answer["content"])}
    if task.kind == "off_grammar":
        return {"one_of": list(POLITE_ANSWERS)}
    if task.kind == "fact_absent":
        return {"contains": "is not in the text"}
    if task.kind in ("fact_short", "fact_long"):
        return {"contains": answer["content"].split(" is ", 1)[1].removesuffix(".")}
    return {"equals": answer["content"]}


def suite_line(task):
    conversation, numbers, waiting = task.conversation, itertools.count(), []
    messages = [request_message(message, numbers, waiting) for message in conversation.messages[:-1]]
    line = {"kind": task.kind, "messages": messages}
    if conversation.tools:
        line["tools"] = conversation.tools
    return line | {"enable_thinking": conversation.thinking, "expect": expectation(task)}


def as_continuation(line, before):
    """The line without what it shares with the one before it, if it goes on from there."""
    count = len(before.get("messages", ()))
    shared = all(line.get(name) == before.get(name) for name in ("tools", "enable_thinking"))
    if not (
        count and shared and len(line["messages"]) > count and line["messages"][:count] == before["messages"]
    ):
        return line
    return {
        "kind": line["kind"],
        "continues": True,
        "messages": line["messages"][count:],
        "expect": line["expect"],
    }


def write(path, per_kind=held_out.SUITE_TASKS):
    before = {}
    with open(path, "w", encoding="utf-8") as file:
        for task in held_out.tasks(held_out.SUITE_SEED, per_kind):
            line = suite_line(task)
            short = as_continuation(line, before)
            file.write(json.dumps(short, ensure_ascii=False, separators=(",", ":")) + "\n")
            before = line


if __name__ == "__main__":
    write(sys.argv[1])
