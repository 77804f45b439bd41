"""What a person says to have a tool called, with the values the call must copy."""

import dataclasses

from .assistant_actions import ACTIONS, PHRASES, SENTENCES_OF_THEIR_OWN
from .tools import spoken

OPENINGS = ("Please: ", "Lily, ", "Next: ", "Now: ", "Hi! ", "Hello Lily. ")
INVENTED_REQUESTS = (
    "{Verb} the {noun} with {body}.",
    "Please {verb} the {noun}: {body}.",
    "I want to {verb} a {noun} with {body}.",
    "Can you {verb} the {noun}? Use {body}.",
)


@dataclasses.dataclass
class Request:
    text: str
    values: dict  # role -> value, of the roles that the call must fill
    purpose: str  # "create a reminder"


def on_date(date):
    """A date as it stands in a sentence."""
    return f" {date}" if date in ("today", "tomorrow") else f" on {date}"


def draw_value(words, role, template, folder):
    """A value for a role; a title after "to" is something to do. Without quotes around it a title has no
    "with" of its own: whether that is a guest would be anyone's guess."""
    if role == "title":
        return words.errand() if "to {title}" in template else words.title(company='"{title}"' in template)
    if role == "path":
        return words.folder() if folder else words.path()
    draw = {
        "date": words.date,
        "time": words.time,
        "person": words.name,
        "phone": words.phone,
        "email": words.email,
        "destination": words.path,
        "text": words.sentence,
        "count": lambda: words.random.randint(1, 20),
        "place": words.city,
        "flag": lambda: True,
        "query": words.title,
    }
    return draw[role]()


def request_for(words, tool):
    if tool.action:
        return assistant_request(words, tool)
    return invented_request(words, tool)


def assistant_request(words, tool):
    action = ACTIONS[tool.action]
    template = words.pick(action.requests)
    asked = [role for role in tool.fields if role in action.required or words.chance(0.7)]
    values = {role: draw_value(words, role, template, tool.action == "list_files") for role in asked}

    inside = {"on date"} if "{on date}" in template else set()
    phrases = {
        role: phrase
        for role, phrase in PHRASES.items()
        if role in values and "{" + role + "}" not in template and not (role == "date" and inside)
    }
    said = dict(values)
    if "date" in values:
        said["on date"] = on_date(values["date"])

    text = template.format(**said)
    ending = text[-1] if text[-1] in ".?" else ""
    text = text.removesuffix(ending) + "".join(
        phrase.format(**said) for role, phrase in phrases.items() if role not in SENTENCES_OF_THEIR_OWN
    )
    text += ending or "."
    text += "".join(
        phrase.format(**said) for role, phrase in phrases.items() if role in SENTENCES_OF_THEIR_OWN
    )
    if words.chance(0.2):
        text = words.pick(OPENINGS) + text
    return Request(text, values, action.purpose)


def invented_request(words, tool):
    properties = tool.schema["function"]["parameters"]["properties"]
    values = {}
    # Values of one form say nothing about the field they belong to.
    one_form = None
    if not words.held_out and words.chance(0.3):
        one_form = words.pick([words.invented, words.name, words.code, words.phone, words.word])
    for field in tool.fields:
        if properties[field]["type"] == "integer":
            values[field] = words.random.randint(0, 999)
        elif properties[field]["type"] == "boolean":
            values[field] = words.chance(0.5)
        elif one_form:
            values[field] = one_form()
        else:
            values[field] = words.invented() if words.chance(0.5) else words.value()
    order = list(tool.fields)
    if words.chance(0.4 if words.held_out else 0.6):
        words.random.shuffle(order)
    parts = [f"{field}{words.pick([' ', ' = '])}{spoken(values[field])}" for field in order]
    body = parts[0] if len(parts) == 1 else ", ".join(parts[:-1]) + " and " + parts[-1]
    template, capital = words.pick(INVENTED_REQUESTS), tool.verb.capitalize()
    text = template.format(Verb=capital, verb=tool.verb, noun=tool.noun, body=body)
    # The thought writes the verb as the request does: of an unknown word the tokens of "Celki" and of "celki"
    # have nothing in common that could be copied.
    verb = capital if "{Verb}" in template else tool.verb
    return Request(text, values, f"{verb} the {tool.noun}")
