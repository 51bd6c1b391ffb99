"""The profile `kubernetes` with a stand-in for the cluster: its API, whose pods are processes.

A pod has a working folder of its own and finds the volume under its path. Nothing is known of real
pods but what the plugin asks for.
"""

import json
import re
import shutil
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import yaml
from repository import git

KUBECONFIG = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "standin",
    "contexts": [{"name": "standin", "context": {"cluster": "standin", "user": "standin"}}],
    "users": [{"name": "standin", "user": {}}],
}


class Cluster:
    """Jobs by name, each one process in a folder of its own."""

    def __init__(self, folder):
        self.folder = folder
        self.asked, self.running = {}, {}
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def stop(self):
        self.server.shutdown()
        for process in self.running.values():
            process.kill()
            process.wait()

    def begin(self, body):
        name, spec = body["metadata"]["name"], body["spec"]["template"]["spec"]
        (container,) = spec["containers"]
        place = self.folder / name
        place.mkdir(parents=True)
        with (place / "log").open("w") as log:
            self.running[name] = subprocess.Popen(
                [*container["command"], *container["args"]], cwd=place, stdout=log, stderr=log
            )
        self.asked[name] = {
            "image": container["image"],
            "volumes": [m["mountPath"] for m in container["volumeMounts"]],
            **container["resources"],
        }

    def status(self, name):
        code = self.running[name].poll()
        if code is None:
            return {"active": 1}
        return {"failed": 1} if code else {"succeeded": 1}

    def logs(self):
        return "".join(f"\n{p}\n{p.read_text()}" for p in sorted(self.folder.glob("*/log")))

    def _handler(cluster):  # noqa: N805 - `self` is the handler's
        class Handler(BaseHTTPRequestHandler):
            def answer(self, values):
                text = json.dumps(values).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if self.path.endswith("/jobs"):
                    cluster.begin(body)
                self.answer(body)

            def do_GET(self):
                found = re.search(r"/jobs/([^/]+)/status", self.path)
                self.answer({"status": cluster.status(found[1])} if found else {"items": []})

            def do_DELETE(self):
                self.answer({})

            def log_message(self, *_):
                """Nothing: the tests' own output is to stay readable."""

        return Handler


@pytest.fixture
def cluster(fresh, tmp_path):
    """A cluster whose pods see this machine's programs, and the project as their volume."""
    pytest.importorskip(
        "snakemake_executor_plugin_kubernetes", reason="make setup EXTRAS=kubernetes"
    )
    pytest.importorskip("snakemake_storage_plugin_fs", reason="make setup EXTRAS=kubernetes")
    if not shutil.which("rsync"):
        pytest.skip("rsync is not installed")
    config = tmp_path / "kubeconfig"
    made = Cluster(tmp_path / "pods")
    server = f"http://127.0.0.1:{made.server.server_port}"
    config.write_text(
        yaml.safe_dump(
            {**KUBECONFIG, "clusters": [{"name": "standin", "cluster": {"server": server}}]}
        )
    )
    made.config = config
    yield made
    made.stop()


def test_pods_train_and_evaluate_a_run(fresh, cluster, tmp_path):
    fresh.configure(fewer)
    on_volume(fresh, tmp_path / "volume")
    folder = fresh.path("results/runs/words/tiny/pike/seed0")
    done = fresh.run(
        *("snakemake", "--profile", "workflow/profiles/kubernetes"),
        *("--seconds-between-status-checks", "1"),
        *("--", folder.relative_to(fresh.root) / "evaluations" / "manifest.json"),
        environment={"KUBECONFIG": str(cluster.config)},
        anew=True,
        timeout=1800,
    )
    assert done.returncode == 0, done.stdout + cluster.logs() + fresh.logs()
    assert fresh.path("results/runs/words/tiny/pike/seed0/evaluations/step12").is_dir()
    assert {asked["image"] for asked in cluster.asked.values()} == {
        "registry.example.org/pike:latest"
    }
    # Pods that train or evaluate ask for one GPU, and get no more.
    gpus = [asked["limits"].get("nvidia.com/gpu") for asked in cluster.asked.values()]
    assert gpus.count("1") == 2
    # The same run on this machine.
    weights = fresh.weights()["pike"]
    shutil.rmtree(folder / "checkpoints")
    corpora = ("--corpora", "results/corpora/letters", "--threads", "1")
    again = fresh.pike("pretrain", folder / "run.json", *corpora)
    assert again.returncode == 0, again.stdout
    assert fresh.weights()["pike"] == weights


def fewer(config):
    """Two domains, one of them the user's own files, and one run."""
    names = ["easy", "notes"]
    config["scenarios"]["words"]["domains"] = names
    config["tokenizers"]["letters"]["sources"] = names
    config["methods"] = {"pike": config["methods"]["pike"]}
    config["runs"] = [{**config["runs"][0], "methods": ["pike"]}]
    config["tables"], config["figures"] = {"perplexity": {}}, {}


def on_volume(project, volume):
    """The profile, filled in: the clone is the project, and the volume's path another."""
    path = project.path("workflow/profiles/kubernetes/config.yaml")
    text = path.read_text(encoding="utf-8").replace("/pike/clone", str(project.root))
    text = text.replace(".snakemake/storage/fs/pike", f".snakemake/storage/fs{volume}")
    text = text.replace("/pike/declared", f"{volume}/declared")
    text = text.replace("pike:/pike", f"pike:{volume}").replace("wait: 60", "wait: 5")
    path.write_text(text, encoding="utf-8")
    # Files of one's own are declared, too, and the stamps of jobs.
    (volume / "declared/.snakemake").mkdir(parents=True)
    standing = project.path(".snakemake/standing")
    standing.mkdir(parents=True)
    (volume / "declared/.snakemake/standing").symlink_to(standing)
    (volume / "declared" / "text").symlink_to(project.path("text"))
    # What pods are sent is what git knows.
    for command in ("init -q", "add -A", "commit -qm x"):
        git(project.root, *command.split())
