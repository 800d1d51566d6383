"""A model hub on loopback, as far as uploading and fetching whole repositories needs one: HF_ENDPOINT points to it.

It keeps what it is sent: small files inside a commit, large ones by their SHA-256 first (Git LFS). A token is `writer`,
who may write to repositories of `someone`, or `reader`, who may not.
"""

from __future__ import annotations

import base64
import hashlib
import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

WRITER, READER = "hf_writer", "hf_reader"
LARGE = (".safetensors", ".gguf")


@dataclass
class Repository:
    private: bool
    commits: list[dict[str, bytes]] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)

    @property
    def files(self) -> dict[str, bytes]:
        return self.commits[-1] if self.commits else {}

    @property
    def commit(self) -> str:
        return f"{len(self.commits):040x}"


@dataclass
class Hub:
    address: str = ""
    repositories: dict[str, Repository] = field(default_factory=dict)
    objects: dict[str, bytes] = field(default_factory=dict)  # by SHA-256
    asked: list[str] = field(default_factory=list)


class Refused(Exception):
    def __init__(self, status: int, code: str, message: str, **more: str) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.more = status, code, message, more


class HubHandler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: Hub

    def do_HEAD(self) -> None:
        self._answer()

    do_GET = do_POST = do_PUT = do_HEAD

    def log_message(self, *_: object) -> None:
        pass

    def _answer(self) -> None:
        path = self.path.split("?")[0]
        self.hub.asked.append(f"{self.command} {path}")
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers: dict[str, str] = {}
        try:
            status, data = 200, self._reply(path, body, headers)
        except Refused as why:
            status, data = why.status, json.dumps({"error": why.message, **why.more}).encode()
            headers = {"X-Error-Code": why.code, "X-Error-Message": why.message}
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(data))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    @property
    def _token(self) -> str:
        return self.headers.get("Authorization", "").removeprefix("Bearer ")

    def _reply(self, path: str, body: bytes, headers: dict[str, str]) -> bytes:
        if path == "/api/repos/create":
            return self._create(json.loads(body))
        if path == "/api/validate-yaml":
            return b'{"errors": [], "warnings": []}'
        if path.startswith("/objects/"):
            self.hub.objects[path.removeprefix("/objects/")] = body
            return b""
        parts = path.removeprefix("/api/models/").strip("/").split("/")
        name = "/".join(parts[:2]).removesuffix(".git")
        rest = parts[2:]
        repository = self.hub.repositories.get(name)
        if repository is None or (repository.private and self._token not in (WRITER, READER)):
            raise Refused(401 if not self._token else 404, "RepoNotFound", "Repository not found")
        match rest:
            case ["preupload", _]:
                self._check_may_write(name)
                files = [
                    {
                        "path": one["path"],
                        "uploadMode": "lfs" if one["path"].endswith(LARGE) else "regular",
                        "shouldIgnore": False,
                        "oid": None,
                    }
                    for one in json.loads(body)["files"]
                ]
                return json.dumps({"files": files}).encode()
            case ["info", "lfs", "objects", "batch"]:
                return self._batch(json.loads(body))
            case ["commit", _]:
                return self._commit(name, repository, body)
            case ["revision", revision] if revision not in ("main", repository.commit):
                raise Refused(404, "RevisionNotFound", f"Invalid rev id: {revision}")
            case [] | ["revision", _]:
                return json.dumps(self._info(name, repository)).encode()
            case ["tree", *_]:
                return json.dumps([_entry(*one) for one in repository.files.items()]).encode()
            case ["resolve", _, file] if file in repository.files:
                data = repository.files[file]
                headers |= {"ETag": f'"{hashlib.sha256(data).hexdigest()}"', "X-Repo-Commit": repository.commit}
                return data
        raise Refused(404, "EntryNotFound", f"nothing at {path}")

    def _create(self, asked: dict[str, Any]) -> bytes:
        if self._token not in (WRITER, READER):
            raise Refused(401, "", "Invalid username or password.")
        name = f"{asked.get('organization') or 'someone'}/{asked['name']}"
        self._check_may_write(name)
        if name in self.hub.repositories:
            raise Refused(409, "", "You already created this model repo", url=f"{self.hub.address}/{name}")
        private = bool(asked.get("private") or asked.get("visibility") == "private")
        self.hub.repositories[name] = Repository(private)
        return json.dumps({"url": f"{self.hub.address}/{name}", "name": name, "id": name}).encode()

    def _check_may_write(self, name: str) -> None:
        if self._token != WRITER or not name.startswith("someone/"):
            raise Refused(403, "", f"You don't have the rights to write to {name}")

    def _batch(self, asked: dict[str, Any]) -> bytes:
        objects = []
        for one in asked["objects"]:
            upload = {"href": f"{self.hub.address}/objects/{one['oid']}", "header": {}}
            there = one["oid"] in self.hub.objects
            objects.append(
                {"oid": one["oid"], "size": one["size"], **({} if there else {"actions": {"upload": upload}})}
            )
        return json.dumps({"transfer": "basic", "objects": objects}).encode()

    def _commit(self, name: str, repository: Repository, body: bytes) -> bytes:
        self._check_may_write(name)
        files = dict(repository.files)
        for line in map(json.loads, body.splitlines()):
            value = line["value"]
            if line["key"] == "header":
                repository.messages.append(value["summary"])
            elif line["key"] == "lfsFile":
                files[value["path"]] = self.hub.objects[value["oid"]]
            elif line["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif line["key"] == "deletedFile":
                del files[value["path"]]
        repository.commits.append(files)
        told = {
            "success": True,
            "commitOid": repository.commit,
            "commitUrl": f"{self.hub.address}/{name}/commit/{repository.commit}",
        }
        return json.dumps(told).encode()

    @staticmethod
    def _info(name: str, repository: Repository) -> dict[str, Any]:
        siblings = [{"rfilename": file} for file in repository.files]
        return {
            "id": name,
            "modelId": name,
            "sha": repository.commit,
            "private": repository.private,
            "siblings": siblings,
        }


def _entry(name: str, data: bytes) -> dict[str, Any]:
    return {"type": "file", "path": name, "size": len(data), "oid": hashlib.sha1(data).hexdigest()}


@contextmanager
def hub_server() -> Iterator[Hub]:
    hub = Hub()
    handler = type("Handler", (HubHandler,), {"hub": hub})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        hub.address = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield hub
        finally:
            server.shutdown()
            thread.join()
