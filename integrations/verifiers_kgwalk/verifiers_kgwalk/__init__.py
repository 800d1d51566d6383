"""kgwalk for verifiers: a taskset and a harness, and `load_environment` for the classic environments that 0.3 has."""

from importlib.util import find_spec

from verifiers_kgwalk.taskset import KgwalkHarness, KgwalkTaskset

__all__ = ["KgwalkHarness", "KgwalkTaskset"]

if find_spec("verifiers.legacy") is not None:  # gone in 0.4
    from verifiers_kgwalk.environment import KgwalkEnv, load_environment

    __all__ += ["KgwalkEnv", "load_environment"]
