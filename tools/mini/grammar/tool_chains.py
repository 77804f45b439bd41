"""Work that takes several calls in a row, where a later call needs what an earlier one returned.

Each plan is a function that returns the request, the steps and the final reply.
"""

import dataclasses

from .tool_results import to_json


@dataclasses.dataclass
class Step:
    action: str
    values: dict
    content: str  # what the tool answers


def call_people(words):
    """Two or four calls: look a number up, set a reminder, perhaps the same for a second person."""
    people = [(words.name(), words.phone(), words.time()) for _ in range(words.pick([1, 1, 2]))]
    sentences, steps = [], []
    for index, (person, phone, time) in enumerate(people):
        sentences.append(
            f"Then do the same for {person} at {time}."
            if index
            else f"Look up the phone number of {person} and remind me at {time} to call it."
        )
        steps.append(
            Step("find_contact", {"person": person}, to_json(words, {"name": person, "phone": phone}))
        )
        steps.append(Step("add_reminder", {"title": f"call {phone}", "time": time}, "ok"))
    return " ".join(sentences), steps, f"Done. I made {len(steps)} calls."


def note_numbers(words):
    """Two or four calls: look a number up, write it into a note."""
    people = [(words.name(), words.phone(), words.title()) for _ in range(words.pick([1, 1, 2]))]
    sentences, steps = [], []
    for index, (person, phone, title) in enumerate(people):
        sentences.append(
            f'Then do the same for {person} in a note "{title}".'
            if index
            else f'Look up the phone number of {person} and save it in a note "{title}".'
        )
        steps.append(
            Step("find_contact", {"person": person}, to_json(words, {"name": person, "phone": phone}))
        )
        steps.append(Step("add_note", {"title": title, "text": phone}, "ok"))
    return " ".join(sentences), steps, f"Done. I made {len(steps)} calls."


def share_number(words):
    first, second, phone = words.name(), words.name(), words.phone()
    text = words.pick(
        [
            f"Look up the phone number of {first} and give the same number to {second}.",
            f"Find the number of {first}, then change the number of {second} to it.",
        ]
    )
    return (
        text,
        [
            Step("find_contact", {"person": first}, to_json(words, {"name": first, "phone": phone})),
            Step("update_contact", {"person": second, "phone": phone}, "ok"),
        ],
        "Done. I made 2 calls.",
    )


def copy_file(words):
    """Two calls, or three when the old file has to go."""
    source, target, content, move = words.path(), words.path(), words.sentence(), words.chance(0.4)
    text = f"Read {source} and write its content to {target}."
    steps = [
        Step("read_file", {"path": source}, content),
        Step("write_file", {"path": target, "text": content}, "ok"),
    ]
    if move:
        text += f" Then delete {source}."
        steps.append(Step("delete_file", {"path": source}, "ok"))
    return text, steps, f"Done. I made {len(steps)} calls."


def listed_file(words):
    """The folder is listed, and one of its files is read, deleted or moved."""
    folder = words.folder()
    files = [words.path() for _ in range(words.random.randint(2, 4))]
    place = words.pick(["first", "last"])
    chosen = files[0] if place == "first" else files[-1]
    listing = Step("list_files", {"path": folder}, to_json(words, {"items": files}))
    what = words.pick(["read", "delete", "move"])
    if what == "read":
        content = words.sentence()
        return (
            f"List the files in {folder} and read the {place} one.",
            [listing, Step("read_file", {"path": chosen}, content)],
            f"The file says: {content}.",
        )
    if what == "delete":
        return (
            f"List the files in {folder} and delete the {place} one.",
            [listing, Step("delete_file", {"path": chosen}, "ok")],
            f"Done. I deleted {chosen}.",
        )
    target = words.path()
    return (
        f"List the files in {folder} and move the {place} one to {target}.",
        [listing, Step("move_file", {"path": chosen, "destination": target}, "ok")],
        f"Done. I moved {chosen} to {target}.",
    )


def event_from_note(words):
    query, title, date = words.title(), words.title(), words.iso_date()
    return (
        f'Find the note "{query}" and add an event for what it says.',
        [
            Step("find_note", {"query": query}, to_json(words, {"title": title, "date": date})),
            Step("add_event", {"title": title, "date": date}, "ok"),
        ],
        f"Done: {title} on {date}.",
    )


def tell_content(words):
    """Three calls at most: read a file, send it, delete it."""
    path, person, content, remove = words.path(), words.name(), words.sentence(), words.chance(0.3)
    text = f"Read {path} and send its content to {person}."
    steps = [
        Step("read_file", {"path": path}, content),
        Step("send_message", {"person": person, "text": content}, "ok"),
    ]
    if remove:
        text += f" Then delete {path}."
        steps.append(Step("delete_file", {"path": path}, "ok"))
    return text, steps, f"Done. I made {len(steps)} calls."


PLANS = (call_people, note_numbers, share_number, copy_file, listed_file, event_from_note, tell_content)
