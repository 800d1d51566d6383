"""Questions rephrased by a language model, and kept only where nothing was lost.

    rewritten, counts = rewrite(questions, engine)

A reply replaces its question if it is one plausible line that has every name and value of the question. Otherwise the
question stays as it was, and the reason is counted. `kgwalk questions make --rewrite` calls it, with any engine.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from kgwalk.kg.names import normalise
from kgwalk.llm.engine import Engine, Request, Sampling
from kgwalk.types import EngineError, KgwalkError, Message, Progress, Question, silent

SAMPLING = Sampling(temperature=0.8, top_p=0.95, max_tokens=120)
AT_ONCE = 16
LONGER = 2.0  # a reply may be this many times as long as its question...
SOME = 60  # ...and so many characters more
KEPT = "rewritten"
SYSTEM = """You rephrase questions about a knowledge graph so that they sound as if a person had asked them.
Keep the meaning exactly: the same relations in the same direction, the same conditions, nothing more and nothing less.
Keep every name, number and date exactly as it is spelt. Do not answer. Reply with the new question on one line."""
_QUOTED = re.compile(r'^["“\'](.*)["”\']$')
_LABEL = re.compile(r"^(?:new |rephrased |rewritten )?question\s*:\s*", re.IGNORECASE)


def rewrite(
    questions: Sequence[Question],
    engine: Engine,
    *,
    seed: int = 0,
    at_once: int = AT_ONCE,
    progress: Progress = silent,
) -> tuple[list[Question], Counter[str]]:
    """The questions in their order, and how many were rewritten or why not. The caller closes the engine."""
    return asyncio.run(_all(questions, engine, seed, at_once, progress))


async def _all(
    questions: Sequence[Question], engine: Engine, seed: int, at_once: int, progress: Progress
) -> tuple[list[Question], Counter[str]]:
    gate = asyncio.Semaphore(at_once)
    counts: Counter[str] = Counter()

    async def one(at: int, question: Question) -> str | EngineError:
        async with gate:
            try:
                return await _reply(question, engine, replace(SAMPLING, seed=seed + at), f"rewrite:{at}")
            except EngineError as error:
                return error
            finally:
                counts["asked"] += 1
                progress("rewriting questions", counts["asked"], len(questions))

    replies = await asyncio.gather(*(one(at, question) for at, question in enumerate(questions)))
    failed = [reply for reply in replies if isinstance(reply, EngineError)]
    if questions and len(failed) == len(questions):
        raise KgwalkError(f"no question could be rewritten; the first time: {failed[0]}") from failed[0]
    return _chosen(questions, replies)


def _chosen(questions: Sequence[Question], replies: Sequence[str | EngineError]) -> tuple[list[Question], Counter[str]]:
    """The questions with the replies that pass, judged in order, so that timing does not decide between two alike."""
    counts: Counter[str] = Counter()
    seen = {normalise(question.question) for question in questions}
    written = []
    for question, reply in zip(questions, replies, strict=True):
        text = "" if isinstance(reply, EngineError) else one_line(reply)
        why = "the engine failed" if isinstance(reply, EngineError) else reason_against(question, text)
        if why is None and normalise(text) in seen:
            why = "the text of another question, or the same again"
        counts[why or KEPT] += 1
        seen.add(normalise(text))
        written.append(question if why else replace(question, question=text, extra=_said_before(question)))
    return written, counts


async def _reply(question: Question, engine: Engine, sampling: Sampling, session: str) -> str:
    messages = [Message("system", SYSTEM), Message("user", question.question)]
    ids = engine.tokens.open_chat(messages)
    try:
        generation = await engine.generate(Request(ids, messages, sampling, session))
    finally:
        await engine.forget(session)
    end = engine.tokens.end_ids
    return engine.tokens.decode([one for one in generation.ids if one not in end])


def one_line(reply: str) -> str:
    """The question in a reply, without quotes, a label or blank lines around it.

    >>> one_line('Question: "Who directed Big?"\\n')
    'Who directed Big?'
    """
    text = _LABEL.sub("", reply.strip())
    quoted = _QUOTED.match(text)
    return (quoted.group(1) if quoted else text).strip()


def reason_against(question: Question, text: str) -> str | None:
    """Why a text cannot stand for a question; None if it can."""
    if not text or "\n" in text or "{" in text or "<" in text:
        return "not one line of text"
    if any(name not in text for name in (*question.topic_entities, *_values(question))):
        return "a name or value is missing"
    if len(text) > LONGER * len(question.question) + SOME or 3 * len(text) < len(question.question):
        return "too long or too short"
    told = [name for name in question.answers if name in text and name not in question.question]
    return "it tells the answer" if told and len(told[0]) > 1 else None


def _values(question: Question) -> list[str]:
    """Numbers and dates of the program that the question has in the same spelling."""
    program = question.extra.get("program")
    steps = program if isinstance(program, list) else []
    values = [str(value) for tool, *rest in steps if tool in ("filter", "between") for value in rest[2:]]
    return [value for value in values if any(map(str.isdigit, value)) and value in question.question]


def _said_before(question: Question) -> dict[str, object]:
    return question.extra | {"rewritten_from": question.question}
