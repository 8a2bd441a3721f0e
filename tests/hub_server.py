"""A minimal model hub on this machine, with only the requests of `huggingface_hub` and our downloads."""

import base64
import hashlib
import json
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

import yaml

TOKEN = "hf_of_the_tests"
LARGE = (".safetensors", ".png")
"""What is stored apart from git, with LFS, and reached by a redirect."""


@dataclass
class Repository:
    """Files by commit. The last commit is that of the branch `main`."""

    private: bool = False
    commits: dict[str, dict[str, bytes]] = field(default_factory=dict)

    @property
    def head(self) -> str:
        return list(self.commits)[-1]

    @property
    def files(self) -> dict[str, bytes]:
        return self.commits[self.head]

    def commit(self, files: dict[str, bytes]) -> str:
        told = repr((len(self.commits), sorted(files.items()))).encode()
        oid = hashlib.sha1(told).hexdigest()
        self.commits[oid] = files
        return oid


@dataclass
class Hub:
    """The repositories of a server, the requests it received, and its faults."""

    address: str = ""
    repositories: dict[str, Repository] = field(default_factory=dict)
    large: dict[str, bytes] = field(default_factory=dict)
    """What was uploaded with LFS, by its SHA-256."""
    asked: list[str] = field(default_factory=list)
    """Every request: its method and path."""
    quirks: dict[str, Callable[["Answer"], None]] = field(default_factory=dict)
    """Answers by a pattern of the path, instead of the right ones."""
    lists: Callable[[list[dict]], list] = lambda entries: entries
    """Changes what a listing says."""

    def add(self, name: str, files: dict[str, bytes]) -> Repository:
        """Add a repository as if another user had uploaded it."""
        repository = self.repositories[name] = Repository()
        repository.commit({".gitattributes": b"*.safetensors filter=lfs\n", **files})
        return repository


class Answer(BaseHTTPRequestHandler):
    """Handles one request to the hub."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    hub: Hub

    def log_message(self, *words: object) -> None:
        """Nothing on the terminal."""

    def do_GET(self) -> None:
        self.answer()

    do_POST = do_PUT = do_GET  # noqa: N815 (so they are called)

    def answer(self) -> None:
        self.body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.place = unquote(urlsplit(self.path).path)
        self.hub.asked.append(f"{self.command} {self.place}")
        for pattern, quirk in self.hub.quirks.items():
            if re.search(pattern, f"{self.command} {self.place}"):
                return quirk(self)
        for pattern, method in ROUTES.items():
            if match := re.fullmatch(pattern, f"{self.command} {self.place}"):
                return method(self, **match.groupdict())
        return self.refuse(404, "EntryNotFound")

    def send(self, content: bytes, status: int = 200, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(content)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def tell(self, value: object, status: int = 200) -> None:
        self.send(json.dumps(value).encode(), status, Content_Type="application/json")

    def refuse(self, status: int, code: str = "") -> None:
        self.send(b'{"error": "no"}', status, **({"X_Error_Code": code} if code else {}))

    def repository(self, name: str, revision: str = "main") -> dict[str, bytes] | None:
        """The files of a revision, if the client may see them."""
        found = self.hub.repositories.get(name)
        if found is None or (found.private and not self.knows_token):
            self.refuse(404 if self.knows_token else 401, "RepoNotFound")
        elif revision != "main" and revision not in found.commits:
            self.refuse(404, "RevisionNotFound")
        else:
            return found.files if revision == "main" else found.commits[revision]
        return None

    @property
    def knows_token(self) -> bool:
        return self.headers.get("Authorization") == f"Bearer {TOKEN}"

    def create(self) -> None:
        told = json.loads(self.body)
        name = f"{told['organization']}/{told['name']}"
        if not self.knows_token:
            return self.refuse(401)
        if name in self.hub.repositories:
            return self.tell({"error": "exists", "url": f"{self.hub.address}/{name}"}, 409)
        self.hub.add(name, {}).private = told.get("visibility") == "private"
        return self.tell({"url": f"{self.hub.address}/{name}"})

    def validate(self) -> None:
        card = json.loads(self.body)["content"]
        known = yaml.safe_load(card.split("---\n")[1])
        self.tell({"errors": [], "warnings": []} if known["library_name"] == "cooptions" else {"errors": ["?"]})

    def revision(self, name: str, revision: str) -> None:
        files = self.repository(name, revision)
        if files is not None:
            found = self.hub.repositories[name]
            self.tell({"id": name, "sha": found.head if revision == "main" else revision})

    def tree(self, name: str, revision: str) -> None:
        files = self.repository(name, revision)
        if files is None:
            return
        folders = {path.rpartition("/")[0] for path in files if "/" in path}
        listed = [{"type": "directory", "oid": "0" * 40, "size": 0, "path": path} for path in sorted(folders)]
        listed += [
            {"type": "file", "oid": hashlib.sha1(content).hexdigest(), "size": len(content), "path": path}
            for path, content in files.items()
        ]
        self.tell(self.hub.lists(listed))

    def preupload(self, name: str, revision: str) -> None:
        modes = [
            {"path": each["path"], "uploadMode": "lfs" if each["path"].endswith(LARGE) else "regular"}
            for each in json.loads(self.body)["files"]
        ]
        self.tell({"files": [each | {"shouldIgnore": False} for each in modes]})

    def batch(self, name: str) -> None:
        objects = [
            {**each, "actions": {"upload": {"href": f"{self.hub.address}/put/{each['oid']}"}}}
            for each in json.loads(self.body)["objects"]
        ]
        self.tell({"transfer": "basic", "objects": objects})

    def put(self, oid: str) -> None:
        assert hashlib.sha256(self.body).hexdigest() == oid
        self.hub.large[oid] = self.body
        self.send(b"")

    def commit(self, name: str, revision: str) -> None:
        if not self.knows_token:
            return self.refuse(403)
        repository = self.hub.repositories[name]
        files = dict(repository.files)
        for line in self.body.splitlines():
            told = json.loads(line)
            value = told["value"]
            if told["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif told["key"] == "lfsFile":
                files[value["path"]] = self.hub.large[value["oid"]]
            elif told["key"] == "deletedFile":
                del files[value["path"]]
        oid = repository.commit(files)
        return self.tell({"success": True, "commitOid": oid, "commitUrl": f"{self.hub.address}/{name}/commit/{oid}"})

    def resolve(self, name: str, revision: str, path: str) -> None:
        files = self.repository(name, revision)
        if files is None:
            return None
        if path not in files:
            return self.refuse(404, "EntryNotFound")
        if path.endswith(LARGE):
            address = f"{self.hub.address}/stored/{name}/{revision}/{path}"
            return self.send(b"", 302, Location=address)
        return self.send(files[path])

    def stored(self, name: str, revision: str, path: str) -> None:
        found = self.hub.repositories[name]
        self.send((found.files if revision == "main" else found.commits[revision])[path])


NAME, REVISION = "(?P<name>[^/]+/[^/]+)", "(?P<revision>[^/]+)"
ROUTES: dict[str, Callable[..., None]] = {
    "POST /api/repos/create": Answer.create,
    "POST /api/validate-yaml": Answer.validate,
    f"GET /api/models/{NAME}/revision/{REVISION}": Answer.revision,
    f"GET /api/models/{NAME}/tree/{REVISION}": Answer.tree,
    f"POST /api/models/{NAME}/preupload/{REVISION}": Answer.preupload,
    f"POST /{NAME}[.]git/info/lfs/objects/batch": Answer.batch,
    "PUT /put/(?P<oid>[0-9a-f]+)": Answer.put,
    f"POST /api/models/{NAME}/commit/{REVISION}": Answer.commit,
    f"GET /stored/{NAME}/{REVISION}/(?P<path>.+)": Answer.stored,
    f"GET /{NAME}/resolve/{REVISION}/(?P<path>.+)": Answer.resolve,
}


class Server(ThreadingHTTPServer):
    """Serves until it is closed, and ignores clients that disconnect."""

    daemon_threads = True

    def handle_error(self, *words: object) -> None:
        """Nothing on the terminal."""


def serve() -> tuple[Hub, Server]:
    """Start an empty hub."""
    hub = Hub()
    server = Server(("127.0.0.1", 0), type("Answer", (Answer,), {"hub": hub}))
    hub.address = f"http://127.0.0.1:{server.server_address[1]}"
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    return hub, server
