"""A small hub on loopback: what the Hub's clients ask of a repository, and faults at will.

It answers revision info, tree and resolve (HEAD, GET, ranges) for repositories that are kept in
memory. A fault is asked for by name, once per request that it is to spoil.
"""

import contextlib
import hashlib
import json
import socket
import threading
import urllib.parse
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

COMMIT = "0123456789abcdef0123456789abcdef01234567"
LARGE = 256
"""Files of so many bytes count as stored by LFS, with a SHA-256."""
PAGE = 3
"""Entries of a page of a tree's listing."""

FAULTS = ("cut", "429", "503")


class Hub:
    """Repositories by `datasets/owner/name` or `owner/name`, and the faults still to come."""

    def __init__(self):
        self.repositories = {}
        self.faults = []
        self.spoils = lambda method, path: "/resolve/" in path
        """Which requests a fault may spoil."""
        self.asked = Counter()
        """Requests by method and path."""
        self.sent = Counter()
        """Bytes of bodies sent, by file."""
        self.lock = threading.Lock()
        handler = type("Handler", (_Handler,), {"hub": self})
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def fault(self, method, path):
        with self.lock:
            self.asked[method, path] += 1
            if self.faults and self.spoils(method, path):
                return self.faults.pop(0)
        return None


@contextlib.contextmanager
def running():
    hub = Hub()
    thread = threading.Thread(target=hub.server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield hub
    finally:
        hub.server.shutdown()
        thread.join()
        hub.server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        """Nothing: the tests' own output is to stay readable."""

    def _answer(self):
        path, _, query = self.path.partition("?")
        fault = self.hub.fault(self.command, path)
        if fault in ("429", "503"):
            waits = {"retry-after": "0"} if fault == "429" else {}
            return self._send(int(fault), b"not now", waits)
        parts = urllib.parse.unquote(path).strip("/").split("/")
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            if parts[0] == "api":
                self._api(parts[1:], urllib.parse.parse_qs(query))
            else:
                self._resolve(parts, fault)
        return None

    do_HEAD = do_GET = _answer

    def _repository(self, parts):
        """Files of a repository, its id and what follows it in the path."""
        size = 3 if parts[0] == "datasets" else 2
        parts = parts[1:] if parts[0] == "models" else parts
        name, rest = "/".join(parts[:size]), parts[size:]
        return self.hub.repositories.get(name), name.removeprefix("datasets/"), rest

    def _api(self, parts, query):
        files, name, rest = self._repository(parts)
        if files is None:
            return self._send(404, b"{}", {"X-Error-Code": "RepoNotFound"})
        what, revision = (*rest, "info", "main")[:2] if rest else ("info", "main")
        if revision not in (COMMIT, "main"):
            return self._send(404, b"{}", {"X-Error-Code": "RevisionNotFound"})
        if what in ("info", "revision"):
            siblings = [{"rfilename": path} for path in files]
            return self._json({"id": name, "sha": COMMIT, "siblings": siblings, "private": False})
        assert what == "tree", parts
        folder = "/".join(rest[2:])
        inside = f"{folder}/" if folder else ""
        found = [path for path in files if path.startswith(inside)]
        recursive = query.get("recursive", ["false"])[0].lower() == "true"
        folders = {
            inside + "/".join(rest[:n])
            for path in found
            for rest in [path[len(inside) :].split("/")]
            for n in range(1, len(rest))
        }
        names = sorted({*found, *folders})
        if not recursive:
            names = [n for n in names if "/" not in n[len(inside) :]]
        if folder and not found:
            return self._send(404, b"{}", {"X-Error-Code": "EntryNotFound"})
        start = int(query.get("cursor", ["0"])[0])
        further = {}
        if start + PAGE < len(names):
            arguments = {k: v[0] for k, v in query.items()} | {"cursor": start + PAGE}
            place = self.hub.url + self.path.partition("?")[0]
            further["Link"] = f'<{place}?{urllib.parse.urlencode(arguments)}>; rel="next"'
        return self._json([_entry(files, n) for n in names[start : start + PAGE]], further)

    def _resolve(self, parts, fault):
        files, _, rest = self._repository(parts)
        if files is None:
            return self._send(404, b"", {"X-Error-Code": "RepoNotFound"})
        if rest[1] not in (COMMIT, "main"):
            return self._send(404, b"", {"X-Error-Code": "RevisionNotFound"})
        path = "/".join(rest[2:])
        if path not in files:
            return self._send(404, b"", {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": COMMIT})
        content = files[path]
        etag = f'"{_entry(files, path).get("lfs", {}).get("oid") or _blob(content)}"'
        headers = {"ETag": etag, "X-Repo-Commit": COMMIT, "Accept-Ranges": "bytes"}
        status, asked = 200, self.headers.get("range")
        if asked:
            first, _, last = asked.removeprefix("bytes=").partition("-")
            begin, end = int(first), min(int(last or len(content) - 1) + 1, len(content))
            headers["Content-Range"] = f"bytes {begin}-{end - 1}/{len(content)}"
            status, content = 206, content[begin:end]
        self.hub.sent[path] += len(content)
        return self._send(status, content, headers, fault)

    def _json(self, value, headers=None):
        return self._send(200, json.dumps(value).encode(), headers)

    def _send(self, status, content, headers=None, fault=None):
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command == "HEAD":
            return
        self.wfile.write(content[: len(content) // 2] if fault == "cut" else content)
        if fault == "cut":
            self.wfile.flush()
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)


def _blob(content):
    """Git's id of a file."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def _entry(files, path):
    if path not in files:
        return {"type": "directory", "path": path, "oid": "0" * 40, "size": 0}
    content = files[path]
    entry = {"type": "file", "path": path, "oid": _blob(content), "size": len(content)}
    if len(content) >= LARGE:
        oid = hashlib.sha256(content).hexdigest()
        entry["lfs"] = {"oid": oid, "size": len(content), "pointerSize": 134}
    return entry
