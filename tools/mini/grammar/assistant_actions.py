"""What a personal assistant's tools do: files, calendar, reminders, contacts, notes, some weather and mail."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Action:
    """One thing a tool can do, with the ways to describe it and to ask for it.

    `required` and `optional` are roles; a request template holds some of the required ones in braces, and the
    rest is said in a phrase behind it (PHRASES)."""

    verb: str
    noun: str
    descriptions: tuple
    required: tuple
    optional: tuple
    requests: tuple

    @property
    def purpose(self):
        """How a thought names the action: always the same words, however the tool is described."""
        return self.descriptions[0].rstrip(".").lower()


ACTIONS = {
    "add_event": Action(
        "create",
        "event",
        ("Create a calendar event.", "Add an event to the calendar.", "Put a new event into the calendar."),
        ("title", "date"),
        ("time", "place", "person"),
        (
            'Add an event "{title}"',
            'Put "{title}" in my calendar',
            'Create a calendar event "{title}"',
            'Schedule "{title}"',
            "Add {title} to my calendar",
            "Schedule {title}",
            "Plan {title}",
        ),
    ),
    "find_event": Action(
        "find",
        "event",
        ("Find calendar events.", "Search the calendar.", "Look for an event in the calendar."),
        ("query",),
        ("date", "count"),
        (
            'When is "{query}" in my calendar?',
            'Search my calendar for "{query}".',
            'Find the event "{query}".',
            "When is {query}?",
            "Look for {query} in my calendar.",
        ),
    ),
    "list_events": Action(
        "list",
        "event",
        ("List the events of a day.", "Show all events on a date.", "Return the calendar of one day."),
        ("date",),
        ("count",),
        (
            "What is in my calendar{on date}?",
            "List my events{on date}.",
            "Show my day{on date}.",
            "What do I have{on date}?",
            "Which meetings do I have{on date}?",
        ),
    ),
    "delete_event": Action(
        "delete",
        "event",
        ("Delete a calendar event.", "Remove an event from the calendar.", "Cancel an event."),
        ("title",),
        ("date",),
        (
            'Delete the event "{title}"',
            'Remove "{title}" from my calendar',
            'Cancel the event "{title}"',
            "Take {title} out of my calendar",
            "Cancel {title}",
        ),
    ),
    "add_reminder": Action(
        "create",
        "reminder",
        ("Create a reminder.", "Set a reminder.", "Remind the user of something."),
        ("title", "time"),
        ("date", "flag"),
        (
            'Remind me: "{title}"',
            'Set a reminder "{title}"',
            'Add a reminder "{title}"',
            'I need a reminder for "{title}"',
            "Remind me to {title}",
            "Set a reminder to {title}",
            "Please remind me to {title}",
            "Do not let me forget to {title}",
        ),
    ),
    "list_reminders": Action(
        "list",
        "reminder",
        ("List the reminders.", "Show all reminders.", "Return every reminder."),
        (),
        ("date", "count"),
        ("Show my reminders.", "Which reminders do I have?", "List all reminders.", "What are my reminders?"),
    ),
    "delete_reminder": Action(
        "delete",
        "reminder",
        ("Delete a reminder.", "Remove a reminder.", "Take a reminder away."),
        ("title",),
        (),
        (
            'Delete the reminder "{title}".',
            'Remove the reminder "{title}".',
            'I no longer need the reminder "{title}".',
            "Delete the reminder to {title}.",
            "Forget the reminder to {title}.",
        ),
    ),
    "add_contact": Action(
        "create",
        "contact",
        ("Add a contact.", "Save a new contact.", "Store a person's phone number."),
        ("person", "phone"),
        ("email", "place"),
        (
            "Save the contact {person}",
            "Add {person} to my contacts",
            "New contact {person}",
            "Make a contact for {person}",
        ),
    ),
    "find_contact": Action(
        "find",
        "contact",
        ("Find a contact by name.", "Look up a contact.", "Return a person's contact data."),
        ("person",),
        (),
        (
            "What is the phone number of {person}?",
            "How can I reach {person}?",
            "Look up {person}.",
            "Find the contact {person}.",
            "What is {person}'s number?",
            "I need the number of {person}.",
        ),
    ),
    "update_contact": Action(
        "update",
        "contact",
        (
            "Change the phone number of a contact.",
            "Update a contact.",
            "Give a contact another phone number.",
        ),
        ("person", "phone"),
        (),
        (
            "{person} has a new phone number: {phone}.",
            "Change the phone number of {person} to {phone}.",
            "Update {person}: the phone is now {phone}.",
            "The new number of {person} is {phone}.",
        ),
    ),
    "add_note": Action(
        "create",
        "note",
        ("Write a note.", "Save a note.", "Keep a text as a note."),
        ("title", "text"),
        ("flag",),
        (
            'Write a note "{title}"',
            'Save a note called "{title}"',
            'Note "{title}"',
            'Make a note named "{title}"',
        ),
    ),
    "find_note": Action(
        "find",
        "note",
        ("Search the notes.", "Find notes by words.", "Look for a note."),
        ("query",),
        ("count",),
        (
            'Search my notes for "{query}".',
            'Which notes mention "{query}"?',
            'Find notes about "{query}".',
            "What do my notes say about {query}?",
            "Find my notes on {query}.",
        ),
    ),
    "read_file": Action(
        "find",
        "file",
        ("Read a file.", "Return the content of a file.", "Open a file and read it."),
        ("path",),
        (),
        (
            "Read {path}.",
            "What is in the file {path}?",
            "Open {path}.",
            "Show me {path}.",
            "What does {path} say?",
        ),
    ),
    "write_file": Action(
        "create",
        "file",
        ("Write text to a file.", "Create a file with a text.", "Save a text in a file."),
        ("path", "text"),
        (),
        (
            'Write "{text}" to {path}.',
            'Create the file {path} with the text "{text}".',
            'Save "{text}" in {path}.',
            'Make a file {path} that says "{text}".',
        ),
    ),
    "list_files": Action(
        "list",
        "file",
        (
            "List the files in a folder.",
            "Show the files of a folder.",
            "Return the names of the files in a folder.",
        ),
        ("path",),
        ("count",),
        (
            "Which files are in {path}?",
            "List the files in {path}.",
            "Show the folder {path}.",
            "What is in the folder {path}?",
        ),
    ),
    "delete_file": Action(
        "delete",
        "file",
        ("Delete a file.", "Remove a file.", "Erase a file for good."),
        ("path",),
        (),
        ("Delete {path}.", "Remove the file {path}.", "Throw away {path}.", "I do not need {path} any more."),
    ),
    "move_file": Action(
        "move",
        "file",
        ("Move a file.", "Rename a file.", "Give a file another path."),
        ("path", "destination"),
        (),
        (
            "Move {path} to {destination}.",
            "Rename {path} to {destination}.",
            "Put the file {path} at {destination}.",
        ),
    ),
    "get_weather": Action(
        "find",
        "weather",
        ("Get the weather of a city.", "Return the weather in a place.", "Weather forecast for a city."),
        ("place",),
        ("date",),
        (
            "What is the weather in {place}?",
            "How is the weather in {place}?",
            "Weather in {place}?",
            "Tell me the weather in {place}.",
            "Will it rain in {place}?",
        ),
    ),
    "send_message": Action(
        "send",
        "message",
        ("Send a message to a person.", "Write to someone.", "Deliver a message."),
        ("person", "text"),
        (),
        (
            'Send "{text}" to {person}.',
            'Tell {person}: "{text}".',
            'Write to {person}: "{text}".',
            'Message {person} that "{text}".',
        ),
    ),
}

# How a role that a request template leaves out is said behind it, in this order.
PHRASES = {
    "person": " with {person}",
    "phone": " with phone {phone}",
    "email": " and email {email}",
    "place": " in {place}",
    "date": "{on date}",
    "time": " at {time}",
    "text": ' with the text "{text}"',
    "count": " Show at most {count}.",
    "flag": " This is important.",
}
SENTENCES_OF_THEIR_OWN = ("count", "flag")

FIELD_DESCRIPTIONS = {
    "title": ("title", "short title"),
    "date": ("date", "the day"),
    "time": ("time", "time of day"),
    "person": ("person", "name of the person"),
    "phone": ("phone number",),
    "email": ("email address",),
    "path": ("path of the file",),
    "destination": ("new path",),
    "text": ("text", "the text"),
    "count": ("how many", "largest number of results"),
    "place": ("place", "city or place"),
    "flag": ("true if important",),
    "query": ("words to look for", "search words"),
}
FIELD_TYPES = {"count": "integer", "flag": "boolean"}

# Actions that only report success; the others return data.
SILENT = frozenset(
    (
        "add_event",
        "add_reminder",
        "add_contact",
        "update_contact",
        "add_note",
        "write_file",
        "delete_event",
        "delete_reminder",
        "delete_file",
        "move_file",
        "send_message",
    )
)
LISTING = frozenset(("list_events", "list_reminders", "list_files", "find_note", "find_event"))
