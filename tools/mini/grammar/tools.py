"""Tools with fresh names and schemas: those of the assistant's actions, and invented ones."""

import dataclasses

from .assistant_actions import ACTIONS, FIELD_DESCRIPTIONS, FIELD_TYPES


@dataclasses.dataclass
class Tool:
    """A tool as the prompt shows it, and what its fields mean."""

    name: str
    description: str
    schema: dict  # the OpenAI-shaped definition
    fields: dict  # role -> field name, in schema order; an invented tool's roles are its field names
    action: str = ""  # key of ACTIONS; empty for an invented tool
    verb: str = ""  # of an invented tool
    noun: str = ""

    def plan(self, purpose, values):
        """The thought before a call: what is wanted, the tool's description, which decides, then its name, and
        every field in the schema's order with its value. Between a field and its value stands what the schema
        says of it, so that one look decides which value that is."""
        properties = self.schema["function"]["parameters"]["properties"]
        lines = [f"I need to {purpose}.", self.description, self.name]
        for role, name in self.fields.items():
            meaning = properties[name].get("description")
            field = f"{name} ({meaning})" if meaning else name
            lines.append(f"{field}: {spoken(values[role]) if role in values else 'none'}")
        return "\n".join(lines)

    def call(self, values):
        """A call with the values of some roles, in schema order."""
        arguments = {name: values[role] for role, name in self.fields.items() if role in values}
        return {"type": "function", "function": {"name": self.name, "arguments": arguments}}


def spoken(value):
    """A value as it is written in a request."""
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


def definition(name, description, properties, required):
    return {
        "type": "function",
        "function": {
            "name": name,
            "description": description,
            "parameters": {"type": "object", "properties": properties, "required": required},
        },
    }


def tool_name(words, verb_kind, noun_kind):
    verb = words.repeated(words.tool_verbs[verb_kind]) if words.chance(0.8) else words.invented()
    noun = words.repeated(words.tool_nouns[noun_kind]) if words.chance(0.8) else words.invented()
    if words.chance(0.12):
        verb, noun = words.invented(), words.invented()
    shape = words.random.random()
    if shape < 0.6:
        return f"{verb}_{noun}"
    if shape < 0.72:
        return f"{noun}_{verb}"
    if shape < 0.88:
        return verb + noun.capitalize()
    return f"{words.invented()}_{verb}_{noun}"


def assistant_tool(words, key, taken):
    """A tool for an action, its name new among `taken`, which is extended."""
    action = ACTIONS[key]
    name = tool_name(words, action.verb, action.noun)
    while name in taken:
        name = tool_name(words, action.verb, action.noun)
    taken.add(name)

    roles = list(action.required) + [role for role in action.optional if words.chance(0.5)]
    if words.chance(0.3 if words.held_out else 0.7):
        words.random.shuffle(roles)
    fields = {}
    for role in roles:
        candidates = [field for field in words.parameter_names[role] if field not in fields.values()]
        known = bool(candidates) and words.chance(0.8 if words.held_out else 0.6)
        fields[role] = words.listed(candidates) if known else words.invented()

    properties = {}
    for role, field in fields.items():
        properties[field] = {"type": FIELD_TYPES.get(role, "string")}
        # A field whose name says nothing always has a description; so has every field of the held-out set.
        if words.held_out or field not in words.parameter_names[role] or words.chance(0.8):
            folder = key == "list_files" and role == "path"
            properties[field]["description"] = (
                "path of the folder" if folder else words.pick(FIELD_DESCRIPTIONS[role])
            )
    description = words.pick(action.descriptions)
    required = [field for role, field in fields.items() if role in action.required]
    return Tool(name, description, definition(name, description, properties, required), fields, action=key)


def invented_tool(words, taken, resembled=None):
    """A tool that does something made up; only its schema says how to use it. It shares its verb or its noun
    with the invented tool `resembled`."""
    verb, noun = words.invented(), words.invented()
    if resembled:
        verb, noun = (resembled.verb, noun) if words.chance(0.5) else (verb, resembled.noun)
    speaking = [f"{verb}_{noun}"] * 4 + [f"{noun}_{verb}", verb + noun.capitalize()]
    silent = [f"{words.invented()}_{words.invented()}", words.invented()]
    names = speaking[:4] + silent[:1] + speaking[4:] + silent[1:]
    # One tool in four has a name that says nothing about it, and half of the calls that went to a wrong tool
    # should have gone to one of those. So training has more of them.
    name = words.pick(names if words.held_out or words.chance(0.6) else silent)
    while name in taken:
        name += "_" + words.invented()
    taken.add(name)
    names = [words.invented() for _ in range(words.pick([1, 2, 2, 3]))]
    types = {field: words.pick(["string", "string", "string", "integer", "boolean"]) for field in names}
    properties = {field: {"type": types[field]} for field in names}
    if words.chance(0.5):
        for field in names:
            properties[field]["description"] = words.pick([f"the {field}", f"{field} of the {noun}", "value"])
    description = words.pick(
        [f"{verb.capitalize()} the {noun}.", f"{verb.capitalize()} a {noun}.", f"Can {verb} the {noun}."]
    )
    return Tool(
        name,
        description,
        definition(name, description, properties, names),
        {field: field for field in names},
        verb=verb,
        noun=noun,
    )


def toolset(words, count, needed=()):
    """`count` tools in random order, among them one for each needed action."""
    taken = set()
    others = [key for key in ACTIONS if key not in needed]
    words.random.shuffle(others)
    tools = [assistant_tool(words, key, taken) for key in needed]
    while len(tools) < count:
        if words.chance(0.3 if words.held_out else 0.55):
            similar = [tool for tool in tools if not tool.action]
            resembled = words.pick(similar) if similar and not words.held_out and words.chance(0.4) else None
            tools.append(invented_tool(words, taken, resembled))
        else:
            tools.append(assistant_tool(words, others.pop(), taken))
    words.random.shuffle(tools)
    return tools
