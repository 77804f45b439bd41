"""Conversations with tools: one call, parallel calls, chains, tool errors, and requests that no tool fits."""

from . import small_talk
from .assistant_actions import ACTIONS
from .conversation import Conversation, assistant, maybe_system, tool_result, user
from .tool_chains import PLANS
from .tool_requests import request_for
from .tool_results import error_result, result_of
from .tools import assistant_tool, invented_tool, toolset

NO_TOOL = "I have no tool for that."
# The start of an answer decides between a call and words, the start of a line which description, tool, field
# or value it is and whether there is another one, and the end of a call whether it was the last. Of a name or
# a description every token decides: others may begin like it.
DECISIONS = (
    r"^",
    r"I need to ",
    r"\n",
    r"</tool_call>",
    r"<(?:function|parameter)=([^>]*>)",
    r"(?<=\n)([^\s:<>(]+(?:\n|:| \())",
    r"I need to [^\n]*\n([^\n]*\n)",
    r"\n[^\n:]*:",
    r"\n[^\n:]*: ",
)
# (kind, share of rounds, about how many tokens it has)
ROUND_SHARES = (
    ("no_tool_fits", 0.17, 60),
    ("talk", 0.03, 40),
    ("parallel_calls", 0.4, 320),
    ("one_call", 0.4, 140),
)
CALLS = ("one_call", "parallel_calls")
INSTRUCTION_TOKENS = 280  # what the template says about tools in general
TOOL_TOKENS = 85
MAX_TOOLS = 7
MAX_ROUNDS = 8


def one_call(words, tools, thinking, error_share=0.1):
    """A request, its call, the result and the reply."""
    tool = words.pick(tools)
    request = request_for(words, tool)
    call = tool.call(request.values)
    result = result_of(words, tool, request.values, call, error_share)
    return [
        user(request.text),
        assistant("", tool.plan(request.purpose, request.values), thinking, [call]),
        tool_result(result.content),
        assistant(result.reply, "That is an error." if result.failed else "The result is here.", thinking),
    ]


def tool_error(words, tools, thinking):
    """One call that fails."""
    return one_call(words, tools, thinking, error_share=1.0)


def parallel_calls(words, tools, thinking):
    """Two or three requests in one message, answered by as many calls at once."""
    count = words.pick([2, 2, 3])
    alike = words.chance(0.5 if words.held_out else 0.35)
    chosen = [words.pick(tools)] * count if alike else [words.pick(tools) for _ in range(count)]
    requests = [request_for(words, tool) for tool in chosen]
    calls = [tool.call(request.values) for tool, request in zip(chosen, requests)]
    results = [
        result_of(words, tool, request.values, call) for tool, request, call in zip(chosen, requests, calls)
    ]
    plans = [tool.plan(request.purpose, request.values) for tool, request in zip(chosen, requests)]
    thought = "\n".join([f"{count} calls.", *plans])
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
    if words.chance(0.65 if words.held_out else 0.35):
        absent = assistant_tool(words, words.pick(missing), set())
    else:
        invented = [tool for tool in tools if not tool.action]
        close = invented and not words.held_out and words.chance(0.2)
        resembled = words.pick(invented) if close else None
        absent = invented_tool(words, set(), resembled)
    request = request_for(words, absent)
    return [user(request.text), assistant(NO_TOOL, f"I need to {request.purpose}.\nNo tool fits.", thinking)]


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
        purpose = ACTIONS[step.action].purpose
        messages.append(assistant("", tool.plan(purpose, step.values), thinking, [call]))
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


def called(messages):
    """Names of the tools that were called."""
    return {call["function"]["name"] for message in messages for call in message.get("tool_calls", ())}


def draw_round(words):
    """(kind, tokens)."""
    position = words.random.random()
    for kind, share, tokens in ROUND_SHARES:
        if position < share:
            break
        position -= share
    return kind, tokens


def training_conversation(words, max_length):
    """Rounds over one set of tools: many, because the tools cost more tokens than a round does."""
    thinking = words.chance(0.45)
    room = max_length - INSTRUCTION_TOKENS
    count = 1 if words.chance(0.06) else words.random.randint(2, MAX_TOOLS)
    count = min(count, max(1, room // (2 * TOOL_TOKENS)))
    room -= count * TOOL_TOKENS
    messages = maybe_system(words, 0.3)
    rounds = words.random.randint(1, MAX_ROUNDS) if words.chance(0.25) else MAX_ROUNDS
    if room > 450 and words.chance(0.2):
        tools, turns = chain_conversation(words, thinking, count)
        messages += turns
        room -= 90 * len(turns)
        rounds -= 1
    else:
        tools = toolset(words, count)
    for index in range(rounds):
        # Of calls of a tool that was called before in the conversation all were right when one in ten first
        # calls was wrong: only first calls teach something.
        unused = [tool for tool in tools if tool.name not in called(messages)]
        kind, tokens = draw_round(words)
        if index and (tokens > room or not unused):
            break
        room -= tokens
        offered = unused if unused and kind in CALLS and words.chance(0.9) else tools
        messages += ROUNDS[kind](words, offered, thinking)
    return conversation("tools", messages, tools, thinking, preserve=words.chance(0.7))


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
