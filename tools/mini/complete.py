"""Adds what a checkpoint folder needs besides weights and config.json: tokenizer, template, defaults.

usage: complete.py FOLDER
"""

import json
import pathlib
import shutil
import sys

from conversations import TEMPLATE_FILE, TOKENIZER_FILE, load_tokenizer


def complete(folder):
    folder = pathlib.Path(folder)
    tokenizer = load_tokenizer()
    shutil.copyfile(TOKENIZER_FILE, folder / "tokenizer.json")
    shutil.copyfile(TEMPLATE_FILE, folder / "chat_template.jinja")
    end = [tokenizer.token_to_id(token) for token in ("<|im_end|>", "<|endoftext|>")]
    files = {
        "generation_config.json": {
            "bos_token_id": end[1],
            "do_sample": False,
            "eos_token_id": end,
            "pad_token_id": end[1],
        },
        "tokenizer_config.json": {
            "tokenizer_class": "Qwen2Tokenizer",
            "eos_token": "<|im_end|>",
            "pad_token": "<|endoftext|>",
            "bos_token": None,
            "add_bos_token": False,
            "clean_up_tokenization_spaces": False,
            "model_max_length": 16384,
        },
    }
    for name, value in files.items():
        (folder / name).write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    complete(sys.argv[1])
