"""Renders conversations with the published chat template and real Jinja2, for template_differential_test.cpp.

Usage: template_differential_test.py TEMPLATE CONVERSATIONS RENDERS
Reads one JSON object of template variables per line; writes {"text": ...} or {"error": ...} per line.
"""

import json
import sys

import jinja2


def raise_exception(message):
    raise jinja2.TemplateError(message)


def main():
    template_path, conversations_path, renders_path = sys.argv[1:]
    # The environment chat templates are written for: block lines leave no trace, JSON as json.dumps prints it.
    environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)
    environment.filters["tojson"] = lambda value: json.dumps(value, ensure_ascii=False)
    environment.globals["raise_exception"] = raise_exception
    with open(template_path, encoding="utf-8", newline="") as file:
        template = environment.from_string(file.read())
    with open(conversations_path, encoding="utf-8", newline="\n") as conversations:
        with open(renders_path, "w", encoding="utf-8", newline="\n") as renders:
            for line in conversations:
                try:
                    result = {"text": template.render(**json.loads(line))}
                except (jinja2.TemplateError, TypeError) as error:
                    result = {"error": str(error)}
                renders.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
