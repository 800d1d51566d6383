"""An episode with its numbers as a plain tuple and back, quickly: the process with the model unpacks a thousand a step.

The tokens of all turns are one array, and each of its facts is written once. The question does not travel: whoever
asked has it. Needs no torch. Knows the nouns of kgwalk.types.
"""

from __future__ import annotations

import pickle
from itertools import chain
from typing import Any

from kgwalk.training.course import Measured
from kgwalk.training.workers.messages import IDS, REALS, packed, unpacked, unpacked_prompt
from kgwalk.types import Answer, Call, Episode, Malformed, Question, Step, StopReason, Triple, Turn

_CALL, _ANSWER, _MALFORMED = 0, 1, 2


def pack_episode(place: int, walked: Measured) -> tuple[Any, ...]:
    """`place` is the first of the tuple: which of the episodes that were asked for it is."""
    one = walked.episode
    facts = {fact: number for number, fact in enumerate(dict.fromkeys(chain(one.seen, *one.evidence.values())))}
    return (
        place,
        packed(IDS, one.prompt_ids),
        packed(IDS, [number for turn in one.turns for number in (*turn.ids, *turn.observation_ids)]),
        packed(REALS, [value for turn in one.turns for value in turn.logprobs]),
        [_pack_turn(turn) for turn in one.turns],
        [tuple(fact) for fact in facts],
        {name: [facts[fact] for fact in path] for name, path in one.evidence.items()},
        [facts[fact] for fact in one.seen],
        one.stop.value,
        (one.topics, one.prompt, one.answers, one.failure, one.seconds, one.shown, one.key),
        walked.numbers,
        walked.complete,
    )


def unpack_episode(row: tuple[Any, ...], question: Question) -> Measured:
    _, prompt_ids, packed_ids, packed_logprobs, rows, facts, evidence, seen, stop, rest, numbers, complete = row
    topics, prompt, answers, failure, seconds, shown, key = rest
    ids, logprobs = unpacked(IDS, packed_ids).tolist(), unpacked(REALS, packed_logprobs).tolist()
    turns, at, done = [], 0, 0
    for count, valued, told, text, step, observation, *others in rows:
        end, after = at + count, at + count + told
        own, done = logprobs[done : done + valued], done + valued
        turns.append(Turn(ids[at:end], own, text, _unpack_step(*step), observation, ids[end:after], *others))
        at = after
    known = [tuple.__new__(Triple, fact) for fact in facts]  # several times as quick as Triple(*fact)
    paths = {name: [known[number] for number in path] for name, path in evidence.items()}
    told_facts = [known[number] for number in seen]
    return Measured(
        Episode(
            question,
            topics,
            list(unpacked_prompt(prompt_ids)),
            prompt,
            turns,
            answers,
            paths,
            StopReason(stop),
            failure,
            seconds,
            shown,
            told_facts,
            key,
        ),
        numbers,
        complete,
    )


def pack_episodes(rows: list[tuple[Any, ...]]) -> bytes:
    """For the process that started this one; never written to a file."""
    return pickle.dumps(rows, protocol=5)


def unpack_episodes(data: bytes) -> list[tuple[Any, ...]]:
    """The rows, for `unpack_episode`."""
    rows: list[tuple[Any, ...]] = pickle.loads(data)
    return rows


def _pack_turn(turn: Turn) -> tuple[Any, ...]:
    """With the counts of its tokens, their log-probabilities and the tokens it was told."""
    return (
        len(turn.ids),
        len(turn.logprobs),
        len(turn.observation_ids),
        turn.text,
        _pack_step(turn.step),
        turn.observation,
        turn.ok,
        turn.error,
        turn.shown,
        turn.counted,
        turn.seconds,
        turn.documents,
    )


def _pack_step(step: Step) -> tuple[Any, ...]:
    match step:
        case Call(tool, args):
            return _CALL, tool, args
        case Answer(names):
            return _ANSWER, names
        case Malformed(why):
            return _MALFORMED, why


def _unpack_step(kind: int, *rest: Any) -> Step:
    return (Call, Answer, Malformed)[kind](*rest)
