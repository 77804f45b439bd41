"""Trains lily-mini's tokenizer: byte-level BPE with the family's pre-tokenizer and all of its control tokens.

A name must be cut alike wherever it stands (in a schema, behind a quote, behind "_" or "="), or copying it
means translating it. So merges are learnt inside runs of letters and inside runs of marks only, and after
that the commonest words get one more merge, with the space before them.

usage: tokenizer.py [OUTPUT]
"""

import collections
import json
import re
import sys

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

import conversations
from grammar import small_talk, word_lists, words
from grammar.mixture import TrainingStream

ROWS = 4096
PADDING_ROWS = 3  # of the embedding, so that rows divide by 64
WORDS_WITH_SPACE = 700
SEED = 77
CONVERSATIONS = 12000
LIST_WORD_COUNT = 60  # how often each listed word is counted on top of the conversations

FAMILY_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
TRAINING_PATTERN = r"[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"

# The family's added tokens in the order of their ids; the second group is not "special" in its file.
SPECIAL_TOKENS = """<|endoftext|> <|im_start|> <|im_end|> <|object_ref_start|> <|object_ref_end|>
<|box_start|> <|box_end|> <|quad_start|> <|quad_end|> <|vision_start|> <|vision_end|> <|vision_pad|>
<|image_pad|> <|video_pad|>""".split()
PLAIN_TOKENS = (
    """<tool_call> </tool_call> <|fim_prefix|> <|fim_middle|> <|fim_suffix|> <|fim_pad|> <|repo_name|>
<|file_sep|> <tool_response> </tool_response> <think> </think>""".split()
)
LAST_TOKENS = """<|audio_start|> <|audio_end|> <tts_pad> <tts_text_bos> <tts_text_eod> <tts_text_bos_single>
<|audio_pad|>""".split()
ADDED_TOKENS = len(SPECIAL_TOKENS) + len(PLAIN_TOKENS) + len(LAST_TOKENS)


def pre_tokenizer(pattern):
    return pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(pattern), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )


def corpus():
    """Texts of training conversations, cut at control tokens, the constant part of the tool instructions kept
    rarely."""
    control = re.compile("|".join(re.escape(token) for token in SPECIAL_TOKENS + PLAIN_TOKENS))
    renderer, stream, texts = conversations.Renderer(), TrainingStream(SEED, words.LISTED_ONLY), []
    for index in range(CONVERSATIONS):
        conversation = stream.next(900)
        text = renderer.render(conversation)
        if conversation.tools and index % 40:
            text = text[text.find("<tools>") : text.find("If you choose")] + text[text.find("</IMPORTANT>") :]
        texts += control.split(text)
    return texts


def listed_words():
    """Every training word of the lists, so that real words are few tokens."""
    lists = [
        word_lists.NOUNS,
        word_lists.OCCASIONS,
        word_lists.ERRAND_VERBS,
        word_lists.ADJECTIVES,
        word_lists.FIRST_NAMES,
        word_lists.LAST_NAMES,
        word_lists.CITIES,
        word_lists.ATTRIBUTES,
    ]
    phrases = [phrase for phrase, _ in small_talk.PHRASES]
    own = [word for one in lists for word in words.split(one, held_out=False)]
    return (own + phrases) * LIST_WORD_COUNT


def merges_with_space(texts, vocabulary):
    """(space, word) pairs of the commonest words that are one token already."""
    counts = collections.Counter(word for text in texts for word in re.findall(r"(?<= )[A-Za-z]{2,}", text))
    known = [word for word, count in counts.most_common() if word in vocabulary and count >= 40]
    return [("Ġ", word) for word in known if "Ġ" + word not in vocabulary][:WORDS_WITH_SPACE]


def train():
    texts = corpus()
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizer(TRAINING_PATTERN)
    size = ROWS - ADDED_TOKENS - PADDING_ROWS - WORDS_WITH_SPACE
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        min_frequency=2,
        show_progress=False,
        special_tokens=[],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
    )
    tokenizer.train_from_iterator(texts + listed_words(), trainer)

    description = json.loads(tokenizer.to_str())
    vocabulary, merges = description["model"]["vocab"], description["model"]["merges"]
    for space, word in merges_with_space(texts, vocabulary):
        vocabulary[space + word] = len(vocabulary)
        merges.append([space, word])
    tokenizer = Tokenizer.from_str(json.dumps(description))
    tokenizer.pre_tokenizer = pre_tokenizer(FAMILY_PATTERN)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(
        [AddedToken(token, normalized=False, special=True) for token in SPECIAL_TOKENS]
    )
    tokenizer.add_tokens([AddedToken(token, normalized=False, special=False) for token in PLAIN_TOKENS])
    tokenizer.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in LAST_TOKENS])
    return tokenizer


if __name__ == "__main__":
    train().save(sys.argv[1] if len(sys.argv) > 1 else str(conversations.TOKENIZER_FILE))
