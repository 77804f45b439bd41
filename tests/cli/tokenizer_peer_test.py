"""Compares `lily tokenize` with Hugging Face's tokenizers on generated text.

usage: tokenizer_peer_test.py PROGRAM COUNT SEED TOKENIZER_JSON...   Exit code 77 says "skipped" to CTest.
"""

import json
import random
import subprocess
import sys

try:
    import tokenizers
except ImportError:
    print("skipped: no tokenizers package; tools/setup.sh installs it")
    sys.exit(77)

# Ranges whose characters the pre-tokenizer's pattern and the normalizer treat apart.
RANGES = [
    (0x20, 0x7E), (0x20, 0x7E), (0x09, 0x0D), (0x30, 0x39), (0xA0, 0x17F), (0x300, 0x36F),  # Latin and accents
    (0x370, 0x3FF), (0x400, 0x45F), (0x5D0, 0x5EA), (0x621, 0x64A), (0x660, 0x669),          # Greek .. Arabic
    (0x900, 0x97F), (0xE00, 0xE5B), (0x1100, 0x1175), (0xAC00, 0xD7A3),                      # Indic, Thai, Hangul
    (0x2000, 0x206F), (0x20A0, 0x20BF), (0x2190, 0x21FF), (0x3040, 0x30FF), (0x4E00, 0x9FFF),
    (0xFE00, 0xFE0F), (0xFF01, 0xFF5E), (0x1D400, 0x1D4FF), (0x1F300, 0x1F64F), (0x20000, 0x200FF),
]
WORDS = ["the", " Lily", "don't", "I'LL", "  ", "\n\n", "\r\n", "\t", " 2026", "3.14", "->", "<|im_start|>", "<|im_end|>",
         "<think>", "</think>", "<tool_call>", "e\u0301", "\u00e9", "\u1100\u1161", "naïve", " Straße", "漢字", "...", "    x"]


def text(rng: random.Random) -> str:
    pieces = []
    for _ in range(rng.randint(0, 30)):
        if rng.random() < 0.5:
            pieces.append(rng.choice(WORDS))
        else:
            low, high = rng.choice(RANGES)
            pieces.append("".join(chr(rng.randint(low, high)) for _ in range(rng.randint(1, 6))))
    return "".join(pieces)


def main() -> int:
    program, count, seed, files = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]
    rng = random.Random(seed)
    texts = [text(rng) for _ in range(count)]
    lines = "".join(json.dumps(t, ensure_ascii=False) + "\n" for t in texts).encode()
    wrong = 0
    for file in files:
        peer = tokenizers.Tokenizer.from_file(file)
        ours = subprocess.run([program, "tokenize", "--tokenizer", file, "--jsonl"], input=lines,
                              stdout=subprocess.PIPE, check=True).stdout.splitlines()
        assert len(ours) == count, f"{len(ours)} lines for {count} texts"
        for given, line in zip(texts, ours):
            expected = peer.encode(given, add_special_tokens=False).ids
            if json.loads(line) != expected:
                wrong += 1
                if wrong <= 5:
                    print(f"{file}: {given!r}\n  lily {line.decode()}\n  peer {expected}")
        print(f"{file}: {count} texts compared")
    print(f"{wrong} differences")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
