"""What a processor has for training: memory, threads, numbers of 16 bits; each is seen here, not believed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from kgwalk.config import runtime
from kgwalk.config.runtime import host_free
from kgwalk.training import updater as updating
from kgwalk.training.fit import plan
from kgwalk.training.fit.plan import GENTLY, MORE_GENTLY, rate_after
from kgwalk.training.probes import bf16_is_faster
from kgwalk.training.settings import SftSettings
from kgwalk.training.sft import Sft
from training_helpers import policy, sequences, updater_of

MIB = 1024**2


def a_machine(root: Path, meminfo: str, limit: str | None = None, held: int = 0, files: int = 0) -> Path:
    (root / "proc").mkdir(parents=True)
    (root / "proc/meminfo").write_text(meminfo)
    if limit is not None:
        (root / "sys/fs/cgroup").mkdir(parents=True)
        (root / "sys/fs/cgroup/memory.max").write_text(f"{limit}\n")
        (root / "sys/fs/cgroup/memory.current").write_text(f"{held}\n")
        (root / "sys/fs/cgroup/memory.stat").write_text(f"anon {held - files}\ninactive_file {files}\n")
    return root


def test_memory_is_what_no_program_holds_and_no_container_is_denied(tmp_path: Path) -> None:
    told = "MemTotal:  8192 kB\nMemFree:  1024 kB\nMemAvailable:   4096 kB\n"
    assert host_free(a_machine(tmp_path / "plain", told)) == 4 * MIB
    assert host_free(a_machine(tmp_path / "unbounded", told, "max", MIB)) == 4 * MIB
    assert host_free(a_machine(tmp_path / "container", told, str(3 * MIB), 2 * MIB)) == MIB
    assert host_free(a_machine(tmp_path / "of files", told, str(3 * MIB), 2 * MIB, files=MIB)) == 2 * MIB
    assert host_free(a_machine(tmp_path / "full", told, str(3 * MIB), 5 * MIB)) == 0
    every = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert host_free(a_machine(tmp_path / "old", "MemTotal: 8192 kB\n")) == every // 4  # the system does not say
    assert host_free(tmp_path / "nowhere") == every // 4
    assert 0 <= host_free() <= every


def cpus(*places: tuple[int, int, int]) -> str:
    """As Linux lists them: the number of a processor, its chip, its core."""
    return "\n\n".join(
        f"processor\t: {number}\nphysical id\t: {chip}\ncore id\t\t: {core}\nflags\t\t: fpu avx2"
        for number, chip, core in places
    )


def test_two_threads_of_one_core_are_one_core(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = tmp_path / "cpuinfo"
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1, 2, 3}, raising=False)
    info.write_text(cpus((0, 0, 0), (1, 0, 1), (2, 0, 0), (3, 0, 1)))
    assert runtime.cores(info) == 2
    info.write_text(cpus((0, 0, 0), (1, 0, 1), (2, 1, 0), (3, 1, 1)))
    assert runtime.cores(info) == 4
    info.write_text(cpus((0, 0, 0), (1, 0, 1), (4, 1, 0), (5, 1, 1)))  # two of them are not for this process
    assert runtime.cores(info) == 2
    info.write_text("processor : 0\n\nprocessor : 1")  # a virtual machine that tells no places
    assert runtime.cores(info) == 4
    assert runtime.cores(tmp_path / "another system") == 4


def test_half_of_the_cores_unless_somebody_says_how_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    monkeypatch.setattr(runtime, "cores", lambda: 6)
    monkeypatch.setattr(runtime, "_ours", [])
    monkeypatch.setenv(runtime.VARIABLE, "1")
    runtime.set_thread_count()
    assert (os.environ[runtime.VARIABLE], runtime.most_threads()) == ("1", None)  # no more is tried
    monkeypatch.delenv(runtime.VARIABLE)
    runtime.set_thread_count()
    assert (os.environ[runtime.VARIABLE], runtime.most_threads()) == ("3", 6)


def test_instructions_that_are_announced_and_missing_kill_another_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KGWALK_CACHE", str(tmp_path / "cache"))
    info, counted = tmp_path / "cpuinfo", tmp_path / "trials"
    has = "model name : A\nflags : fpu avx512f avx512_bf16 amx_tile\ncpu MHz : {}"
    info.write_text(has.format(2000))

    def trial(ending: str) -> str:
        return f"open({str(counted)!r}, 'a').write('x')\n{ending}"

    assert bf16_is_faster(info, trial("print(2.5)"))
    info.write_text(has.format(3000))
    assert bf16_is_faster(info, trial("print(2.5)"))
    assert counted.read_text() == "x"  # tried once on a machine: a run that is resumed computes as it did
    assert not bf16_is_faster(info, trial("print(1.1)"))  # not worth it
    assert not bf16_is_faster(info, trial("import os, signal; os.kill(os.getpid(), signal.SIGILL)"))
    assert not bf16_is_faster(info, trial("print('soon')"))
    assert counted.read_text() == "xxxx"
    info.write_text("model name : A\nflags : fpu avx512f avx512_bf16x")
    assert not bf16_is_faster(info, trial("print(2.6)"))
    assert not bf16_is_faster(tmp_path / "another system", trial("print(2.7)"))
    assert counted.read_text() == "xxxx"  # where nobody claims to have them nothing is tried


def test_passes_in_half_learn_what_others_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same demonstrations, 8 updates: bfloat16 has 8 bits, so the losses are alike to some percent, not equal."""
    monkeypatch.setattr(updating, "bf16_is_faster", lambda: True)

    def losses(half: bool) -> list[float]:
        updater = updater_of(policy(stirred=False), lr=1e-2, half=half)
        assert (updater.host_pass is not None) is half
        flats = sequences(4)
        sft = Sft(updater, flats, list("abcd"), SftSettings(epochs=8, batch=4), 0)
        found = [sft.step(number)["loss"] for number in range(1, 9)]
        assert all(value.dtype == torch.float32 for value in updater.parameters)
        return found

    with torch.backends.mkldnn.flags(enabled=False):  # whose kernels of 16 bits some processors do not have
        whole, half = losses(False), losses(True)
    assert whole != half
    assert half == pytest.approx(whole, rel=0.05)
    assert half[-1] < 0.98 * half[0]
    assert updater_of(policy()).host_pass is None  # nobody asked for it


def test_threads_are_an_updates_own(monkeypatch: pytest.MonkeyPatch) -> None:
    before, seen = torch.get_num_threads(), []
    updater = updater_of(policy(), threads=before + 1)
    gradients = updater._gradients

    def watched(*given: object) -> object:
        seen.append(torch.get_num_threads())
        return gradients(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(updater, "_gradients", watched)
    sft = Sft(updater, sequences(2), ["a", "b"], SftSettings(batch=2), 0)
    sft.step(1)
    assert (seen, torch.get_num_threads()) == ([before + 1], before)


def test_all_cores_are_tried_unless_somebody_said_how_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "most_threads", lambda: torch.get_num_threads() + 1)

    def course(**options: int) -> Sft:
        return Sft(updater_of(policy(), **options), sequences(2), ["a", "b"], SftSettings(batch=2), 0)

    own = course()
    tried = plan._with_more_threads(own)
    assert tried is not None
    assert tried.threads == torch.get_num_threads() + 1
    assert tried.seconds > 0
    assert own.updater.threads == 0  # what comes next is measured as it would be without
    assert plan._with_more_threads(course(threads=1)) is None  # by `sft.threads`
    monkeypatch.setattr(plan, "most_threads", lambda: None)  # by OMP_NUM_THREADS
    assert plan._with_more_threads(course()) is None
    monkeypatch.setattr(plan, "most_threads", torch.get_num_threads)  # there are no more
    assert plan._with_more_threads(course()) is None


def test_who_walks_a_graph_well_learns_a_small_course_more_gently() -> None:
    assert [rate_after(f1, 400) for f1 in (0.38, 0.57, 0.70, 0.93)] == [GENTLY, GENTLY, MORE_GENTLY, MORE_GENTLY]
    assert [rate_after(0.93, count) for count in (1919, 1920)] == [MORE_GENTLY, GENTLY]


def test_the_commit_is_this_projects_or_none(tmp_path: Path) -> None:
    """Installed inside another project's folder, git would tell that one's commit."""
    package = tmp_path / "site-packages" / "kgwalk" / "config"
    package.mkdir(parents=True)
    source = Path(runtime.__file__).read_text()
    (package / "runtime.py").write_text(source)
    git = ["git", "-C", str(tmp_path), "-c", "user.name=x", "-c", "user.email=x@example.org"]
    for command in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "theirs"]):
        subprocess.run([*git, *command], check=True)
    code = "import runpy, sys; print(runpy.run_path(sys.argv[1])['_commit']())"
    done = subprocess.run(
        [sys.executable, "-c", code, str(package / "runtime.py")], capture_output=True, text=True, env={**os.environ}
    )
    assert done.stdout == "None\n", done.stderr


def test_the_command_is_the_one_typed(tmp_path: Path) -> None:
    code = "import json, sys; sys.argv = json.loads(sys.argv[1]); from kgwalk.config.runtime import surroundings\n"
    code += "print(json.dumps(surroundings()['command']))"
    for argv, wanted in (
        (["/usr/bin/kgwalk", "eval", "oracle"], ["kgwalk", "eval", "oracle"]),
        (["/x/kgwalk/cli/main.py", "eval"], ["kgwalk", "eval"]),
        (["notebook.py", "-v"], ["notebook.py", "-v"]),
    ):
        done = subprocess.run([sys.executable, "-c", code, json.dumps(argv)], capture_output=True, text=True)
        assert json.loads(done.stdout) == wanted
