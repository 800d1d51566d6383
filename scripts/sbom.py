"""Write requirements/sbom.cdx.json: what kgwalk ships and what `make test` installs, with versions and licences.

CycloneDX JSON. `make sbom` runs it in .venv, with cyclonedx-py of an environment of its own as the argument: that reads
the packages, their homes and who depends on whom. Added here: licences by their SPDX names, and the data and the model
inside the wheel; `--shipped` in place of the tool writes only these again, without a network. The same environment
gives the same bytes. On another system some packages differ: see the locks.
"""

from __future__ import annotations

import importlib.metadata
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from audit import ROOT, licence, policy, shipped_hash
from packaging.utils import canonicalize_name

SBOM = ROOT / "requirements" / "sbom.cdx.json"
NOT_OURS = ("pip",)  # there before anything of ours is installed


def main(tool: Path | None) -> None:
    bom = json.loads(SBOM.read_text()) if tool is None else _packages(tool)
    bom["components"] = [one for one in bom["components"] if "purl" in one] + [_shipped(x) for x in policy()["shipped"]]
    text = json.dumps(bom, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    if tool is not None:
        _validate(tool.parent / "python", text)
    SBOM.write_text(text)
    print(f"{SBOM.relative_to(ROOT)}: {len(bom['components'])} components")


def _packages(tool: Path) -> dict[str, Any]:
    """What is installed here, as cyclonedx-py sees it."""
    run = [str(tool), "environment", sys.executable, "--pyproject", "pyproject.toml", "--mc-type", "library"]
    run += ["--output-reproducible", "--of", "JSON"]
    bom: dict[str, Any] = json.loads(subprocess.run(run, cwd=ROOT, check=True, capture_output=True, text=True).stdout)
    bom["components"] = [_with_licence(one) for one in bom["components"] if one["name"] not in NOT_OURS]
    bom["dependencies"] = [one for one in bom["dependencies"] if one["ref"].split("==")[0] not in NOT_OURS]
    return bom


def _with_licence(component: dict[str, Any]) -> dict[str, Any]:
    """A component with its licence as one SPDX expression, and without its own texts' long addresses."""
    metadata = importlib.metadata.distribution(component["name"]).metadata
    found = licence(canonicalize_name(component["name"]), metadata, policy()["licences"]["stated"])
    if found is not None:
        component["licenses"] = [{"expression": found}]
    kept = [one for one in component.pop("externalReferences", []) if one["type"] in ("vcs", "website")]
    return {**component, "externalReferences": kept} if kept else component


def _shipped(part: dict[str, str]) -> dict[str, Any]:
    """Data or a model inside the wheel."""
    return {
        "bom-ref": part["name"],
        "type": part["type"],
        "name": part["name"],
        "version": importlib.metadata.version("kgwalk"),
        "licenses": [{"expression": part["licence"]}],
        "hashes": [{"alg": "SHA-256", "content": shipped_hash(part["folder"])}],
        "properties": [{"name": "kgwalk:folder", "value": part["folder"]}],
    }


def _validate(python: Path, text: str) -> None:
    """Against CycloneDX's schema, by the tool's own library."""
    code = """
import sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
wrong = JsonStrictValidator(SchemaVersion.V1_6).validate_str(sys.stdin.read())
sys.exit(str(wrong) if wrong else 0)
"""
    subprocess.run([str(python), "-c", code], input=text, text=True, check=True)


if __name__ == "__main__":
    main(None if sys.argv[1] == "--shipped" else Path(sys.argv[1]).absolute())
