"""Facts about Debian packages from the archive's own index: `python make.py Packages OUT.jsonl`.

`Packages` is dists/bookworm/main/binary-amd64/Packages.xz, unpacked. Taken are the packages below and everything that
they depend on in the end, with the facts of the index and none of its descriptions.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

WANTED = """
git vim nginx curl postgresql-15 redis-server htop tmux wget openssh-server sqlite3 cowsay rsync emacs-nox
python3-requests python3-flask python3-numpy python3-django ruby perl lua5.4 nodejs ansible mutt irssi ripgrep
fzf jq graphviz pandoc mosh zsh fish bash lynx memcached haproxy mercurial subversion cmake gcc nano
""".split()  # noqa: SIM905 (easier to read)
TAGS = {"implemented-in": "written_in", "role": "role", "interface": "interface", "works-with": "works_with"}


def read(path: Path) -> dict[str, dict[str, str]]:
    """The fields of each package; continued lines are joined."""
    packages = {}
    for block in path.read_text().split("\n\n"):
        fields = dict(re.findall(r"^([\w-]+): ?((?:.*)(?:\n .*)*)", block, re.MULTILINE))
        if fields:
            packages[fields["Package"]] = fields
    return packages


def names(text: str) -> list[str]:
    """Package names of a field such as Depends; of alternatives the first."""
    return list(dict.fromkeys(re.split(r"[ :(|]", entry.strip())[0] for entry in text.split(",") if entry.strip()))


def main() -> None:
    packages = read(Path(sys.argv[1]))
    taken: dict[str, None] = {}
    left = list(WANTED)
    while left:
        name = left.pop(0)
        if name not in taken and name in packages:
            taken[name] = None
            left += names(packages[name].get("Depends", "")) + names(packages[name].get("Pre-Depends", ""))
    with Path(sys.argv[2]).open("w") as out:

        def fact(head: str, relation: str, tail: str | int) -> None:
            out.write(json.dumps({"head": head, "relation": relation, "tail": tail}, ensure_ascii=False) + "\n")

        for name in sorted(taken):
            fields = packages[name]
            needs = names(fields.get("Depends", "")) + names(fields.get("Pre-Depends", ""))
            for other in dict.fromkeys(needs):
                if other in taken:
                    fact(name, "depends_on", other)
            for field, relation in (("Recommends", "recommends"), ("Suggests", "suggests"), ("Conflicts", "conflicts")):
                for other in names(fields.get(field, "")):
                    if other in taken and other != name:
                        fact(name, relation, other)
            fact(name, "version", fields["Version"])
            fact(name, "section", fields["Section"])
            fact(name, "priority", fields["Priority"])
            fact(name, "maintainer", fields["Maintainer"].split(" <")[0].strip('"'))
            fact(name, "installed_size_kb", int(fields["Installed-Size"]))
            fact(name, "download_bytes", int(fields["Size"]))
            if fields.get("Source"):
                fact(name, "source_package", fields["Source"].split()[0])
            for tag in re.split(r"[,\s]+", fields.get("Tag", "")):
                kind, _, value = tag.partition("::")
                if kind in TAGS and value and value != "TODO":
                    fact(name, TAGS[kind], value)


main()
