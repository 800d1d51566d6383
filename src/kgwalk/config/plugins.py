"""Systems as folders, and their parts by name.

    my_system/recipe.toml      what is run, as data
    my_system/protocol.py      @PROTOCOLS.add("my-system")
    my_system/demos.py         @WRITERS.add("my-system")
    my_system/rewards.py       @turn_reward("query")

A table of parts (`Parts`) fills itself: asked for `kg-r1` it imports `protocol.py` of the folder `kg_r1`, asked for all
names that of every folder. So no table lists the systems, and one more system is one more folder: in kgwalk/systems, or
anywhere else, from when its recipe is loaded (`load_recipe` calls `add_system`). Files of a folder outside import one
another as `from .protocol import MySystem`.

A single class or function of one's own needs no folder: it is named by its place, `package.module:name` or
`file.py:name` (`imported`).
"""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
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
    """Parts of one kind by name: `what` is the word for one of them, `module` the file of a system that has them."""

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
