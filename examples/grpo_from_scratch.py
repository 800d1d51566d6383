"""GRPO with turn-level credit, the whole algorithm on one page: a tiny policy learns to walk a graph of films.

Needs torch alone, half a minute on a CPU, and downloads nothing: python examples/grpo_from_scratch.py

A question is up to three words in the order of the walk, and a topic: `director directed when Big` asks when the films
were made that were directed by the director of Big. The policy answers turn by turn. A turn is two tokens, such as
`out directed_by`, `in starred` or `answer .`; after each the graph says what kind of thing was reached. A few short
questions are shown to the policy first, so that it can form a turn at all; the rest it learns by trying.
"""

from __future__ import annotations

import copy
import random
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import nn

# ------------------------------------------------------------------------------------------------------------ the graph
FILMS = {  # film: director, actors, year
    "Big": ("Marshall", ["Hanks", "Perkins"], "1988"),
    "Awakenings": ("Marshall", ["DeNiro", "Williams"], "1990"),
    "CastAway": ("Zemeckis", ["Hanks", "Hunt"], "2000"),
    "Contact": ("Zemeckis", ["Foster"], "1997"),
    "Gump": ("Zemeckis", ["Hanks", "Wright"], "1994"),
    "Taxi": ("Scorsese", ["DeNiro", "Foster"], "1976"),
    "Casino": ("Scorsese", ["DeNiro", "Stone"], "1995"),
    "Hook": ("Spielberg", ["Williams", "Hoffman"], "1991"),
    "Terminal": ("Spielberg", ["Hanks", "Zeta-Jones"], "2004"),
    "Twister": ("DeBont", ["Hunt", "Paxton"], "1996"),
    "Jumanji": ("Johnston", ["Williams", "Hunt"], "1995"),
    "GoodWill": ("VanSant", ["Williams", "Damon"], "1997"),
}
EDGES = [(film, "directed_by", director) for film, (director, _, _) in FILMS.items()]
EDGES += [(film, "starred", actor) for film, (_, cast, _) in FILMS.items() for actor in cast]
EDGES += [(film, "year", year) for film, (_, _, year) in FILMS.items()]
KIND = dict.fromkeys(FILMS, "a-film") | {t: "a-year" if r == "year" else "a-person" for _, r, t in EDGES}


def move(entities: frozenset[str], verb: str, relation: str) -> frozenset[str]:
    """All that lies one relation away, forwards (`out`) or backwards (`in`)."""
    if verb == "out":
        return frozenset(t for h, r, t in EDGES if r == relation and h in entities)
    return frozenset(h for h, r, t in EDGES if r == relation and t in entities)


# ------------------------------------------------------------------------------------------------------------ questions
WORDS = {  # what a word of a question means
    "director": ("out", "directed_by"),
    "directed": ("in", "directed_by"),
    "cast": ("out", "starred"),
    "played": ("in", "starred"),
    "when": ("out", "year"),
    "made": ("in", "year"),
}
HOPS, TURNS = 3, 4  # three moves at most, and the answer
VOCABULARY = ["-", ".", "out", "in", "answer", "directed_by", "starred", "year", "nothing", *WORDS]
VOCABULARY += [*sorted(set(KIND.values())), *sorted(KIND)]
ID = {word: number for number, word in enumerate(VOCABULARY)}


class Question(NamedTuple):
    words: tuple[str, ...]
    path: tuple[frozenset[str], ...]  # the entities at each place of the right walk, from the topic to the answers

    def prompt(self) -> list[int]:
        return [ID[word] for word in (*self.words, *"-" * (HOPS - len(self.words)), *self.path[0])]


def all_questions() -> list[Question]:
    """Every walk of one to three moves that leads on: to something, and not to where it has been."""
    found, frontier = [], [Question((), (frozenset([entity]),)) for entity in sorted(KIND)]
    for _ in range(HOPS):
        longer = [(q, word, move(q.path[-1], *WORDS[word])) for q in frontier for word in WORDS]
        frontier = [Question((*q.words, word), (*q.path, to)) for q, word, to in longer if to and to not in q.path]
        found += frontier
    return found


# -------------------------------------------------------------------------------------------------- a walk, its rewards
@dataclass
class Walk:
    question: Question
    path: list[frozenset[str]]
    turn_rewards: list[float] = field(default_factory=list)
    answered: bool = False

    def act(self, verb: str, argument: str) -> str:
        """One turn: moves or ends the walk, notes the turn's reward r_t, returns the observation (one token).

        r_t = 0.5 if the turn is well formed + 0.5 if it answers or leads to something new. Whether it was *right* only
        the reward of the whole walk can tell.
        """
        self.answered = (verb, argument) == ("answer", ".")
        well_formed = self.answered or (verb in ("out", "in") and argument in ("directed_by", "starred", "year"))
        reached = move(self.path[-1], verb, argument) if well_formed and not self.answered else frozenset()
        new = bool(reached) and reached not in self.path
        self.turn_rewards.append(0.5 * well_formed + 0.5 * (self.answered or new))
        self.path += [reached] if reached else []
        return "-" if self.answered else KIND[min(reached)] if reached else "nothing"

    def reward(self) -> float:
        """R = F1 = 2 |answer and gold| / (|answer| + |gold|); 0 without an answer."""
        answer, gold = self.path[-1], self.question.path[-1]
        return 2 * len(answer & gold) / (len(answer) + len(gold)) if self.answered else 0.0


# ----------------------------------------------------------------------------------------------------------- the policy
class Policy(nn.Module):
    """Token ids (B, T) to logits (B, T, V) of the token that follows each: embeddings, a GRU, a linear head."""

    def __init__(self, width: int = 96) -> None:
        super().__init__()
        self.embedding = nn.Embedding(len(VOCABULARY), width)
        self.gru = nn.GRU(width, width, batch_first=True)
        self.head = nn.Linear(width, len(VOCABULARY))

    def forward(self, ids_BT: torch.Tensor, state: torch.Tensor | None = None) -> tuple[torch.Tensor, torch.Tensor]:
        hidden_BTD, state = self.gru(self.embedding(ids_BT), state)
        return self.head(hidden_BTD), state


def logprobs(policy: Policy, ids_BT: torch.Tensor) -> torch.Tensor:
    """log pi(token t | the tokens before it), (B, T); 0 for the first, which nothing predicts."""
    log_p = policy(ids_BT[:, :-1])[0].log_softmax(-1).gather(2, ids_BT[:, 1:, None])[..., 0]
    return nn.functional.pad(log_p, (1, 0))


class Rollouts(NamedTuple):
    walks: list[Walk]
    ids_BT: torch.Tensor
    turn_BT: torch.Tensor  # the turn a token belongs to; -1 where it is not the policy's own: read, never learned from
    sampled_BT: torch.Tensor  # log-probability of each token when it was drawn


@torch.no_grad()
def rollout(policy: Policy, questions: list[Question], how: str = "sample") -> Rollouts:
    """All questions side by side. Tokens are sampled, or the likeliest ("greedy"), or the right ones ("teacher")."""
    walks = [Walk(question, [question.path[0]]) for question in questions]
    right = [[*(WORDS[word] for word in q.words), ("answer", "."), *[("-", "-")] * HOPS] for q in questions]
    new = torch.tensor([question.prompt() for question in questions])
    ids, turns, sampled, state = [new], [torch.full_like(new, -1)], [torch.zeros(new.shape)], None
    for turn in range(TURNS):
        going = torch.tensor([[not walk.answered] for walk in walks])
        for place in range(2):
            logits, state = policy(new, state)
            log_p = logits[:, -1].log_softmax(-1)
            new = log_p.argmax(-1, keepdim=True) if how == "greedy" else torch.multinomial(log_p.exp(), 1)
            if how == "teacher":
                new = torch.tensor([[ID[moves[turn][place]]] for moves in right])
            ids.append(new := torch.where(going, new, ID["-"]))
            turns.append(torch.where(going, turn, -1))
            sampled.append(log_p.gather(1, new))
        texts = [[VOCABULARY[number] for number in row] for row in torch.cat(ids[-2:], 1).tolist()]
        seen = ["-" if walk.answered else walk.act(*text) for walk, text in zip(walks, texts, strict=True)]
        ids.append(torch.tensor([[ID[word]] for word in seen]))
        turns.append(torch.full_like(ids[-1], -1))
        sampled.append(torch.zeros(ids[-1].shape))
        new = torch.cat(ids[-2:], 1)  # to be read next: the turn's second token, and what the graph said
    return Rollouts(walks, torch.cat(ids, 1), torch.cat(turns, 1), torch.cat(sampled, 1))


# ------------------------------------------------------------------------------------------------------------- learning
def imitate(policy: Policy, questions: list[Question], steps: int) -> None:
    """SFT: loss = mean of -log pi over the tokens that right walks write."""
    optimiser = torch.optim.Adam(policy.parameters(), lr=3e-3)
    for _ in range(steps):
        shown = rollout(policy, random.choices(questions, k=64), "teacher")
        loss = -logprobs(policy, shown.ids_BT)[shown.turn_BT >= 0].mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()


def turn_advantages(group: list[Walk], lam: float = 1.0, eps: float = 1e-6) -> list[list[float]]:
    """Credit for each turn t of each try n at one question (KG-R1, section 3.3):

        G_t = r_t + lam R                   the return of a turn: its own reward, and that of the walk it belongs to
        A_t = (G_t - mean) / (std + eps)    mean and std over all turns of all tries

    There is no value network: the other tries at the same question say what was to be expected.
    """
    returns = [[r + lam * walk.reward() for r in walk.turn_rewards] for walk in group]
    pooled = torch.tensor([g for row in returns for g in row])
    mean, std = pooled.mean().item(), pooled.std(correction=0).item()
    return [[(g - mean) / (std + eps) for g in row] for row in returns]


def improve(
    policy: Policy, reference: Policy, optimiser: torch.optim.Optimizer, questions: list[Question], tries: int = 8
) -> Rollouts:
    """One step of GRPO: try each question several times, credit the turns, make the tokens of good turns likelier."""
    made = rollout(policy, [question for question in questions for _ in range(tries)])
    advantage_BT = torch.zeros(made.ids_BT.shape)
    for first in range(0, len(made.walks), tries):
        for n, per_turn in enumerate(turn_advantages(made.walks[first : first + tries]), first):
            for t, value in enumerate(per_turn):
                advantage_BT[n, made.turn_BT[n] == t] = value  # on every token of the turn, the answer's turn too
    mask_BT = made.turn_BT >= 0
    advantage, old = advantage_BT[mask_BT], made.sampled_BT[mask_BT]
    with torch.no_grad():
        ref = logprobs(reference, made.ids_BT)[mask_BT]
    for _ in range(2):  # in the second pass the policy is no longer the one that drew the tokens: the clip has work
        new = logprobs(policy, made.ids_BT)[mask_BT]
        ratio = (new - old).exp()  # pi_new / pi_old: 1 in the first pass
        objective = torch.minimum(ratio * advantage, ratio.clamp(1 - 0.2, 1 + 0.28) * advantage)
        kl = (ref - new).exp() - (ref - new) - 1  # K3, an estimate of KL(new || reference) that is never negative
        loss = (-objective + 0.01 * kl).mean()  # over all tokens of the batch that are the policy's own
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
        optimiser.step()
    return made


def mean_reward(walks: list[Walk]) -> float:
    return sum(walk.reward() for walk in walks) / len(walks)


def main(steps: int = 100, seed: int = 1) -> list[float]:
    """Trains and prints; returns the F1 on questions never trained on, before the first step and every tenth after."""
    random.seed(seed)
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    questions = all_questions()
    random.shuffle(questions)
    test, train = questions[:100], questions[100:]
    short = [question for question in train if len(question.words) < HOPS][:40]
    policy = Policy()
    imitate(policy, short, steps=100)
    reference, optimiser = copy.deepcopy(policy), torch.optim.Adam(policy.parameters(), lr=2e-3)
    history = [mean_reward(rollout(policy, test, "greedy").walks)]
    print(f"{len(train)} questions to train on, {len(test)} others to test; {len(short)} short ones were shown")
    print(f"step   0  test F1 {history[0]:.3f}")
    for step in range(1, steps + 1):
        made = improve(policy, reference, optimiser, random.sample(train, 16))
        if step % 10 == 0:
            history.append(mean_reward(rollout(policy, test, "greedy").walks))
            print(f"step {step:3}  test F1 {history[-1]:.3f}  reward while trying {mean_reward(made.walks):.3f}")
    return history


if __name__ == "__main__":
    main()
