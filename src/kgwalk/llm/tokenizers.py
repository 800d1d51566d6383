"""Text to token ids and back, with the chat's markers as tokens that no text can forge.

`ByteTokenizer` needs no files: a token is a byte, and there are four markers. It serves scripted episodes, tests, and
engines that send text. `HfTokenizer` puts a Hugging Face tokenizer behind the same protocol, with turns cut out of the
model's own chat template.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

from kgwalk.types import EngineError, Message

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


@runtime_checkable
class Tokenizer(Protocol):
    """What rollouts and engines ask of a tokenizer."""

    @property
    def end_ids(self) -> frozenset[int]:
        """Tokens with which a model ends its message."""
        ...

    def encode(self, text: str) -> list[int]:
        """The ids of plain text: what looks like a marker in it is text, too."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """The text of the ids; markers have none."""
        ...

    def open_chat(self, messages: Sequence[Message]) -> list[int]:
        """The prompt: the messages, and the beginning of the assistant's next one."""
        ...

    def next_turn(self, text: str, *, ended: bool) -> list[int]:
        """What follows the assistant's message: its end (unless the model `ended` it itself), a user's message with
        this text, and the beginning of the assistant's next one.
        """
        ...


class ByteTokenizer:
    """UTF-8 bytes as tokens 0 to 255, then the markers.

    >>> tokens = ByteTokenizer()
    >>> tokens.open_chat([Message("user", "hi")])
    [257, 104, 105, 259, 258]
    >>> tokens.next_turn("ok", ended=False)
    [259, 257, 111, 107, 259, 258]
    """

    SYSTEM, USER, ASSISTANT, END = 256, 257, 258, 259
    size = 260
    end_ids = frozenset({END})
    _ROLES: ClassVar = {"system": SYSTEM, "user": USER, "assistant": ASSISTANT}

    def pieces(self) -> list[bytes | None]:
        """The bytes of each token; None for a marker."""
        return [*(bytes([number]) for number in range(256)), None, None, None, None]

    def encode(self, text: str) -> list[int]:
        return list(text.encode("utf-8", "surrogatepass"))

    def decode(self, ids: Sequence[int]) -> str:
        return bytes(number for number in ids if number < 256).decode("utf-8", "replace")

    def open_chat(self, messages: Sequence[Message]) -> list[int]:
        ids: list[int] = []
        for message in messages:
            ids += [self._ROLES[message.role], *self.encode(message.content), self.END]
        return [*ids, self.ASSISTANT]

    def next_turn(self, text: str, *, ended: bool) -> list[int]:
        closing = [] if ended else [self.END]
        return [*closing, self.USER, *self.encode(text), self.END, self.ASSISTANT]


def end_id(tokens: Tokenizer) -> int:
    """The token that ends the assistant's message; of several, the one that the chat template writes."""
    closing = tokens.next_turn("", ended=False)[:1]
    return closing[0] if closing and closing[0] in tokens.end_ids else min(tokens.end_ids)


# Hugging Face tokenizers

# For a model without a chat template. `bos_token` is what the tokenizer itself would begin a text with.
PLAIN_TEMPLATE = (
    "{{ bos }}{% for message in messages %}{{ message['role'] | capitalize }}: {{ message['content'] }}\n\n{% endfor %}"
    "{% if add_generation_prompt %}Assistant:{% endif %}"
)
# Some templates (Llama 3.2, Mistral Small) write today's date; a prompt must be the same tomorrow. This is the date
# that Llama 3's own template falls back to.
FIXED_DATE = (
    "{%- macro strftime_now(format) -%}{{ format | replace('%d', '26') | replace('%b', 'Jul') | replace('%B', 'July')"
    " | replace('%m', '07') | replace('%Y', '2024') | replace('%A', 'Friday') | replace('%H', '00')"
    " | replace('%M', '00') | replace('%S', '00') }}{%- endmacro %}"
)
_QUESTION, _REPLY, _NEXT = "kgwalkquestion", "kgwalkreply", "kgwalknext"  # stand-ins: words of no template
KNOWN = 1 << 14  # texts whose ids are cached
_PRIVATE = 0xF0000  # where Unicode's private characters begin

_LONE = re.compile("[\ud800-\udfff]")

Piece = str | int  # plain text, or the id of a special token


class HfTokenizer:
    """A Hugging Face tokenizer with the model's own chat template.

    A rendered chat is split at the special tokens that the template wrote. What is between them is encoded whole, as
    the model saw it in training, and as plain text: `<|im_end|>` in a name is seven ordinary tokens. What separates two
    turns is found by rendering a chat of stand-ins and cutting it apart, so any template works that writes its messages
    in order.

    `tokenizer` is a fast one (it has a tokenizer.json); `end_ids` are added to those found here.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, *, end_ids: Iterable[int] = ()) -> None:
        backend = getattr(tokenizer, "backend_tokenizer", None)
        if backend is None:
            raise EngineError(
                f"{tokenizer.name_or_path}: its tokenizer ({type(tokenizer).__name__}) has no fast form; "
                "a folder with a tokenizer.json is needed"
            )
        self.hf = tokenizer
        # A copy, as `encode_special_tokens` is set on the object, which may have other users.
        self._backend: Any = copy.deepcopy(backend)
        # Texts repeat: instructions with every question, prompts and observations in every rollout of a group.
        self._known: dict[str, tuple[int, ...]] = {}
        self._rendered: dict[tuple[Message | bool, ...], str] = {}
        self._backend.encode_special_tokens = True  # "do encode them", that is, as text
        self._backend.no_truncation()
        self._backend.no_padding()
        added = self._backend.get_added_tokens_decoder()
        self._special = {token.content: (number, token) for number, token in added.items() if token.special}
        longest_first = sorted(self._special, key=len, reverse=True)
        self._split = re.compile("|".join(map(re.escape, longest_first)) or "(?!)")
        # SentencePiece puts a space before a text; some tokenizers also put one after a special token.
        self._spaced = self._ids("a") != self._ids("\na")[len(self._ids("\n")) :]
        self._spaced_after_special = self._spaced and self._spaces_after_special(backend)
        self._template, self._bos = self._choose_template()
        self._folds_system = self._refuses_system()
        self._between, self._after = self._cut_turns()
        closing = self._between[0] if self._between else ""
        self._closing: int | None = closing if isinstance(closing, int) else None
        found = {tokenizer.eos_token_id, self._closing, *end_ids}
        self.end_ids = frozenset(number for number in found if isinstance(number, int))
        if not self.end_ids:
            raise EngineError(f"{tokenizer.name_or_path}: neither tokenizer nor chat template names an end token")

    @property
    def size(self) -> int:
        """How many ids the tokenizer knows; a model's embedding table may be longer."""
        return int(self._backend.get_vocab_size(with_added_tokens=True))

    @property
    def chat_template(self) -> str:
        """The template that prompts are written with, for programs that read it: what the tokenizer itself would begin
        a text with is in it.
        """
        return self._template.replace("{{ bos }}", self._bos) if self._template is PLAIN_TEMPLATE else self._template

    def pieces(self) -> list[bytes | None] | None:
        """The bytes that each token stands for, None for special ones; None for a kind of tokenizer not known here."""
        decoder = "" if self._backend.decoder is None else json.dumps(json.loads(self._backend.decoder.__getstate__()))
        added = self._backend.get_added_tokens_decoder()
        special = {number for number, token in added.items() if token.special}
        texts = [self._backend.id_to_token(number) for number in range(self.size)]
        if "ByteLevel" in decoder:
            known = _byte_characters()
            plain = {number: token.content.encode() for number, token in added.items()}
            found = [plain.get(number, _bytes_of(text, known)) for number, text in enumerate(texts)]
        elif "ByteFallback" in decoder or "\\u2581" in decoder:
            found = [None if text is None else _fallback(text) for text in texts]
        else:
            return None
        return [None if number in special else piece for number, piece in enumerate(found)]

    def encode(self, text: str) -> list[int]:
        return self._ids(text) if not self._spaced else self._ids("\n" + text)[len(self._ids("\n")) :]

    def decode(self, ids: Sequence[int]) -> str:
        text: str = self._backend.decode(list(ids), skip_special_tokens=True)
        return text

    def open_chat(self, messages: Sequence[Message]) -> list[int]:
        chat = _fold(messages) if self._folds_system else list(messages)
        # Special tokens in the messages are hidden from the template, and shown again as plain text.
        hide = _stand_ins(self._special, [message.content for message in chat])
        hidden = [Message(message.role, _replace(message.content, hide)) for message in chat]
        shown = {stand_in: text for text, stand_in in hide.items()}
        pieces = self._cut(self._render(hidden))
        whole = [piece if isinstance(piece, int) else _replace(piece, shown) for piece in pieces]
        return self._join(whole, after_special=False, begins=True)

    def next_turn(self, text: str, *, ended: bool) -> list[int]:
        between = self._between[1:] if ended and self._closing is not None else self._between
        return self._join([*between, text, *self._after], after_special=ended)

    def chat_text(self, messages: Sequence[Message], *, begin: bool = True) -> str:
        """The messages as the template writes them, markers too, and where the model begins its own."""
        return self._render(messages, begin=begin)

    def foresee(self, ask: Callable[[HfTokenizer], object]) -> None:
        """Encodes beforehand all texts that `ask` is going to encode: at once, with as many threads as there are cores,
        while Python's other threads go on. `ask` is called with a tokenizer that only notes the texts.
        """
        listing = _Listing(self)
        ask(listing)
        texts = list(listing.asked)
        if not texts:
            return
        found = self._backend.encode_batch_fast(list(map(_whole, texts)), add_special_tokens=False)
        if len(self._known) + len(texts) > KNOWN:
            self._known.clear()
        self._known.update((text, tuple(one.ids)) for text, one in zip(texts, found, strict=True))

    # Set-up: what the tokenizer and the template do, found by trying

    def _spaces_after_special(self, backend: Any) -> bool:
        special = next(iter(self._special), "")
        return bool(backend.encode(special + "a", add_special_tokens=False).ids[1:] == self._ids("a"))

    def _choose_template(self) -> tuple[str, str]:
        """The template, and the token that the built-in one begins with, as the tokenizer begins a text."""
        if self.hf.chat_template:
            template = str(self.hf.get_chat_template())
            dated = "strftime_now" in template and not template.startswith(FIXED_DATE)
            return (FIXED_DATE + template if dated else template), ""
        first = self._backend.encode("a", add_special_tokens=True).ids[:1]
        return PLAIN_TEMPLATE, str(self.hf.bos_token) if first == [self.hf.bos_token_id] else ""

    def _refuses_system(self) -> bool:
        try:
            shown = self._render([Message("system", _NEXT), Message("user", _QUESTION)])
        except EngineError:
            return True
        return _NEXT not in shown

    def _cut_turns(self) -> tuple[list[Piece], list[Piece]]:
        """What is between a reply and the next question, and what comes after that question."""
        chat = [Message("user", _QUESTION), Message("assistant", _REPLY), Message("user", _NEXT)]
        shown = self._render(chat)
        if not 0 <= shown.find(_REPLY) < shown.find(_NEXT):
            raise EngineError(
                f"{self.hf.name_or_path}: its chat template does not write the messages in order; it shows {shown!r}"
            )
        between, after = shown.split(_REPLY, 1)[1].split(_NEXT, 1)
        return self._cut(between), self._cut(after)

    # From text to pieces to ids

    def _render(self, messages: Sequence[Message], *, begin: bool = True) -> str:
        from jinja2 import TemplateError

        key: tuple[Message | bool, ...] = (*messages, begin)
        if (known := self._rendered.get(key)) is not None:  # looked up once: another thread may clear it
            return known
        chat = [{"role": message.role, "content": message.content} for message in messages]
        try:
            text = str(
                self.hf.apply_chat_template(
                    chat, chat_template=self._template, add_generation_prompt=begin, tokenize=False, bos=self._bos
                )
            )
        except TemplateError as error:
            raise EngineError(f"{self.hf.name_or_path}: its chat template refuses the messages: {error}") from error
        if len(self._rendered) >= KNOWN:
            self._rendered.clear()
        self._rendered[key] = text
        return text

    def _cut(self, text: str) -> list[Piece]:
        pieces: list[Piece] = []
        at = 0
        for found in self._split.finditer(text):
            number, token = self._special[found[0]]
            before = text[at : found.start()]
            pieces += [before.rstrip() if token.lstrip else before, number]
            at = found.end()
            if token.rstrip:
                at += len(text[at:]) - len(text[at:].lstrip())
        pieces.append(text[at:])
        return [piece for piece in pieces if piece != ""]

    def _join(self, pieces: Sequence[Piece], *, after_special: bool, begins: bool = False) -> list[int]:
        """The ids of pieces. Neighbouring texts are encoded as one, as a token may span both. The flags say what comes
        before them.
        """
        ids: list[int] = []
        text = ""
        for piece in [*pieces, None]:
            if isinstance(piece, str):
                text += piece
                continue
            if text:
                spaced = begins or (after_special and self._spaced_after_special)
                ids += self._ids(text) if spaced else self.encode(text)
                text = ""
            if piece is not None:
                ids.append(piece)
                after_special, begins = True, False
        return ids

    def _ids(self, text: str) -> list[int]:
        known = self._known.get(text)
        if known is None:
            known = tuple(self._backend.encode(_whole(text), add_special_tokens=False).ids)
            if len(self._known) >= KNOWN:
                self._known.clear()
            self._known[text] = known
        return list(known)


class _Listing(HfTokenizer):
    """A tokenizer that gives no ids, and notes the texts that it was asked for and did not know."""

    def __init__(self, of: HfTokenizer) -> None:
        self.__dict__ |= of.__dict__
        self.asked: dict[str, None] = {}

    def _ids(self, text: str) -> list[int]:
        if text not in self._known:
            self.asked[text] = None
        return []


def _byte_characters() -> dict[int, int]:
    """For str.translate: the characters that byte-level tokenizers write for bytes, as characters of these numbers.

    Bytes that are printable characters of Latin-1 stand for themselves, the others for those from 256 on, in order.
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {byte: byte for byte in printable} | {256 + at: byte for at, byte in enumerate(others)}


def _bytes_of(text: str | None, known: dict[int, int]) -> bytes | None:
    """
    >>> _bytes_of("\u0120caf\u00c3\u00a9", _byte_characters()).decode()
    ' caf\u00e9'
    """
    try:
        return None if text is None else text.translate(known).encode("latin-1")
    except UnicodeEncodeError:  # not written in these characters: no token of a byte-level vocabulary
        return None


_BYTE = re.compile("<0x([0-9A-F]{2})>")


def _fallback(text: str) -> bytes:
    """A token as SentencePiece writes it.

    >>> _fallback("\u2581a"), _fallback("<0x0A>")
    (b' a', b'\\n')
    """
    byte = _BYTE.fullmatch(text)
    return bytes([int(byte[1], 16)]) if byte else text.replace("\u2581", " ").encode()


def _whole(text: str) -> str:
    """The text without halves of characters: json.loads gives lone surrogates, which have no bytes to encode."""
    return _LONE.sub("\ufffd", text)


def _fold(messages: Sequence[Message]) -> list[Message]:
    """Puts system messages at the beginning of the first user message."""
    system = [message.content for message in messages if message.role == "system"]
    rest = [message for message in messages if message.role != "system"]
    if not system:
        return rest
    if not rest or rest[0].role != "user":
        return [Message("user", "\n\n".join(system)), *rest]
    return [Message("user", "\n\n".join([*system, rest[0].content])), *rest[1:]]


def _stand_ins(special: Iterable[str], texts: Sequence[str]) -> dict[str, str]:
    """For each special token that occurs in the texts, a private character that occurs in none of them."""
    whole = "".join(texts)  # a token that spans two texts is in neither: its stand-in is not used
    found = sorted((token for token in special if token in whole), key=len, reverse=True)
    if not found:
        return {}
    taken = set(whole)
    free = (chr(number) for number in range(_PRIVATE, _PRIVATE + 0xFFFE) if chr(number) not in taken)
    return {token: next(free) for token in found}


def _replace(text: str, by: dict[str, str]) -> str:
    for old, new in by.items():
        text = text.replace(old, new)
    return text
