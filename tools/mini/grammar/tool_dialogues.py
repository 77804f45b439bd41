"""Conversations with tools: one call, parallel calls, chains, tool errors, and requests that no tool fits."""

from . import small_talk
from .assistant_actions import ACTIONS
from .conversation import Conversation, assistant, maybe_system, tool_result, user
from .tool_chains import PLANS
from .tool_requests import request_for
from .tool_results import error_result, result_of
from .tools import assistant_tool, invented_tool, toolset

NO_TOOL = "I have no tool for that."
# The start of an answer decides between a call and words, the end of the purpose which tool it is, and the
# end of a call whether another follows.
DECISIONS = (r"^", r"(?<=I need to )[^.]*\.", r"<function=", r"</tool_call>")
SHARES = (("no_tool_fits", 0.15), ("talk", 0.05), ("parallel_calls", 0.22), ("one_call", 0.58))
FRESH_SHARES = (("no_tool_fits", 0.22), ("talk", 0.03), ("parallel_calls", 0.34), ("one_call", 0.41))


def one_call(words, tools, thinking, error_share=0.1):
    """A request, its call, the result and the reply."""
    tool = words.pick(tools)
    request = request_for(words, tool)
    call = tool.call(request.values)
    result = result_of(words, tool, request.values, call, error_share)
    thought = f"I need to {request.purpose}. {tool.name}: {tool.description}"
    return [
        user(request.text),
        assistant("", thought, thinking, [call]),
        tool_result(result.content),
        assistant(result.reply, "That is an error." if result.failed else "The result is here.", thinking),
    ]


def tool_error(words, tools, thinking):
    """One call that fails."""
    return one_call(words, tools, thinking, error_share=1.0)


def parallel_calls(words, tools, thinking):
    """Two or three requests in one message, answered by as many calls at once."""
    count = words.pick([2, 2, 3])
    chosen = [words.pick(tools)] * count if words.chance(0.5) else [words.pick(tools) for _ in range(count)]
    requests = [request_for(words, tool) for tool in chosen]
    calls = [tool.call(request.values) for tool, request in zip(chosen, requests)]
    results = [
        result_of(words, tool, request.values, call) for tool, request, call in zip(chosen, requests, calls)
    ]
    thought = f"{count} calls: " + ", ".join(tool.name for tool in chosen) + "."
    return [
        user(words.pick([" ", "\n"]).join(request.text for request in requests)),
        assistant("", thought, thinking, calls),
        *(tool_result(result.content) for result in results),
        assistant(" ".join(result.reply for result in results), "All results are here.", thinking),
    ]


def no_tool_fits(words, tools, thinking):
    """A request for a tool that is not among those of the prompt."""
    present = {tool.action for tool in tools}
    missing = [key for key in ACTIONS if key not in present]
    if words.chance(0.4 if words.fresh else 0.65):
        absent = assistant_tool(words, words.pick(missing), set())
    else:
        invented = [tool for tool in tools if not tool.action]
        resembled = words.pick(invented) if words.fresh and invented and words.chance(0.25) else None
        absent = invented_tool(words, set(), resembled)
    request = request_for(words, absent)
    return [user(request.text), assistant(NO_TOOL, f"I need to {request.purpose}. No tool fits.", thinking)]


def talk(words, tools, thinking):
    """Small talk although there are tools."""
    question, answer = small_talk.exchange(words)
    return [user(question), assistant(answer, "No tool needed.", thinking)]


ROUNDS = {
    "one_call": one_call,
    "tool_error": tool_error,
    "parallel_calls": parallel_calls,
    "no_tool_fits": no_tool_fits,
    "talk": talk,
}


def chain(words, plan, tools, thinking):
    """The turns of a plan; with some probability a step fails and ends it."""
    by_action = {tool.action: tool for tool in tools}
    text, steps, reply = plan
    failing = words.random.randrange(len(steps)) if words.chance(0.08) else None
    messages = [user(text)]
    for index, step in enumerate(steps):
        tool = by_action[step.action]
        call = tool.call(step.values)
        messages.append(assistant("", f"The next tool is {tool.name}.", thinking, [call]))
        if index == failing:
            failure = error_result(words, call)
            return messages + [
                tool_result(failure.content),
                assistant(failure.reply, "That is an error.", thinking),
            ]
        messages.append(tool_result(step.content))
    return messages + [assistant(reply, "All steps are done.", thinking)]


def chain_conversation(words, thinking, tool_count):
    plan = words.pick(PLANS)(words)
    needed = list(dict.fromkeys(step.action for step in plan[1]))
    tools = toolset(words, max(tool_count, len(needed)), needed)
    return tools, chain(words, plan, tools, thinking)


def draw_kind(words):
    shares = FRESH_SHARES if words.fresh else SHARES
    position = words.random.random()
    for kind, share in shares:
        if position < share:
            return kind
        position -= share
    return shares[-1][0]


def training_conversation(words, max_length):
    """One to four rounds over one set of tools. About 90 tokens a tool decide how many of them there can
    be."""
    thinking = words.chance(0.45)
    count = min(words.random.randint(1, 7), max(1, (max_length - 250) // 90))
    messages = maybe_system(words, 0.3)
    rounds = words.random.randint(1, 4)
    if max_length > 500 and words.chance(0.22):
        tools, turns = chain_conversation(words, thinking, count)
        messages += turns
        rounds -= 1
    else:
        tools = toolset(words, count)
    for _ in range(rounds):
        messages += ROUNDS[draw_kind(words)](words, tools, thinking)
    return conversation("tools", messages, tools, thinking, preserve=words.chance(0.6))


def conversation(kind, messages, tools, thinking, preserve=False):
    return Conversation(kind, messages, thinking, [tool.schema for tool in tools], preserve, DECISIONS)


def held_out_conversation(words, kind):
    """One round, or one chain, with two to six tools."""
    thinking = words.chance(0.5)
    messages = maybe_system(words, 0.3)
    count = words.random.randint(2, 6)
    if kind == "chain":
        tools, turns = chain_conversation(words, thinking, count)
    else:
        tools = toolset(words, count)
        turns = ROUNDS[kind](words, tools, thinking)
    return conversation(kind, messages + turns, tools, thinking)
