#!/usr/bin/env python3
"""Prints the text of one answer of an OpenAI or Anthropic API, read from a file: JSON or an event stream."""
import json
import sys


def text_of(value):
    """The text in one JSON answer or one event of a stream; '' where it has none."""
    if "choices" in value:
        parts = []
        for choice in value["choices"]:
            message = choice.get("message") or choice.get("delta") or choice
            parts.append(message.get("content") or message.get("text") or "")
        return "".join(parts)
    if value.get("type") == "content_block_delta":
        return value["delta"].get("text", "")
    if isinstance(value.get("content"), list):
        return "".join(block.get("text", "") for block in value["content"])
    return ""


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        body = file.read()
    if body.lstrip().startswith("{"):
        values = [json.loads(body)]
    else:
        data = [line[5:].strip() for line in body.splitlines() if line.startswith("data:")]
        values = [json.loads(d) for d in data if d != "[DONE]"]
    for value in values:
        if value.get("error"):
            sys.exit(f"an error instead of an answer: {json.dumps(value['error'])}")
    text = " ".join("".join(text_of(value) for value in values).split())
    if not text:
        sys.exit("an answer without text")
    print(text)


if __name__ == "__main__":
    main()
