"""Recipes and systems: a TOML file of sections and values, and the folder whose parts it names.

    recipe = load_recipe("kg-r1").with_profile("135m").with_values(["grpo.lr=1e-6"])
    read_section(GrpoSettings, recipe, "grpo")

`load_recipe` finds a bundled recipe by its name (`names()` lists them), a file or a system's folder by its path. Which
keys a section has is said by the dataclass that `read_section` makes of it: the part that uses a section declares it.

A profile is values for a purpose, over those of any recipe: `135m` for a small model, `smoke` to see that it runs. They
lie in profiles/; what a recipe wants to be different stands in its own [profiles.NAME.SECTION].

A system is a folder: its recipe, and those of these parts that it needs.

    my_system/recipe.toml      what is run, as data
    my_system/protocol.py      @PROTOCOLS.add("my-system")
    my_system/demos.py         @WRITERS.add("my-system")
    my_system/rewards.py       @turn_reward("query")

No table lists the systems: a table of parts (`Parts`) fills itself from the folders. One more system is one more
folder, in kgwalk/systems or anywhere else. A single class or function of one's own needs no folder (`imported`).
"""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import json
import math
import re
import sys
import tomllib
import types
import typing
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from datetime import date, time
from importlib import resources
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from kgwalk.types import KgwalkError

# who walks, over what, with what budget; what is trained, on what, how, for what
SECTIONS = (
    *("protocol", "policy", "world", "rollout", "ask", "eval"),
    *("train", "model", "rank", "demos", "sft", "grpo", "turn_rewards", "rewards", "reward_settings", "curriculum"),
    *("judge", "verl"),
)
PROFILES = "profiles"
RECIPE = "recipe"  # the file of a system's folder is recipe.toml
PARTS = ("protocol", "policy", "demos", "rewards")  # its other files, those of them that it needs
BUNDLED = Path(__file__).parents[1] / "systems"
_PROFILES = resources.files("kgwalk.config") / "profiles"


@dataclass(frozen=True)
class Recipe:
    """`sections["rollout"]["turn_tokens"]` and so on; `about` is the comment at the file's top."""

    name: str
    sections: Mapping[str, Mapping[str, Any]]
    about: str = ""

    def section(self, name: str) -> dict[str, Any]:
        return dict(self.sections.get(name, {}))

    def with_values(self, assignments: Iterable[str]) -> Recipe:
        """The recipe with `section.key=value` set; a value is read as TOML, else taken as text."""
        sections = {name: dict(values) for name, values in self.sections.items()}
        for assignment in assignments:
            key, found, text = assignment.partition("=")
            section, dot, inside = key.strip().partition(".")
            if not found or not dot or not inside:
                raise KgwalkError(f"{assignment!r} is not section.key=value, such as rollout.turn_tokens=64")
            if section not in SECTIONS:
                raise unknown("section", section, SECTIONS)
            sections.setdefault(section, {})[inside] = _value(text.strip())
        return Recipe(self.name, sections, self.about)

    def with_profile(self, name: str) -> Recipe:
        """The recipe with a profile's values over its own."""
        own = self.sections.get(PROFILES, {})
        if name not in profiles() and name not in own:
            raise unknown("profile", name, [*profiles(), *own])
        sections = {key: dict(values) for key, values in self.sections.items()}
        general = tomllib.loads((_PROFILES / f"{name}.toml").read_text("utf-8")) if name in profiles() else {}
        for values in (general, own.get(name, {})):
            for section, inside in values.items():
                sections[section] = sections.get(section, {}) | inside
        return Recipe(self.name, sections, self.about)

    def resolved(self) -> dict[str, dict[str, Any]]:
        """The sections as they stand, without the profiles that were not asked for."""
        return {name: dict(values) for name, values in self.sections.items() if name != PROFILES}

    def toml(self) -> str:
        """The resolved recipe as TOML."""
        lines = [f"# {line}" for line in self.about.splitlines()]
        for section, values in self.resolved().items():
            lines += ["", f"[{section}]", *(f"{_key(key)} = {_toml(value)}" for key, value in values.items())]
        return "\n".join(lines) + "\n"


def load_recipe(name: str) -> Recipe:
    """A bundled recipe by its name, a file by its path, or a system's folder by its path."""
    called, file = _find_recipe(name)
    try:
        text = file.read_text("utf-8")
    except OSError as error:
        raise KgwalkError(f"cannot read the recipe {name}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        byte = f"0x{error.object[error.start]:02x}"
        raise KgwalkError(
            f"the recipe {name} is not UTF-8: line {line} has the byte {byte}; save it as UTF-8"
        ) from None
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise KgwalkError(f"the recipe {name} is not TOML: {error}") from error
    for section, inside in values.items():
        if not isinstance(inside, dict):
            raise KgwalkError(f"the recipe {name}: `{section}` must be a section, [{section}]")
        if section not in (*SECTIONS, PROFILES):
            raise unknown(f"section of the recipe {name}", section, SECTIONS)
    _check_profiles(name, values.get(PROFILES, {}))
    about = "\n".join(line.lstrip("# ") for line in text.split("\n\n")[0].splitlines() if line.startswith("#"))
    return Recipe(called, values, about)


def names() -> list[str]:
    """The bundled recipes."""
    return sorted(_bundled())


def profiles() -> list[str]:
    """The profiles that any recipe can be run with."""
    return sorted(entry.name.removesuffix(".toml") for entry in _PROFILES.iterdir() if entry.name.endswith(".toml"))


def unknown(what: str, name: str, known: Iterable[str], first: Sequence[str] = ()) -> KgwalkError:
    """The error for a name that is not there, with the nearest that is, after those that are meant `first`."""
    names = sorted(known)
    section = name[: name.rfind(".") + 1]
    if not all(one.startswith(section) for one in names):
        section = ""
    # what all have in common is left out, or any two keys of a section would be much alike
    tails = {one.removeprefix(section): one for one in names}
    near = difflib.get_close_matches(name.removeprefix(section), tails, 1)
    meant = " or ".join(f"`{one}`" for one in (*first, *(tails[tail] for tail in near)))
    hint = f"did you mean {meant}?" if meant else f"there are {', '.join(names)}"
    return KgwalkError(f"unknown {what} `{name}`; {hint}")


def _find_recipe(name: str) -> tuple[str, Path]:
    """What the recipe is called, and its file. The parts of a system's folder are known from now on."""
    if name.endswith(".toml") and not _is_system(Path(name)):
        return Path(name).stem, Path(name)
    bundled = _bundled()
    if name in bundled:
        return name, bundled[name]
    folder = Path(name).parent if name.endswith(".toml") else Path(name)
    file = folder / f"{RECIPE}.toml"
    if file.is_file():
        add_system(folder)
        return folder.resolve().name.replace("_", "-"), file
    if folder.is_dir():
        raise KgwalkError(f"the folder {name} is no system: it has no {file.name}")
    raise unknown("recipe", name, bundled)


def _bundled() -> dict[str, Path]:
    """Their files: `kg_r1/recipe.toml` is kg-r1; a folder of several, as the baselines', has `oracle.toml`."""
    files = list(BUNDLED.glob("*/*.toml"))
    return {file.parent.name.replace("_", "-") if file.stem == RECIPE else file.stem: file for file in files}


def _is_system(file: Path) -> bool:
    """Whether the file is the recipe of a system's folder; in a run's folder it stands alone."""
    return file.name == f"{RECIPE}.toml" and any(file.with_name(f"{part}.py").exists() for part in PARTS)


def _check_profiles(name: str, own: dict[str, Any]) -> None:
    """[profiles.NAME.SECTION] and nothing else."""
    for profile, sections in own.items():
        for section, inside in sections.items() if isinstance(sections, dict) else [(profile, None)]:
            if not isinstance(inside, dict):
                raise KgwalkError(f"the recipe {name}: a value of a profile stands in [profiles.{profile}.SECTION]")
            if section not in SECTIONS:
                raise unknown(f"section of the recipe {name}'s profile {profile}", section, SECTIONS)


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _toml(key)


def _toml(value: Any) -> str:
    """A value as TOML writes it."""
    match value:
        case dict():
            return "{" + ", ".join(f"{_key(key)} = {_toml(inside)}" for key, inside in value.items()) + "}"
        case list() | tuple():
            return "[" + ", ".join(map(_toml, value)) + "]"
        case str():
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        case bool():
            return str(value).lower()
        case date() | time():
            return value.isoformat()
        case _:  # a number: inf and nan are written alike
            return str(value)


# One section of a recipe as a dataclass

SectionType = TypeVar("SectionType")


def setting(
    default: Any,
    *,
    above: float | None = None,
    least: float | None = None,
    most: float | None = None,
    among: tuple[str, ...] | None = None,
) -> Any:
    """A field of a section, with what its value may be."""
    bounds = {"above": above, "least": least, "most": most, "among": among}
    return field(default=default, metadata=bounds)


def read_section(
    kind: type[SectionType],
    recipe: Recipe,
    section: str,
    *,
    given: Mapping[str, Any] | None = None,
    apart: Collection[str] = (),
    positive: bool = False,
) -> SectionType:
    """The section as an object of a dataclass: known keys, right types, sensible numbers, or an error that says so.

        @dataclass(frozen=True)
        class Sft:
            lr: float = setting(1e-5, above=0)
            schedule: str = setting("cosine", among=("cosine", "constant"))

        read_section(Sft, recipe, "sft")

    `given` are fields that do not come from the recipe; those that the kind does not have are left out. Keys `apart`
    are read elsewhere. With `positive`, every number must be above 0 that has no least of its own.
    """
    known = {entry.name: entry for entry in fields(kind)}  # type: ignore[arg-type]
    made = {name: value for name, value in (given or {}).items() if name in known}
    known = {name: entry for name, entry in known.items() if name not in made}
    hints = _types_of(kind)
    for key, value in recipe.section(section).items():
        if key in apart:
            continue
        if key not in known:
            raise _unknown_setting(recipe, section, key, known)
        own = known[key].metadata
        bounds = {**own, "positive": positive and own.get("least") is None}
        made[key] = _checked(f"{section}.{key}", value, hints[key], bounds)
    for name, entry in known.items():
        if name not in made and entry.default is MISSING and entry.default_factory is MISSING:
            raise KgwalkError(f"the recipe {recipe.name} has no `{section}.{name}`, and there is no default")
    return kind(**made)


def _unknown_setting(recipe: Recipe, section: str, key: str, known: Iterable[str]) -> KgwalkError:
    """The error for a key that a section does not have; first among the guesses are other sections that have it."""
    elsewhere = [f"{other}.{key}" for other, values in recipe.resolved().items() if other != section and key in values]
    return unknown("setting", f"{section}.{key}", (f"{section}.{name}" for name in known), elsewhere)


def _types_of(kind: type) -> dict[str, Any]:
    """The types of a dataclass's fields; one from outside may name types that only a type checker imports."""
    try:
        return typing.get_type_hints(kind)
    except NameError as error:
        raise KgwalkError(
            f"the types of the fields of {kind.__name__} cannot be read: {error}; import them outside `TYPE_CHECKING`"
        ) from error


def _checked(name: str, value: Any, hint: Any, bounds: Mapping[str, Any]) -> Any:
    """The value as its field has it, where TOML can write it so: 1 for a float, a list for a tuple, "none" for None."""
    if typing.get_origin(hint) is typing.Literal:  # of texts
        hint, bounds = str, {**bounds, "among": typing.get_args(hint)}
    allowed = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    if value == "none" and types.NoneType in allowed:  # TOML has no null
        return None
    kinds = [typing.get_origin(entry) or entry for entry in allowed]
    if float in kinds and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if tuple in kinds and isinstance(value, list):
        value = tuple(value)
    if all(entry in _WORDS or entry is types.NoneType for entry in kinds):  # other types check their own values
        _check_type(name, value, kinds, bounds)
    if isinstance(value, int | float) and not isinstance(value, bool):
        _check_number(name, value, bounds)
    among = bounds.get("among")
    if among and isinstance(value, str) and value not in among:
        raise unknown(f"value of {name}", value, among)
    return value


_WORDS = {
    int: "a whole number",
    float: "a number",
    str: "text",
    bool: "true or false",
    tuple: "a list",
    list: "a list",
    dict: "a table",
}


def _check_type(name: str, value: Any, kinds: Sequence[Any], bounds: Mapping[str, Any]) -> None:
    if any(type(value) is entry for entry in kinds):
        return
    wanted = " or ".join(_WORDS[entry] for entry in kinds if entry is not types.NoneType)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if bounds["positive"] and {int, float} & set(kinds) and not is_number:
        wanted = "a number above 0"
    raise KgwalkError(f"`{name}` must be {wanted}, not {value!r}")


def _check_number(name: str, value: float, bounds: Mapping[str, Any]) -> None:
    if not math.isfinite(value):
        raise KgwalkError(f"`{name}` must be a finite number, not {value}")
    if bounds["positive"] and value <= 0:
        raise KgwalkError(f"`{name}` must be a number above 0, not {value}")
    if bounds.get("above") is not None and not value > bounds["above"]:
        raise KgwalkError(f"`{name}` must be above {bounds['above']}, not {value}")
    if bounds.get("least") is not None and not value >= bounds["least"]:
        raise KgwalkError(f"`{name}` must be at least {bounds['least']}, not {value}")
    if bounds.get("most") is not None and not value <= bounds["most"]:
        raise KgwalkError(f"`{name}` must be at most {bounds['most']}, not {value}")


# Systems as folders, and their parts by name

T = TypeVar("T")
F = TypeVar("F")
_own: list[Path] = []  # folders from outside the package


def system_folders() -> list[Path]:
    """The folders of all systems, those from outside last."""
    bundled = sorted(entry for entry in BUNDLED.iterdir() if (entry / "__init__.py").exists())
    return [*bundled, *_own]


def add_system(folder: Path) -> None:
    """From now on the parts in this folder are known by their names; `load_recipe` calls this."""
    folder = folder.resolve()
    if folder not in system_folders():
        _own.append(folder)


class Parts(Mapping[str, T]):
    """Parts of one kind by name: `what` is the word for one of them, `module` the file of a system that has them.

    Asked for `kg-r1`, the table of protocols imports `protocol.py` of the folder `kg_r1`; asked for all names, that of
    every folder.
    """

    def __init__(self, what: str, module: str) -> None:
        self.what, self.module = what, module
        self._known: dict[str, T] = {}
        self._read: set[Path] = set()

    def add(self, name: str) -> Callable[[F], F]:
        """Decorates the part of this name."""

        def register(part: F) -> F:
            if name in self._known:
                raise KgwalkError(f"there are two {self.what}s called `{name}`")
            self._known[name] = part  # type: ignore[assignment]
            return part

        return register

    def named(self, name: str) -> T:
        """The part, or an error that says what there is."""
        if name not in self:
            raise unknown(self.what, name, self)
        return self[name]

    def __getitem__(self, name: str) -> T:
        if not isinstance(name, str):
            raise KeyError(name)
        if name not in self._known:  # mostly the folder has its name, and no other need be imported
            self._import([folder for folder in system_folders() if folder.name == name.replace("-", "_")])
        if name not in self._known:
            self._import(system_folders())
        return self._known[name]

    def __iter__(self) -> Iterator[str]:
        self._import(system_folders())
        return iter(self._known)

    def __len__(self) -> int:
        return len(list(iter(self)))

    def _import(self, folders: Iterable[Path]) -> None:
        for folder in folders:
            path = folder / f"{self.module}.py"
            if folder in self._read or not path.exists():
                continue
            self._read.add(folder)
            try:
                if folder.parent == BUNDLED:
                    importlib.import_module(f"kgwalk.systems.{folder.name}.{self.module}")
                else:
                    _import_file(path)
            except BaseException:
                self._read.remove(folder)
                raise


def imported(what: str, place: str) -> Any:
    """The thing at `package.module:name` or `file.py:name`; `what` is the word for it in errors: a reward, say."""
    where, _, name = place.rpartition(":")
    try:
        module = _import_file(Path(where)) if where.endswith(".py") else importlib.import_module(where)
    except (ImportError, OSError) as error:
        raise KgwalkError(f"the {what} `{place}` cannot be imported: {error}") from error
    if not hasattr(module, name):
        raise unknown(what, place, (f"{where}:{other}" for other in vars(module) if not other.startswith("_")))
    return getattr(module, name)


def _import_file(path: Path) -> Any:
    """The module of a file, made once: two things of one file share it. Its name is the file's path."""
    name = str(path.resolve())
    if name in sys.modules:
        return sys.modules[name]
    if not any(isinstance(finder, _Siblings) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Siblings())  # before the one that would make a second module of a file
    # as a package whose modules are the files beside it: so it can import them, see _Siblings
    spec = importlib.util.spec_from_file_location(name, path, submodule_search_locations=[])
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


class _Siblings(MetaPathFinder, Loader):
    """`from .protocol import Mine` in a file that was imported by its path: the file `protocol.py` beside it.

    Python asks for `/a/mine/demos.py.protocol`, which is here the one module of `/a/mine/protocol.py`, whoever asks.
    """

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return ModuleSpec(name, self) if name.rpartition(".")[0].endswith(".py") and _sibling(name).exists() else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module: ModuleType = _import_file(_sibling(spec.name))
        spec.loader_state = module.__spec__  # which Python replaces by this one
        return module

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None
        module.__spec__ = module.__spec__.loader_state  # it has been executed


def _sibling(name: str) -> Path:
    importer, _, last = name.rpartition(".")
    return Path(importer).with_name(f"{last}.py")
