"""Graphs that people upload: POST /kg/build, PUT /kg/build/file, GET /kg/job, and what belongs to them.

    POST /kg/build {"name": "shop", "files": ["products.csv"]}     a job, which waits for the files
    PUT  /kg/build/file?job=ID&file=products.csv                   the bytes; after the last file the build begins
    GET  /kg/job?id=ID                                             how far it is; the graph is served once it is done

Only where the server was started with a folder for it. Files are streamed to disk and bounded; nothing of them is ever
run, and another process reads them (build_process.py). A client names no path: files get names made here, inside a
folder of the job's own, which goes when the job ends. Stores of the folder are served again when the server starts.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from time import monotonic
from typing import IO

import orjson

from kgwalk.config.lock import sole_writer
from kgwalk.kg.store import open_graph
from kgwalk.serve.agent import parse, refusing
from kgwalk.serve.asgi import HttpError, HttpReply
from kgwalk.serve.build_process import TARGET, BuildOrder, BuildTold
from kgwalk.serve.explore_shapes import (
    BadRow,
    BuildBody,
    FileQuery,
    JobFile,
    JobQuery,
    JobReply,
    JobReport,
    JobState,
    RemoveBody,
    UploadsReply,
)
from kgwalk.serve.graphs import STORE, ServedGraphs
from kgwalk.serve.reading import QueryStringReader, RequestReader, given
from kgwalk.serve.settings import ServeSettings
from kgwalk.types import KgwalkError

log = logging.getLogger("kgwalk.serve")

INCOMING = ".incoming"  # inside the folder of uploads: a folder for each job under way
MOST_RECEIVING = 8  # jobs that wait for files
MOST_GRAPHS = 64  # in the folder
KEPT = 20  # jobs that have ended, and can still be asked about
ABANDONED = 600.0  # seconds without a byte, after which a job that waits for files is given up
DISK = 24  # times `max_upload`: what a build may take on disk
BUILD_SECONDS = 3600.0
WRITE = 1 << 20  # bytes that are written at once
LOOK_EVERY = 0.5  # seconds between two looks at what a build takes on disk
FILE = "/kg/build/file"  # PUT: its body is no JSON
OCTETS = b"application/octet-stream"
LONGEST_NAME = 120  # characters of a file's name
ENDED = ("done", "failed", "stopped")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,59}")
_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSWORD", re.IGNORECASE)

read_build = RequestReader(BuildBody, "the body")
read_remove = RequestReader(RemoveBody, "the body")
read_job = RequestReader(JobQuery, "the body")
read_job_query = QueryStringReader(JobQuery)
read_file_query = QueryStringReader(FileQuery)


@cache
def endings() -> list[str]:
    """How the names of files may end; importing what knows it takes a while."""
    from kgwalk.kg.sources.source import COMPRESSIONS, SUFFIXES

    return [*SUFFIXES, *(f"{suffix}{packed}" for suffix in SUFFIXES for packed in COMPRESSIONS)]


def safe_name(name: str) -> str:
    """A file name that is only a name, and means nothing to a shell or a file system.

    >>> safe_name("../../etc/passwd.csv"), safe_name("C:\\\\my files\\\\Sales (2).CSV"), safe_name(".hidden.tsv")
    ('passwd.csv', 'Sales_2_.CSV', 'hidden.tsv')
    """
    last = re.split(r"[/\\]", name)[-1]
    plain = re.sub(r"[^\w.-]+", "_", last).lstrip("._-")
    return plain[-LONGEST_NAME:].lstrip("._-")


@dataclass
class _Job:
    id: str
    name: str
    folder: Path
    wanted: dict[str, JobFile]  # by the name that the client gave; the entry has the one that the file has here
    table: bool | None
    skip_bad_rows: bool
    state: JobState = "receiving"
    receiving: set[str] = field(default_factory=set)  # files that are arriving now
    stage: str = ""
    done: int = 0
    total: int | None = None
    began: float = field(default_factory=monotonic)
    touched: float = field(default_factory=monotonic)
    ended: float | None = None
    message: str | None = None
    bad_rows: list[BadRow] = field(default_factory=list)
    bad: int = 0
    notes: list[str] = field(default_factory=list)
    report: JobReport | None = None
    process: subprocess.Popen[str] | None = None

    @property
    def bytes(self) -> int:
        return sum(file["bytes"] for file in self.wanted.values())

    def told(self) -> JobReply:
        return {
            "id": self.id,
            "name": self.name,
            "state": self.state,
            "files": [{**file, "name": given} for given, file in self.wanted.items()],
            "stage": self.stage,
            "done": self.done,
            "total": self.total,
            "seconds": round((self.ended or monotonic()) - self.began, 3),
            "message": self.message,
            "bad_rows": self.bad_rows,
            "bad": self.bad,
            "notes": self.notes,
            "report": self.report,
        }


class Uploads:
    """The jobs of one server. `changed` is told when there are other graphs than before."""

    def __init__(self, settings: ServeSettings, graphs: ServedGraphs, changed: Callable[[], None]) -> None:
        self._settings, self._graphs, self._changed = settings, graphs, changed
        self._jobs: dict[str, _Job] = {}
        self._held = ExitStack()
        self._folder: Path | None = None
        self._closed = False
        self._changing = threading.Lock()  # of the graphs, which the builder's thread changes too
        # One build at a time: each takes a processor, and memory.
        self._builder = ThreadPoolExecutor(1, "kgwalk-build")
        if settings.uploads is not None:
            self._folder = Path(settings.uploads).resolve()
            self._held.enter_context(sole_writer(self._folder))
            shutil.rmtree(self._folder / INCOMING, ignore_errors=True)  # left by a server that was killed
            (self._folder / INCOMING).mkdir()

    def close(self) -> None:
        self._closed = True
        for job in list(self._jobs.values()):
            self._stop(job)
        self._builder.shutdown(wait=True, cancel_futures=True)
        if self._folder is not None:
            shutil.rmtree(self._folder / INCOMING, ignore_errors=True)
        self._held.close()

    # What the routes do

    async def about(self, query: bytes, deadline: float) -> HttpReply:
        """GET /kg/uploads"""
        allowed = self._folder is not None
        reply: UploadsReply = {
            "allowed": allowed,
            "max_bytes": self._settings.max_upload,
            "formats": await asyncio.to_thread(endings) if allowed else [],
            "graphs": list(self._graphs.uploaded),
            "jobs": [job.told() for job in reversed(self._jobs.values())],
        }
        return HttpReply(200, orjson.dumps(reply))

    async def begin(self, body: bytes, deadline: float) -> HttpReply:
        """POST /kg/build"""
        folder = self._allowed()
        asked = refusing(lambda: read_build(parse(body)))
        known = await asyncio.to_thread(endings)
        name = asked["name"]
        if not _NAME.fullmatch(name):
            raise _wrong(
                "a graph's name has letters, digits, - and _, begins with a letter or digit, and has 60 at most"
            )
        self._give_up_abandoned()
        under_way = [job for job in self._jobs.values() if job.state not in ENDED]
        there = name in self._graphs.by_name or (folder / f"{name}{STORE}").exists()
        if there or name in (job.name for job in under_way):
            raise HttpError(422, "name_taken", f'a graph is called "{name}" already; choose another name')
        if len(under_way) >= MOST_RECEIVING:
            raise HttpError(503, "busy", "too many uploads at once; try again later", ((b"retry-after", b"10"),))
        if len(self._graphs.uploaded) >= MOST_GRAPHS:
            raise HttpError(422, "too_many_graphs", f"there are {MOST_GRAPHS} uploaded graphs; remove some first")
        wanted: dict[str, JobFile] = {}
        for given_name in asked["files"]:
            safe = safe_name(given_name)
            if not safe.lower().endswith(tuple(known)):
                raise _wrong(f'"{given_name[:60]}" is of no known format; names may end in {" ".join(known[:12])}')
            if given_name in wanted or safe in (one["name"] for one in wanted.values()):
                raise _wrong(f'two files are called "{safe}"; rename one')
            wanted[given_name] = {"name": safe, "bytes": 0, "arrived": False}
        job_id = secrets.token_urlsafe(16)
        job = _Job(
            job_id,
            name,
            folder / INCOMING / job_id,
            wanted,
            asked.get("table"),
            given(asked.get("skip_bad_rows"), False),
        )
        job.folder.mkdir(mode=0o700)
        self._jobs[job_id] = job
        return HttpReply(200, orjson.dumps(job.told()))

    async def take_file(self, query: bytes, chunks: AsyncIterator[bytes], announced: int | None = None) -> HttpReply:
        """PUT /kg/build/file: the bytes of one file, as they arrive; `announced` is how many there will be, if said."""
        self._allowed()
        asked = refusing(lambda: read_file_query(query))
        job = self._job(asked["job"])
        file = job.wanted.get(asked["file"])
        if file is None:
            raise _wrong(f'"{asked["file"][:60]}" is none of the files that the job was begun with')
        if job.state != "receiving" or file["arrived"] or asked["file"] in job.receiving:
            raise HttpError(422, "not_awaited", f'"{asked["file"][:60]}" has arrived already, or the job has ended')
        if announced is not None and job.bytes + announced > self._settings.max_upload:
            raise self._too_large(job)
        path = job.folder / file["name"]
        job.receiving.add(asked["file"])
        try:
            await self._write(job, file, path, chunks)
            file["arrived"] = True
        except OSError as error:
            log.error("the upload %s cannot be written: %s", job.name, error)
            message = "the server cannot write the file; its log has the reason"
            self._end(job, "failed", message)
            raise HttpError(500, "not_written", message) from error
        finally:
            job.receiving.discard(asked["file"])
            if not file["arrived"]:  # it can be sent again
                file["bytes"] = 0
                path.unlink(missing_ok=True)
        if all(one["arrived"] for one in job.wanted.values()) and job.state == "receiving":
            job.state = "waiting"
            self._builder.submit(self._build, job)
        return HttpReply(200, orjson.dumps(job.told()))

    async def job(self, query: bytes, deadline: float) -> HttpReply:
        """GET /kg/job"""
        return HttpReply(200, orjson.dumps(self._job(refusing(lambda: read_job_query(query))["id"]).told()))

    async def stop(self, body: bytes, deadline: float) -> HttpReply:
        """POST /kg/job/stop"""
        job = self._job(refusing(lambda: read_job(parse(body)))["id"])
        self._stop(job)
        return HttpReply(200, orjson.dumps(job.told()))

    async def remove(self, body: bytes, deadline: float) -> HttpReply:
        """POST /kg/remove: an uploaded graph is no longer served, and its store is deleted."""
        folder = self._allowed()
        name = refusing(lambda: read_remove(parse(body)))["name"]
        if name not in self._graphs.uploaded:
            raise HttpError(404, "unknown_graph", f'no uploaded graph is called "{name[:60]}"')
        with self._changing:
            self._graphs.with_uploaded({one: graph for one, graph in self._graphs.uploaded.items() if one != name})
        self._changed()
        await asyncio.to_thread(shutil.rmtree, folder / f"{name}{STORE}", ignore_errors=True)
        return HttpReply(200, orjson.dumps({"removed": name}))

    # Receiving

    def _allowed(self) -> Path:
        if self._folder is None:
            message = "this server takes no uploads; start it with a folder for them: `kgwalk serve --uploads FOLDER`"
            raise HttpError(403, "no_uploads", message)
        return self._folder

    def _job(self, job_id: str) -> _Job:
        if job_id not in self._jobs:
            raise HttpError(404, "unknown_job", "there is no such job, or it ended long ago")
        return self._jobs[job_id]

    def _too_large(self, job: _Job) -> HttpError:
        message = (
            f"the files have more than {self._settings.max_upload:,} bytes together; send less, or use --max-upload"
        )
        self._end(job, "failed", message)
        return HttpError(413, "upload_too_large", message)

    async def _write(self, job: _Job, file: JobFile, path: Path, chunks: AsyncIterator[bytes]) -> None:
        """The bytes to disk, a piece at a time, in another thread."""
        # A new file of our own: not one that is there, and nothing that a link leads to.
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0), 0o600)
        with os.fdopen(descriptor, "wb") as out:
            piece = bytearray()
            async for chunk in chunks:
                if job.state != "receiving":
                    raise HttpError(422, "not_awaited", "the job has ended")
                job.touched = monotonic()
                file["bytes"] += len(chunk)
                if job.bytes > self._settings.max_upload:
                    raise self._too_large(job)
                piece += chunk
                if len(piece) >= WRITE:
                    await asyncio.to_thread(out.write, bytes(piece))
                    piece.clear()
            await asyncio.to_thread(out.write, bytes(piece))

    def _give_up_abandoned(self) -> None:
        for job in list(self._jobs.values()):
            if job.state == "receiving" and monotonic() - job.touched > ABANDONED:
                self._end(job, "stopped", "no file arrived for ten minutes")

    # Building, in the builder's thread

    def _build(self, job: _Job) -> None:
        if job.state != "waiting" or self._closed:
            return
        job.state, job.stage = "building", "starting"
        try:
            told = self._run(job)
            if job.state != "building":  # it was stopped
                return
            job.bad_rows, job.bad = told.get("bad_rows", []), told.get("bad", 0)
            job.notes, job.report = told.get("notes", []), told.get("report")
            if "failed" in told:
                self._end(job, "failed", told["failed"])
            else:
                self._serve(job)
                self._end(job, "done")
        except (KgwalkError, OSError) as error:
            log.error("the upload %s failed: %s", job.name, error)
            self._end(job, "failed", "the graph could not be built or opened; the server's log has the reason")
        except Exception:
            log.exception("the upload %s failed", job.name)
            self._end(job, "failed", "the server failed on this upload; its log has the reason")

    def _run(self, job: _Job) -> BuildTold:
        """The last that the process tells which builds."""
        with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as complaints:
            return self._told_by_process(job, complaints)

    def _told_by_process(self, job: _Job, complaints: IO[str]) -> BuildTold:
        order: BuildOrder = {
            "sources": [file["name"] for file in job.wanted.values()],
            "table": job.table,
            "skip_bad_rows": job.skip_bad_rows,
            "most_bytes": DISK * self._settings.max_upload,
        }
        environment = {name: value for name, value in os.environ.items() if not _SECRET.search(name)}
        environment["PYTHONPATH"] = os.pathsep.join(str(Path(one).resolve()) for one in sys.path if one)
        job.process = process = subprocess.Popen(
            [sys.executable, "-P", "-m", "kgwalk.serve.build_process"],  # -P: nothing is imported from its folder
            cwd=job.folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=complaints,
            text=True,
            start_new_session=True,  # a Ctrl-C for the server is no signal for the build: the server ends it in order
        )
        ended = threading.Event()
        watch = threading.Thread(target=self._watch, args=(job, process, ended), name="kgwalk-build-watch", daemon=True)
        watch.start()
        last: BuildTold = {}
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            with suppress(BrokenPipeError):
                process.stdin.write(json.dumps(order))
                process.stdin.close()
            for line in process.stdout:
                last = json.loads(line)
                if "stage" in last:
                    job.stage, job.done, job.total = last["stage"], last["done"], last["total"]
            process.wait()
        finally:
            ended.set()
            process.stdout.close()
            if process.poll() is None:
                process.kill()
                process.wait()
        if process.returncode or not last or "stage" in last:
            if job.state == "building" and job.message is None:
                complaints.seek(0)
                log.error("the build of %s ended with %s: %s", job.name, process.returncode, complaints.read()[-2000:])
            why = job.message or "the build ended before it was done: the files need too much memory or time"
            return {"failed": why}
        return last

    def _watch(self, job: _Job, process: subprocess.Popen[str], ended: threading.Event) -> None:
        """End a build that takes too much disk, or too long."""
        most, until = DISK * self._settings.max_upload, monotonic() + BUILD_SECONDS
        while not ended.wait(LOOK_EVERY):
            if _size(job.folder) > most:
                job.message = f"the files unpack to more than {most:,} bytes"
                process.kill()
            elif monotonic() > until:
                job.message = f"the build took more than {BUILD_SECONDS / 60:g} minutes"
                process.kill()

    def _serve(self, job: _Job) -> None:
        """Move the store to its place and serve it, if its name is still free."""
        assert self._folder is not None
        job.stage, job.done, job.total = "opening", 0, None
        target = self._folder / f"{job.name}{STORE}"
        if job.name in self._graphs.by_name or target.exists():
            raise KgwalkError(f"{target} is there already")
        os.rename(job.folder / TARGET, target)
        graph = open_graph(target, private=True)
        with self._changing:
            self._graphs.with_uploaded({**self._graphs.uploaded, job.name: graph})
        self._changed()

    # The end of a job

    def _stop(self, job: _Job) -> None:
        if job.state in ENDED:
            return
        process = job.process
        self._end(job, "stopped", "it was stopped")
        if process is not None and process.poll() is None:
            process.kill()

    def _end(self, job: _Job, state: JobState, message: str | None = None) -> None:
        if job.state in ENDED:
            return
        job.state, job.message, job.ended = state, message, monotonic()
        shutil.rmtree(job.folder, ignore_errors=True)
        ended = [one for one in self._jobs.values() if one.state in ENDED]
        for old in ended[:-KEPT]:
            del self._jobs[old.id]


def _size(folder: Path) -> int:
    """Bytes of all files in a folder and below; what goes meanwhile counts for nothing."""
    total = 0
    for root, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                total += os.lstat(os.path.join(root, name)).st_size
    return total


def _wrong(message: str) -> HttpError:
    return HttpError(422, "wrong_content", message)
