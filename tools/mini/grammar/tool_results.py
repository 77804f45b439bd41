"""What a tool answers, and the reply the assistant gives from it."""

import dataclasses
import json

from .assistant_actions import LISTING, SILENT

ERRORS = (
    "not found",
    "permission denied",
    "timeout",
    "invalid value",
    "already exists",
    "server busy",
    "no connection",
    "quota exceeded",
    "file is locked",
    "unknown name",
)
SUCCESS = ("ok", "done", "success", {"status": "ok"}, {"ok": True})
SKIES = ("sun", "rain", "snow", "clouds", "fog", "storm")


@dataclasses.dataclass
class Result:
    content: str
    reply: str
    failed: bool = False


def to_json(words, value):
    """JSON as the conversation's tools write it: with a space after colon and comma, or without."""
    return json.dumps(value, ensure_ascii=False, separators=words.separators)


def error_result(words, call):
    """A failure, as JSON or as plain words; the reply repeats what went wrong."""
    values = [value for value in call["function"]["arguments"].values() if isinstance(value, str)]
    error = words.pick(ERRORS)
    if values and words.chance(0.5):
        error += f": {values[0]}"
    content = to_json(words, {"error": error}) if words.chance(0.7) else f"Error: {error}"
    return Result(content, f"That did not work: {error}.", failed=True)


def success_result(words, tool):
    if words.chance(0.5):
        success = words.pick(SUCCESS)
        content = success if isinstance(success, str) else to_json(words, success)
        return Result(content, f"Done. I used {tool.name}.")
    number = words.code()
    return Result(to_json(words, {"id": number}), f"Done. The id is {number}.")


def listing_result(words, tool):
    count = words.random.randint(0, 4)
    items = [words.path() if tool.action == "list_files" else words.title() for _ in range(count)]
    reply = "There is nothing." if not items else f"I found {count}: " + ", ".join(items) + "."
    return Result(to_json(words, {"items": items}), reply)


def contact_result(words, person):
    phone = words.phone()
    contact = {"name": person, "phone": phone}
    if words.chance(0.5):
        contact["city"] = words.city()
    return Result(to_json(words, contact), f"The phone number of {person} is {phone}.")


def weather_result(words, place):
    sky, degrees = words.pick(SKIES), words.random.randint(-15, 38)
    weather = {"place": place, "sky": sky, "temperature": degrees}
    return Result(to_json(words, weather), f"In {place}: {sky}, {degrees} degrees.")


def result_of(words, tool, values, call, error_share=0.1):
    """The result of a call that was made with the values of a request."""
    if words.chance(error_share):
        return error_result(words, call)
    if tool.action in SILENT or (not tool.action and words.chance(0.5)):
        return success_result(words, tool)
    if tool.action == "find_contact":
        return contact_result(words, values["person"])
    if tool.action == "get_weather":
        return weather_result(words, values["place"])
    if tool.action in LISTING:
        return listing_result(words, tool)
    if tool.action == "read_file":
        text = words.sentence()
        return Result(text, f"The file says: {text}.")
    value = words.value()
    return Result(to_json(words, {"result": value}), f"The result is {value}.")
