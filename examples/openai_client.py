"""Ask a running `kgwalk serve` with OpenAI's own client: the answer as a message, the evidence as a field beside it.

Run: kgwalk serve --graph world, then python examples/openai_client.py "what is the capital of France?"
"""

from __future__ import annotations

import os
import sys

from openai import OpenAI

QUESTION = "what is the capital of France?"


def main(question: str = QUESTION, url: str = "http://127.0.0.1:8000") -> None:
    # a server without a key takes any; the client wants one
    client = OpenAI(base_url=f"{url}/v1", api_key=os.environ.get("KGWALK_API_KEY", "none"))
    reply = client.chat.completions.create(model="kgwalk", messages=[{"role": "user", "content": question}])
    message = reply.choices[0].message
    print(message.content)

    found = message.model_extra["kgwalk"]  # what OpenAI's shape has no field for
    for name, facts in found["evidence"].items():
        for head, relation, tail in facts:
            print(f"  {name}: ({head}, {relation}, {tail})")
    print(f"  confidence {found['confidence']}, {found['answer_kind']}")

    # the same as a stream: the turns of the walk come first, each in the field `kgwalk` of its piece
    pieces = client.chat.completions.create(
        model="kgwalk", messages=[{"role": "user", "content": question}], stream=True
    )
    for piece in pieces:
        delta = piece.choices[0].delta
        if (turn := (delta.model_extra or {}).get("kgwalk")) and "words" in turn:
            print(f"  step {turn['turn']}: {turn['words']}")


if __name__ == "__main__":
    main(*sys.argv[1:])
