"""Systems as folders, and their parts by name.

    systems/kg_r1/recipe.toml      what is run, as data
    systems/kg_r1/protocol.py      @PROTOCOLS.add("kg-r1")
    systems/kg_r1/demos.py         @WRITERS.add("kg-r1")
    systems/kg_r1/rewards.py       @turn_reward("query")

A table (`Parts`) fills itself: asked for `kg-r1` it imports `protocol.py` of the folder `kg_r1`, asked for all names
that of every folder. So no table lists the systems, and one more system is one more folder, here or anywhere
(`add_system`, which `load_recipe` calls for a folder). A single class or function of one's own needs no folder: it is
named by its place, `package.module:name` or `file.py:name` (`imported`).
"""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from kgwalk.types import KgwalkError

T = TypeVar("T")
F = TypeVar("F")

BUNDLED = Path(__file__).parents[1] / "systems"
_own: list[Path] = []  # folders from outside the package


def system_folders() -> list[Path]:
    """The folders of all systems, those from outside last."""
    bundled = sorted(entry for entry in BUNDLED.iterdir() if (entry / "__init__.py").exists())
    return [*bundled, *_own]


def add_system(folder: Path) -> None:
    """From now on the parts in this folder are known by their names."""
    folder = folder.resolve()
    if folder not in system_folders():
        _own.append(folder)


class Parts(Mapping[str, T]):
    """Parts of one kind by name: `what` is the word for one of them, `module` the file that registers them."""

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
            if folder.parent == BUNDLED:
                importlib.import_module(f"kgwalk.systems.{folder.name}.{self.module}")
            else:
                _import_file(path)


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
    """The module of a file, made once: two things of one file share it."""
    name = str(path.resolve())
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
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
