"""Typing errors: letters left out, doubled, swapped or replaced by a neighbour on the keyboard."""

ROWS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
NEIGHBOURS = {
    letter: row[max(0, index - 1) : index] + row[index + 1 : index + 2]
    for row in ROWS
    for index, letter in enumerate(row)
}


def misspell(random, text):
    """One error in short texts, two in longer ones; texts of fewer than three letters stay."""
    letters = list(text)
    for _ in range(1 if len(text) < 12 else random.randint(1, 2)):
        places = [index for index, letter in enumerate(letters) if letter.lower() in NEIGHBOURS]
        if len(places) < 3:
            break
        place = random.choice(places)
        kind = random.choice(("omit", "double", "swap", "neighbour"))
        if kind == "omit":
            del letters[place]
        elif kind == "double":
            letters.insert(place, letters[place])
        elif kind == "swap" and place + 1 < len(letters):
            letters[place], letters[place + 1] = letters[place + 1], letters[place]
        else:
            letters[place] = random.choice(NEIGHBOURS[letters[place].lower()])
    return "".join(letters)
