"""`kgwalk kg extract`: documents in, a graph with its sentences out, through any language model.

    documents = read_documents([Path("notes/")])
    model = lambda: open_engine("api", "gpt-4o-mini")
    extract(passages_of(documents), model, Path("triples.tsv"), ExtractSettings("gpt-4o-mini"))

Every reply is on the disk, in `triples.replies.jsonl`, before the next is waited for. So a run that is stopped goes on
where it was, and what is made of the replies (parsing, spans, merging) can be made again without the model. A reply is
known by the text that it is about, not by its file: a passage that moved is not asked for again, one that changed is.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import xxhash

from kgwalk.config.run_folder import RowFile, read_rows
from kgwalk.config.runtime import outside_a_loop
from kgwalk.evaluation.text_facts.merging import merge_names, merge_relations
from kgwalk.evaluation.text_facts.passage_facts import (
    REASONS,
    LocatedFact,
    TextDocument,
    TextPassage,
    locate,
    messages_of,
    parse_reply,
    reply_grammar,
)
from kgwalk.evaluation.web_facts.propose import write_rows
from kgwalk.kg.fact_sources import SUFFIX
from kgwalk.kg.files import naming_disk_errors
from kgwalk.kg.sources.delimited import ESCAPED_MARK, escape, misread_first
from kgwalk.llm.engine import Engine, Request, Sampling
from kgwalk.types import EngineError, InputError, KgwalkError, Message, Progress, Triple, silent
from kgwalk.walk.web.documents import LINES, TEXT, SourceFile, cited, entries, passage_spans, source_files

REPLIES = ".replies.jsonl"  # of the file beside the triples
CHARACTERS = 1000  # of a passage
MOST_TOKENS = 512  # of a reply
MOST_AT_ONCE = 64
MOST_BROKEN = 5  # passages in a row whose engine failed: probably an API that is down
EXAMPLES_SHOWN = 5  # of each reason in the report
ENCODING = "utf-8"

# Documents and passages


def read_documents(sources: Sequence[Path]) -> Iterator[TextDocument]:
    """The documents of folders and files, as `kgwalk web` reads them; each file once."""
    found: dict[Path, SourceFile] = {}
    for source in sources:
        if source.is_file() and not source.name.lower().endswith((*TEXT, *LINES)):
            kinds = ", ".join((*TEXT, *LINES))
            raise InputError("no text that can be read", path=str(source), hint=f"documents are files in {kinds}")
        for file in source_files(source):
            found.setdefault(file.path.resolve(), file)
    names = Counter(file.name for file in found.values())
    for file in found.values():
        name = file.name if names[file.name] == 1 else file.path.as_posix()  # of two notes.md, which
        for entry in entries(file):
            place = cited(name, entry.place, "")
            yield TextDocument(*map(_writable, (place, entry.title, entry.text, entry.source)))


def _writable(text: str) -> str:
    """Text without halves of surrogate pairs, which names of files and replies of servers may have."""
    return text.encode(ENCODING, "replace").decode(ENCODING)


def passages_of(
    documents: Iterable[TextDocument], characters: int = CHARACTERS, limit: int | None = None
) -> list[TextPassage]:
    """The passages of the documents in their order, at most `limit`."""
    found: list[TextPassage] = []
    for document in documents:
        for start, end in passage_spans(document.text, characters):
            if limit is not None and len(found) >= limit:
                return found
            found.append(TextPassage(document, start, end))
    return found


# Replies


@dataclass(frozen=True)
class ExtractSettings:
    """What the replies depend on besides the passages; and `merge_near`, how names are merged."""

    model: str = ""
    adapter: str = ""
    relations: tuple[str, ...] = ()
    max_tokens: int = MOST_TOKENS
    merge_near: bool = False

    def of_replies(self) -> dict[str, Any]:
        empty = TextPassage(TextDocument("", "", ""), 0, 0)
        asked = orjson.dumps([[one.role, one.content] for one in messages_of(empty, self.relations)])
        return {
            "model": self.model,
            "adapter": self.adapter,
            "relations": list(self.relations),
            "max_tokens": self.max_tokens,
            "prompt": xxhash.xxh3_64_hexdigest(asked),
        }


class PassageReply(NamedTuple):
    """What the model said of one passage; `ended` is False where its tokens ran out."""

    text: str
    ended: bool
    prompt_tokens: int
    generated_tokens: int


class Replies:
    """The replies so far, in a file that only grows.

    With `replace` it is a new file, which takes the old one's place with its first reply: the old ones were paid for,
    and a model that does not open gives no others.
    """

    def __init__(self, path: Path, settings: ExtractSettings, *, resume: bool, replace: bool) -> None:
        self.path = path
        self.of: dict[str, PassageReply] = {}
        wanted = settings.of_replies()
        self._beside = path.with_name(f".{path.name}.partial") if replace and path.exists() else None
        rows = iter(()) if replace else read_rows(path, hint="take the file away, or start over with --force")
        head = next(rows, None)
        if head is not None:
            if not resume:
                raise KgwalkError(f"{path} has replies already: --resume goes on with them, --force starts over")
            self._check(head, wanted)
            self.of = {str(row["passage"]): _reply_from(row, path) for row in rows}
        if self._beside is not None:
            self._beside.unlink(missing_ok=True)
        self._file = RowFile(self._beside or path)
        if head is None:
            self._file.add({"kgwalk": "replies", **wanted})

    def _check(self, head: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
        differing = [name for name, value in wanted.items() if head.get(name) != value]
        if differing:
            told = ", ".join(f"{name} was {head.get(name)!r} and is {wanted[name]!r}" for name in differing)
            raise KgwalkError(f"{self.path} cannot be gone on with: {told}; give the same, or start over with --force")

    def add(self, passage: TextPassage, reply: PassageReply) -> None:
        self._file.add({"passage": passage.key, **reply._asdict()})
        if self._beside is not None:
            self._file.close()
            self._beside.replace(self.path)
            self._file, self._beside = RowFile(self.path), None
        self.of[passage.key] = reply

    def close(self) -> None:
        self._file.close()
        if self._beside is not None:
            self._beside.unlink(missing_ok=True)


def _reply_from(row: Mapping[str, Any], path: Path) -> PassageReply:
    try:
        return PassageReply(
            str(row["text"]), bool(row["ended"]), int(row["prompt_tokens"]), int(row["generated_tokens"])
        )
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"a reply without {error}", path=str(path), hint="start over with --force") from None


async def _asked(
    passages: Sequence[TextPassage],
    make: Callable[[], Engine],
    replies: Replies,
    settings: ExtractSettings,
    progress: Progress,
) -> list[EngineError]:
    """Ask for every passage that has no reply; the errors of those that failed."""
    engine = await asyncio.to_thread(make)
    try:
        return await _ask_all(passages, engine, replies, settings, progress)
    finally:
        await engine.close()


async def _ask_all(
    passages: Sequence[TextPassage], engine: Engine, replies: Replies, settings: ExtractSettings, progress: Progress
) -> list[EngineError]:
    waiting = {passage.key: passage for passage in passages if passage.key not in replies.of}
    gate = asyncio.Semaphore(min(engine.at_once, MOST_AT_ONCE))
    done, broken = len(passages) - len(waiting), 0
    failed: list[EngineError] = []
    progress("passages", done, len(passages))

    async def one(passage: TextPassage) -> None:
        nonlocal done, broken
        async with gate:
            if broken >= MOST_BROKEN:
                return
            try:
                replies.add(passage, await _reply(passage, engine, settings))
                broken = 0
            except EngineError as error:
                failed.append(error)
                broken += 1
            done += 1
            progress("passages", done, len(passages))

    await asyncio.gather(*map(one, waiting.values()))
    if broken >= MOST_BROKEN:
        raise KgwalkError(
            f"the engine failed {broken} times in a row ({failed[-1]}); {len(replies.of):,} replies are kept in "
            f"{replies.path}, and --resume goes on"
        ) from failed[-1]
    return failed


async def _reply(passage: TextPassage, engine: Engine, settings: ExtractSettings) -> PassageReply:
    messages: list[Message] = messages_of(passage, settings.relations)
    ids, session = engine.tokens.open_chat(messages), f"extract:{passage.key}"
    sampling = Sampling(max_tokens=settings.max_tokens)
    request = Request(ids, messages, sampling, session, reply_grammar(settings.relations))
    try:
        generation = await engine.generate(request)
    finally:
        await engine.forget(session)
    own = [one for one in generation.ids if one not in engine.tokens.end_ids]
    # Under a grammar a text whose room runs out is brought to an end, which may be in the middle of a name.
    ended = generation.finish != "length" and (generation.room is None or len(generation.ids) < generation.room)
    usage = getattr(generation, "usage", None)  # an API's server counts tokens; our ids are bytes there
    counts = (len(ids), len(generation.ids)) if usage is None else (usage.prompt_tokens, usage.completion_tokens)
    return PassageReply(_writable(engine.tokens.decode(own)), ended, *counts)


# From replies to a graph


@dataclass
class ExtractReport:
    """What was read and written; stands in `kg extract --json` and in the file of `--report`."""

    documents: int = 0
    passages: int = 0
    asked: int = 0  # the rest had replies from before, or the same text
    failed: int = 0
    lines: int = 0  # of replies
    malformed: int = 0
    cut: int = 0  # last lines of replies whose tokens ran out
    dropped: dict[str, int] = field(default_factory=dict)  # by REASONS
    triples: int = 0
    sources: int = 0
    entities: int = 0
    relations: int = 0
    merged_names: dict[str, list[str]] = field(default_factory=dict)  # the name kept, and its other spellings
    merged_relations: dict[str, list[str]] = field(default_factory=dict)
    near_names: list[list[Any]] = field(default_factory=list)  # [name, name, likeness]: not merged, may be the same
    tokens: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    examples: dict[str, list[str]] = field(default_factory=dict)  # some of what was dropped
    notes: list[str] = field(default_factory=list)


def extract(
    passages: Sequence[TextPassage],
    engine: Callable[[], Engine],
    output: Path,
    settings: ExtractSettings,
    *,
    resume: bool = False,
    replace: bool = False,
    progress: Progress = silent,
) -> ExtractReport:
    """Ask the model for every passage that has no reply yet, then write the triples and their sources.

    `engine` opens the model; it is called only if there is a passage to ask for, and what it gives is closed here.
    """
    started = time.monotonic()
    if resume and replace:
        raise KgwalkError("--resume keeps the replies and --force starts over; give one of them")
    if output.suffix != ".tsv":
        raise KgwalkError(f"the triples are written as TSV; give a file that ends in .tsv, not {output.name}")
    if not any(passage.text.strip() for passage in passages):
        raise KgwalkError("the documents have no text to read")
    if output.exists() and not (resume or replace):
        raise KgwalkError(f"{output} exists; choose another name, go on with --resume, or replace it with --force")
    with naming_disk_errors(f"cannot write {output}"):
        output.parent.mkdir(parents=True, exist_ok=True)
        replies = Replies(output.with_suffix(REPLIES), settings, resume=resume, replace=replace)
        before = len(replies.of)
        report = ExtractReport(len({passage.document.name for passage in passages}), len(passages))
        try:
            if any(passage.key not in replies.of for passage in passages):
                failed = outside_a_loop(lambda: asyncio.run(_asked(passages, engine, replies, settings, progress)))
                report.failed = len(failed)
                if failed:
                    report.notes.append(f"{len(failed):,} passages failed; --resume asks again; the first: {failed[0]}")
        finally:
            replies.close()
        report.asked = len(replies.of) - before
        _write(output, passages, replies.of, settings, report)
    report.seconds = round(time.monotonic() - started, 3)
    return report


def _write(
    output: Path,
    passages: Sequence[TextPassage],
    replies: Mapping[str, PassageReply],
    settings: ExtractSettings,
    report: ExtractReport,
) -> None:
    found = list(_located(passages, replies, settings, report))
    names = merge_names(((name, at) for at, fact in found for name in (fact.head, fact.tail)), near=settings.merge_near)
    relations = merge_relations(fact.relation for _, fact in found)
    facts: dict[Triple, dict[tuple[str, int, int], dict[str, Any]]] = {}
    for at, fact in found:
        triple = Triple(names[fact.head], relations[fact.relation], names[fact.tail])
        if triple.head == triple.tail:  # by merging
            report.dropped["same_name"] += 1
            continue
        row = _source_row(triple, fact, passages[at].document)
        facts.setdefault(triple, {}).setdefault((row["document"], row["start"], row["end"]), row)
    entities = {name for triple in facts for name in (triple.head, triple.tail)}
    report.triples, report.sources = len(facts), sum(map(len, facts.values()))
    report.entities, report.relations = len(entities), len({triple.relation for triple in facts})
    report.merged_names = {name: others for name, others in names.groups().items() if name in entities}
    report.merged_relations = relations.groups()
    report.near_names = [list(pair) for pair in names.near if {pair.kept, pair.other} <= entities]
    aliases = ({"alias": other, "of": name} for name, others in report.merged_names.items() for other in others)
    write_rows(output.with_suffix(SUFFIX), [*(row for rows in facts.values() for row in rows.values()), *aliases])
    _write_triples(output, list(facts))


def _located(
    passages: Sequence[TextPassage],
    replies: Mapping[str, PassageReply],
    settings: ExtractSettings,
    report: ExtractReport,
) -> Iterator[tuple[int, LocatedFact]]:
    """The facts that their passages bear out, with the passage's place; the report counts the others."""
    report.dropped = dict.fromkeys(REASONS, 0)
    used = {key: reply for passage in passages if (reply := replies.get(key := passage.key)) is not None}
    prompt, generated = (sum(getattr(one, name) for one in used.values()) for name in PassageReply._fields[2:])
    report.tokens = {"generated": generated, "prompt": prompt, "total": generated + prompt}
    for at, passage in enumerate(passages):
        if passage.key not in used:
            continue
        reply = used[passage.key]
        parsed = parse_reply(reply.text, ended=reply.ended)
        report.lines += len(parsed.facts) + len(parsed.malformed) + bool(parsed.cut)
        report.malformed += len(parsed.malformed)
        report.cut += bool(parsed.cut)
        for line in parsed.malformed:
            _note(report, "malformed", line)
        for said in dict.fromkeys(parsed.facts):
            fact = locate(said, passage, settings.relations)
            if isinstance(fact, str):
                report.dropped[fact] += 1
                _note(report, fact, f"{' | '.join(said)} ({passage.document.name})")
            else:
                yield at, fact


def _note(report: ExtractReport, reason: str, text: str) -> None:
    shown = report.examples.setdefault(reason, [])
    if len(shown) < EXAMPLES_SHOWN:
        shown.append(text)


def _source_row(triple: Triple, fact: LocatedFact, document: TextDocument) -> dict[str, Any]:
    return {
        "fact": [*triple[:3]],
        "document": document.name,
        "title": document.title,
        "url": document.url,
        "start": fact.sentence.start,
        "end": fact.sentence.end,
        "sentence": document.text[slice(*fact.sentence)],
        "head": fact.head_at and [*fact.head_at],
        "tail": fact.tail_at and [*fact.tail_at],
    }


def _write_triples(output: Path, triples: Sequence[Triple]) -> None:
    """TSV as `kgwalk kg build` reads it; the file is there whole or not at all."""
    marked = bool(triples) and misread_first(triples[0])
    lines = [f"{ESCAPED_MARK}\n"] * marked
    lines += ["\t".join(map(escape, triple[:3]) if marked else triple[:3]) + "\n" for triple in triples]
    partial = output.with_name(f".{output.name}.partial")
    try:
        partial.write_text("".join(lines), encoding=ENCODING, newline="")
        partial.replace(output)
    finally:
        partial.unlink(missing_ok=True)


def as_json(report: ExtractReport, output: Path) -> dict[str, Any]:
    """The report as `--json` prints it."""
    return {"path": str(output), "sources_path": str(output.with_suffix(SUFFIX)), **asdict(report)}


def read_relations(path: Path) -> tuple[str, ...]:
    """The relations of a file, one a line; empty lines and those that begin with # are left out."""
    try:
        lines = path.read_text(encoding=ENCODING).splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"cannot be read: {error}", path=str(path), hint="a text file with one relation a line"
        ) from None
    found = dict.fromkeys(" ".join(line.split()) for line in lines if line.strip() and not line.startswith("#"))
    wrong = next((one for one in found if "|" in one or "\t" in one), None)
    if wrong is not None:
        raise InputError(f"the relation {wrong!r} has a bar in it", path=str(path), hint="one relation a line")
    if not found:
        raise InputError("no relation in the file", path=str(path), hint="one relation a line")
    return tuple(found)
