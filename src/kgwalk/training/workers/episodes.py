"""An episode with its numbers as a plain tuple and back, quickly: the process with the model unpacks a thousand a step.

The question does not travel: whoever asked has it. Needs no torch. Knows the nouns of kgwalk.types.
"""

from __future__ import annotations

from typing import Any

from kgwalk.training.course import Measured
from kgwalk.training.workers.messages import IDS, REALS, packed, unpacked
from kgwalk.types import Answer, Call, Episode, Malformed, Question, Step, StopReason, Turn

_CALL, _ANSWER, _MALFORMED = 0, 1, 2


def pack_episode(place: int, walked: Measured) -> tuple[Any, ...]:
    """`place` is the first of the tuple: which of the episodes that were asked for it is."""
    one = walked.episode
    return (
        place,
        one.topics,
        packed(IDS, one.prompt_ids),
        one.prompt,
        [_pack_turn(turn) for turn in one.turns],
        one.answers,
        one.evidence,
        one.stop.value,
        one.failure,
        one.seconds,
        one.shown,
        one.seen,
        one.key,
        walked.numbers,
        walked.complete,
    )


def unpack_episode(row: tuple[Any, ...], question: Question) -> Measured:
    _, topics, prompt_ids, prompt, turns, answers, evidence, stop, failure, seconds, shown, seen, key, *found = row
    episode = Episode(
        question,
        topics,
        unpacked(IDS, prompt_ids).tolist(),
        prompt,
        [_unpack_turn(turn) for turn in turns],
        answers,
        evidence,
        StopReason(stop),
        failure,
        seconds,
        shown,
        seen,
        key,
    )
    return Measured(episode, found[0], found[1])


def _pack_turn(turn: Turn) -> tuple[Any, ...]:
    return (
        packed(IDS, turn.ids),
        packed(REALS, turn.logprobs),
        turn.text,
        _pack_step(turn.step),
        turn.observation,
        packed(IDS, turn.observation_ids),
        turn.ok,
        turn.error,
        turn.shown,
        turn.counted,
        turn.seconds,
        turn.documents,
    )


def _unpack_turn(row: tuple[Any, ...]) -> Turn:
    ids, logprobs, text, step, observation, observation_ids, *rest = row
    return Turn(
        unpacked(IDS, ids).tolist(),
        unpacked(REALS, logprobs).tolist(),
        text,
        _unpack_step(*step),
        observation,
        unpacked(IDS, observation_ids).tolist(),
        *rest,
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
