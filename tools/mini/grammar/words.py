"""Words, names and values drawn at random, from the training side or from the held-out side of a fixed split.

The split is a hash of the word itself, so no word, name or tool name of the held-out set can occur on the
training side, whatever the seeds are.
"""

import functools
import hashlib
import json
import pathlib
import random
import re

from . import word_lists

ONSETS = """
b c d f g h j k l m n p r s t v w z br cr dr fr gr pr tr bl cl fl gl pl sl sk sp st sh ch th qu sw kn ph sn
""".split()
VOWELS = "a e i o u ai ea oo ou y ie au".split()
CODAS = ["", "", "n", "r", "l", "s", "t", "k", "m", "x", "nd", "rt", "st", "ck", "ng", "p", "d"]
WEEKDAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
MONTHS = "January February March April May June July August September October November December".split()
MAX_WORD_LENGTH = 9
MAX_PIECES_LENGTH = 13
TOKENIZER_FILE = pathlib.Path(__file__).resolve().parent.parent / "tokenizer.json"


# Chosen among many so that each list of word_lists.py has words on both sides and the commonest names of
# tools and fields (find, list, title, date ...), which a person will use in a demo, are training words.
SPLIT = 1524778

# The share of listed words that give way to invented ones, which then are mostly put together from all
# tokens; drawn for each conversation. Listed and spelt words alone teach only the tokens that follow each
# other in them: a training on nothing else copied its own words in 99.9 % of tokens and made one call of four
# wrong with held-out ones.
FRESH = (0.1, 0.5, 0.9)
LISTED_ONLY = (0.0,)
SEPARATORS = ((", ", ": "), (",", ":"))  # of JSON as programs write it
# From how many pieces a conversation's invented words are mostly put together; 0: any. With few pieces they
# resemble each other. Drawn from all pieces, a word is known by its first token, and reading the rest of it is
# hardly ever practised: where tools shared a syllable, calls went to the wrong one.
FEW_PIECES = (0, 0, 0, 12, 24, 48)


def hash_of(kind, word):
    return hashlib.sha256(f"lily-mini {kind}: {word.lower()}".encode()).digest()[0]


def is_held_out(word):
    """One word in four belongs to the held-out set."""
    return hash_of(f"split {SPLIT}", word) % 4 == 0


def split(words, held_out):
    """The words of a list that belong to one side."""
    return [word for word in words if is_held_out(word) == held_out]


def items(text):
    """The parts of a text that stand on lines of their own or between bars."""
    return [item for line in text.strip().splitlines() for item in line.split("|")]


@functools.cache
def syllables(held_out):
    """Syllables are split as well, so that held-out words also look different."""
    every = sorted({onset + vowel + coda for onset in ONSETS for vowel in VOWELS for coda in CODAS})
    return [one for one in every if (hash_of("syllable", one) % 7 == 0) == held_out]


@functools.cache
def letter_pieces(longest):
    """The tokens of small letters, up to so many. Words put together from any of them teach to copy whatever
    the tokens are; the words above only teach the tokens that follow each other in them."""
    vocabulary = json.loads(TOKENIZER_FILE.read_text(encoding="utf-8"))["model"]["vocab"]
    return sorted(token for token in vocabulary if re.fullmatch(f"[a-z]{{1,{longest}}}", token))


class Words:
    """Draws from one side of the split with one random stream. On the held-out side nothing is `fresh`: its
    words are unknown to training anyway."""

    def __init__(self, seed, held_out, fresh=FRESH):
        self.random = random.Random(seed)
        self.held_out = held_out
        self.fresh_shares = LISTED_ONLY if held_out else fresh
        self.syllables = syllables(held_out)
        self.short_syllables = [one for one in self.syllables if len(one) <= 3]
        self.nouns = split(word_lists.NOUNS, held_out)
        self.occasions = split(word_lists.OCCASIONS, held_out)
        self.errand_verbs = split(word_lists.ERRAND_VERBS, held_out)
        self.adjectives = split(word_lists.ADJECTIVES, held_out)
        self.first_names = split(word_lists.FIRST_NAMES, held_out)
        self.last_names = split(word_lists.LAST_NAMES, held_out)
        self.cities = split(word_lists.CITIES, held_out)
        self.attributes = split(word_lists.ATTRIBUTES, held_out)
        self.tool_verbs = {kind: split(words, held_out) for kind, words in word_lists.TOOL_VERBS.items()}
        self.tool_nouns = {kind: split(words, held_out) for kind, words in word_lists.TOOL_NOUNS.items()}
        self.parameter_names = {
            role: split(words, held_out) for role, words in word_lists.PARAMETER_NAMES.items()
        }
        self.forget()

    def forget(self):
        """Starts a new conversation: invented words may occur again."""
        self.used = set()
        self.fresh = self.pick(self.fresh_shares)
        self.separators = self.pick(SEPARATORS)
        self.pieces, self.few = [], None
        if not self.held_out:
            count = self.pick(FEW_PIECES)
            self.pieces = [self.piece() for _ in range(count)]
            self.few = {} if self.chance(0.5) else None

    def chance(self, probability):
        return self.random.random() < probability

    def pick(self, options):
        return self.random.choice(options)

    def listed(self, options):
        """One of a list's words, or an invented one in its place."""
        return self.invented() if self.fresh and self.chance(self.fresh) else self.pick(options)

    def repeated(self, options):
        """One of a list's words; in some conversations always one of the same two."""
        if self.few is None:
            return self.listed(options)
        if id(options) not in self.few:
            self.few[id(options)] = [self.listed(options) for _ in range(2)]
        return self.pick(self.few[id(options)])

    def piece(self):
        """A syllable or a token of letters."""
        return self.pick(self.short_syllables if self.chance(0.5) else letter_pieces(3))

    def invented(self):
        """A made-up word, new in this conversation."""
        while True:
            longest = MAX_WORD_LENGTH
            if self.pieces and self.chance(0.8):
                word = "".join(self.pick(self.pieces) for _ in range(self.random.randint(1, 3)))
                longest = MAX_PIECES_LENGTH
            elif self.fresh and self.chance(0.7):
                pieces = letter_pieces(2 if self.chance(0.55) else MAX_WORD_LENGTH)
                word = "".join(self.pick(pieces) for _ in range(self.random.randint(2, 4)))
                longest = MAX_PIECES_LENGTH
            elif not self.held_out and self.chance(0.2):
                letters = [
                    self.pick("abcdefghijklmnopqrstuvwxyz" if self.chance(0.4) else "aeioustrn")
                    for _ in range(self.random.randint(3, 8))
                ]
                word = "".join(letters)
            else:
                count = 2 if self.chance(0.75) else 3 if self.chance(0.25) else 1
                word = "".join(
                    self.pick(self.short_syllables if self.chance(0.75) else self.syllables)
                    for _ in range(count)
                )
            if 3 <= len(word) <= longest and is_held_out(word) == self.held_out and word not in self.used:
                self.used.add(word)
                return word

    def word(self):
        """A common noun or an invented word."""
        return self.listed(self.nouns) if self.chance(0.45) else self.invented()

    def name(self):
        """A person or a thing with a name."""
        kind = self.random.random()
        if kind < 0.35:
            return self.listed_name(self.first_names) + " " + self.listed_name(self.last_names)
        if kind < 0.55:
            return self.listed_name(self.first_names) + " " + self.invented().capitalize()
        if kind < 0.85:
            return self.invented().capitalize()
        return self.invented().capitalize() + " " + self.invented().capitalize()

    def listed_name(self, options):
        word = self.listed(options)
        return word[0].upper() + word[1:]

    def city(self):
        return self.listed_name(self.cities) if self.chance(0.6) else self.invented().capitalize()

    def errand(self):
        """Something to do: "buy red paint"."""
        words = [self.listed(self.errand_verbs)]
        if self.chance(0.25):
            words.append("the")
        if self.chance(0.25):
            words.append(self.listed(self.adjectives))
        words.append(self.word())
        return " ".join(words)

    def title(self, company=True):
        """A title of an event or a note; `company` says whether it may end as in "lunch with Anna"."""
        kind = self.random.random()
        if kind < 0.25:
            title = self.errand()
        elif kind < 0.45:
            occasion = self.listed(self.occasions)
            guest = " with " + self.listed_name(self.first_names)
            title = occasion + self.pick(["", guest if company else ""])
        else:
            title = " ".join(self.word() for _ in range(self.pick([1, 2, 2, 3])))
        return title[0].upper() + title[1:] if self.chance(0.3) else title

    def iso_date(self):
        year, month, day = (self.random.randint(*range_) for range_ in ((2024, 2031), (1, 12), (1, 28)))
        return f"{year}-{month:02d}-{day:02d}"

    def date(self):
        kind = self.random.random()
        if kind < 0.6:
            return self.iso_date()
        if kind < 0.75:
            return self.pick(WEEKDAYS)
        if kind < 0.85:
            return self.pick(["today", "tomorrow"])
        return f"{self.pick(MONTHS)} {self.random.randint(1, 31)}"

    def time(self):
        if self.chance(0.75):
            return f"{self.random.randint(0, 23):02d}:{self.pick([0, 5, 10, 15, 20, 30, 40, 45, 50]):02d}"
        return f"{self.random.randint(1, 12)}{self.pick([' am', ' pm', 'am', 'pm'])}"

    def digits(self, count):
        return "".join(self.pick("0123456789") for _ in range(count))

    def phone(self):
        return self.digits(3) + "-" + self.digits(4)

    def email(self):
        return self.invented() + "@" + self.invented() + self.pick([".org", ".com", ".net"])

    def folder(self):
        return "".join("/" + self.word() for _ in range(self.random.randint(1, 2)))

    def path(self):
        ending = self.pick([".txt", ".md", ".csv", ".pdf", ".json"])
        return self.folder() + "/" + self.word() + ending if self.chance(0.65) else self.word() + ending

    def code(self):
        """A number or a label such as RT-204."""
        if self.chance(0.5):
            return str(self.random.randint(10, 99999))
        letters = "".join(self.pick("ABCDEFGHJKLMNPQRSTUVWXYZ") for _ in range(self.random.randint(1, 3)))
        return letters + self.pick(["-", ""]) + self.digits(self.random.randint(1, 4))

    def value(self):
        """What an attribute may have as a value."""
        kind = self.random.random()
        if kind < 0.2:
            return self.invented()
        if kind < 0.4:
            return self.name()
        if kind < 0.65:
            return self.code()
        if kind < 0.78:
            return self.listed(self.nouns)
        if kind < 0.84:
            return self.city()
        if kind < 0.92:
            return " ".join([self.listed(self.adjectives), self.word()])
        return self.pick([self.iso_date, self.time, self.phone])()

    def sentence(self):
        """Filler without a meaning and without a full stop."""
        words = [
            (
                self.listed(self.nouns)
                if self.chance(0.5)
                else self.listed(self.adjectives) if self.chance(0.6) else self.invented()
            )
            for _ in range(self.random.randint(3, 8))
        ]
        if self.chance(0.5):
            words.insert(
                self.random.randint(1, len(words)), self.pick(["and", "with", "near", "under", "for", "by"])
            )
        if self.chance(0.5):
            words.insert(0, "the")
        if not self.held_out and self.chance(0.2):  # a list of few words repeats some
            words.insert(self.random.randint(0, len(words)), self.pick(words))
        return " ".join(words)
