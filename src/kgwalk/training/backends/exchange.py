"""Episodes as outside trainers take them, and the credit of every token, computed as the native trainer does.

An outside trainer asks for a prompt, a completion and a mask over the completion. `Episode.flatten` has all of it: the
prompt is what stands before the model's first token, the completion is the rest, observations included, with mask 0.

    groups of episodes -> TrainerEpisode.of -> token_credit -> one advantage for each token of a completion

Two things must hold for the same update as the native trainer's. Episodes that failed, and groups whose rollouts all
earned the same, are in no batch: `token_credit` gives None for them, and a trainer that wants equally many rows gives
them a mask of zeros (`TrainerEpisode.silenced`). And walks are sampled without a grammar (`unconstrained`): the native
trainer computes probabilities among the allowed tokens, outside trainers among all.

Plain numbers; knows nothing of tensors, models or any trainer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from kgwalk.training.advantages import Credit, Rewards, group_credit, token_advantages
from kgwalk.types import Episode, Flat, KgwalkError
from kgwalk.walk.protocol import Protocol

if TYPE_CHECKING:
    from kgwalk.training.settings import GrpoSettings


@dataclass(frozen=True, slots=True)
class TrainerEpisode:
    """One walk for a trainer that knows nothing of graphs.

    `mask` is 1 on the tokens of the completion that the model wrote, `logprobs` are theirs as the engine reported them
    (0 elsewhere), `turn_index` is the number of their turn (-1 elsewhere). `trainable`: the outcome is the model's own
    doing; else the episode has no rewards and belongs in no loss and no group's mean.
    """

    prompt_ids: list[int]
    completion_ids: list[int]
    mask: list[int]
    logprobs: list[float]
    turn_index: list[int]
    turn_rewards: list[float]
    whole_reward: float
    trainable: bool

    @classmethod
    def of(cls, episode: Episode, rewards: Rewards | None, *, pad_id: int) -> TrainerEpisode:
        """`rewards` are None for an episode that is left out. A prompt that could not be written, and the completion of
        an episode without a turn, are one `pad_id`, since trainers want at least one token; its mask is 0.

        >>> from kgwalk.types import Answer, Call, Question, Turn
        >>> turns = [Turn([7, 8], [-0.5, -0.25], "", Call("look"), "", [3]), Turn([9], [-1.0], "", Answer(("x",)))]
        >>> episode = Episode(Question("q", "?", [], []), [], [1, 2], "", turns)
        >>> one = TrainerEpisode.of(episode, Rewards([0.5, 1.0], 2.0), pad_id=0)
        >>> one.prompt_ids, one.completion_ids, one.mask, one.turn_index
        ([1, 2], [7, 8, 3, 9], [1, 1, 0, 1], [0, 0, -1, 1])
        """
        flat = episode.flatten()
        if flat.constraints:
            raise KgwalkError(
                f"the walk of question {episode.question.id!r} was sampled under a grammar, and outside trainers "
                "compute probabilities among all tokens; sample it with --set protocol.constrain=false, or with a "
                "protocol whose walks give no grammar"
            )
        start = len(episode.prompt_ids)
        rest = Flat(flat.ids[start:], flat.mask[start:], flat.logprobs[start:], flat.turn_index[start:])
        if not rest.ids:
            rest = Flat([pad_id], [0], [0.0], [-1])
        turns, whole = ([], 0.0) if rewards is None else (list(rewards.turns), rewards.whole)
        own = (rest.ids, rest.mask, rest.logprobs, rest.turn_index)
        return cls(list(episode.prompt_ids) or [pad_id], *own, turns, whole, rewards is not None)

    @property
    def rewards(self) -> Rewards | None:
        return Rewards(self.turn_rewards, self.whole_reward) if self.trainable else None

    @property
    def flat(self) -> Flat:
        """The completion alone, aligned with its advantages."""
        return Flat(self.completion_ids, self.mask, self.logprobs, self.turn_index)

    def silenced(self) -> TrainerEpisode:
        """The same tokens with a mask of zeros: a row that nothing is learnt from."""
        return replace(self, mask=[0] * len(self.mask))

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> TrainerEpisode:
        """The inverse of `as_json`; other keys of the row are passed over."""
        return cls(**{field.name: row[field.name] for field in fields(cls)})


@dataclass(frozen=True)
class TokenCredit:
    """`advantages[g][n]` has one number for each token of the completion; None where nothing is learnt from it: the
    episode failed, has no token of the model, or its group teaches nothing."""

    advantages: list[list[list[float] | None]]
    credit: Credit

    @property
    def learnt_from(self) -> int:
        """How many episodes have an advantage."""
        return sum(row is not None for group in self.advantages for row in group)


def token_credit(groups: Sequence[Sequence[TrainerEpisode]], settings: GrpoSettings) -> TokenCredit:
    """The advantages of all tokens, by the functions that the native trainer uses.

    A group of two, and one whose rollouts earned the same:

    >>> from kgwalk.training.settings import GrpoSettings
    >>> a = TrainerEpisode([1], [7, 3, 9], [1, 0, 1], [0.0] * 3, [0, -1, 1], [0, 1], 1, True)
    >>> b = TrainerEpisode([1], [8], [1], [0.0], [0], [1], 0, True)
    >>> found = token_credit([[a, b], [b, b]], GrpoSettings(advantage="turn", std=False))
    >>> [[round(x, 3) for x in row] for row in found.advantages[0]]  # G = 1, 2 | 1: the mean is 4/3
    [[-0.333, 0.0, 0.667], [-0.333]]
    >>> found.advantages[1], found.learnt_from, found.credit.dropped
    ([None, None], 2, 1)
    """
    credit = group_credit([[one.rewards for one in group] for group in groups], settings)
    found: list[list[list[float] | None]] = []
    for group, turns, live in zip(groups, credit.turns, credit.live, strict=True):
        found.append(
            [
                token_advantages(one.flat, per_turn) if live and per_turn is not None and any(one.mask) else None
                for one, per_turn in zip(group, turns, strict=True)
            ]
        )
    return TokenCredit(found, credit)


def unconstrained(protocol: Protocol) -> Protocol:
    """The same protocol without constrained decoding; one that constrains nothing is returned as it is."""
    if not getattr(protocol, "constrain", False):
        return protocol
    free: dict[str, Any] = {"constrain": False}
    return replace(protocol, **free)
