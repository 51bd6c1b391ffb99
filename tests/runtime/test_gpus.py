"""With real processes, and GPUs that are names: nothing here asks CUDA for anything."""

import multiprocessing
import os
import tempfile
from collections import Counter

import pytest
from edits import program

from pike_mixing.errors import InputError
from pipeline.runtime import devices, environment, pick_device


def take(names, folder, told):
    # Without a driver of this machine's own, unless a test makes one, and without others' locks.
    os.environ |= {"PATH": folder, pick_device.VISIBLE: names}
    tempfile.tempdir = folder
    pick_device.WAIT_SECONDS = 0.02
    told.send((pick_device.claim_gpu_if_several(), os.environ[pick_device.VISIBLE]))
    told.recv()


@pytest.fixture
def start(tmp_path):
    """Starts a process that takes a GPU of four and holds it; what it says, and the process."""
    # Forks have torch loaded, which takes a new process a second.
    forks, processes = multiprocessing.get_context("fork"), []

    def begin(names="0, 1,2,3"):
        ours, theirs = forks.Pipe()
        processes.append(forks.Process(target=take, args=(names, str(tmp_path), theirs)))
        processes[-1].start()
        return ours, processes[-1]

    yield begin
    for process in processes:
        process.kill()
        process.join()


def test_processes_that_start_together_take_different_gpus(start):
    started = [start() for _ in range(4)]
    answers = [told.recv() for told, _ in started]
    assert Counter(taken for taken, _ in answers) == Counter("0123")
    # Each shows itself the one that it took, and no other.
    assert all(taken == shown for taken, shown in answers)


@pytest.mark.slow
def test_one_more_waits_for_a_gpu_and_takes_that_of_a_killed_process(start):
    (first, _), (second, process) = start("a,b"), start("a,b")
    first.recv()
    (taken, _), (third, _) = second.recv(), start("a,b")
    assert not third.poll(0.5)
    process.kill()
    assert third.recv() == (taken, taken)


def test_a_single_gpu_is_shared_and_none_is_no_matter(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for names in ("GPU-0a1b", ""):
        monkeypatch.setenv(pick_device.VISIBLE, names)
        assert pick_device.claim_gpu_if_several() is None
        assert os.environ[pick_device.VISIBLE] == names
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("built", "is_cpu"),
    [
        ("cuda: Optional[str] = None\nhip: Optional[str] = None\n", True),
        ("cuda: Optional[str] = '12.8'\nhip: Optional[str] = None\n", False),
        ("cuda: Optional[str] = None\nhip: Optional[str] = '6.4'\n", False),
        (None, False),
    ],
)
def test_a_torch_of_the_cpu_is_known_without_importing_it(tmp_path, monkeypatch, built, is_cpu):
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("raise RuntimeError", encoding="utf-8")
    if built is not None:
        (tmp_path / "torch" / "version.py").write_text(built, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    assert environment.is_torch_cpu_only() == is_cpu


@pytest.fixture
def driver(tmp_path, monkeypatch):
    """Makes an nvidia-smi that answers the query of UUIDs."""
    monkeypatch.setenv("PATH", str(tmp_path))

    def make(*lines, code=0):
        shown = [f"echo '{line}'" for line in lines]
        query = "--query-gpu=index,uuid --format=csv,noheader"
        program("nvidia-smi", f'[ "$*" = "{query}" ] || exit 9', *shown, f"exit {code}")(tmp_path)

    return make


def test_the_driver_is_asked_where_the_environment_says_nothing(driver, monkeypatch):
    driver("a warning", "0, GPU-1", "1, GPU-2")
    monkeypatch.delenv(pick_device.VISIBLE, raising=False)
    assert pick_device.visible_gpus() == ["GPU-1", "GPU-2"]
    driver("0, GPU-1", code=9)
    assert pick_device.visible_gpus() == []


def test_a_gpu_is_one_whether_it_is_named_by_number_or_uuid(driver, start):
    driver("0, GPU-1", "1, GPU-2")
    started = [start(names) for names in ("0,1", "GPU-1,GPU-2")]
    taken = [told.recv()[0] for told, _ in started]
    assert sorted({"0": "GPU-1", "1": "GPU-2"}.get(name, name) for name in taken) == [
        "GPU-1",
        "GPU-2",
    ]


def test_more_processes_of_a_run_than_gpus_are_refused(monkeypatch):
    monkeypatch.setenv(pick_device.VISIBLE, "a,b")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "3")
    with pytest.raises(InputError, match=r"3 processes .* for 2 visible GPUs: .*per-node 2"):
        pick_device.claim_gpu_if_several()


GiB = 2**30


@pytest.mark.parametrize(
    ("planned", "name", "memory", "another"),
    [
        # Names and memories as drivers give them; A100s are sold with 40 and 80 GB.
        ("a100-80gb", "NVIDIA A100-SXM4-80GB", 79.2, False),
        ("a100-80gb", "NVIDIA A100-SXM4-40GB", 39.4, True),
        ("a100-40gb", "NVIDIA A100-SXM4-80GB", 79.2, False),
        ("a100-80gb", "NVIDIA A100-SXM4-80GB MIG 3g.40gb", 39.3, True),
        ("a100-80gb", "NVIDIA H100 80GB HBM3", 79.1, True),
        ("h200", "NVIDIA GH200 480GB", 94.5, True),
    ],
)
def test_a_gpu_of_another_kind_than_planned_is_named(
    monkeypatch, caplog, planned, name, memory, another
):
    monkeypatch.setattr(pick_device, "claim_device", lambda kind: kind)
    monkeypatch.setattr(devices, "describe_device", lambda place: f"cuda: {name}")
    monkeypatch.setattr(devices, "gpu_memory_bytes", lambda place: int(memory * GiB))
    pick_device.claim_gpu_and_warn_of_other(planned, "cuda")
    told = f"planned for accelerator: {planned}, and this GPU is {name} with {memory:.0f} GiB: "
    assert [message.startswith(told) for message in caplog.messages] == [True] * another


def test_jobs_without_a_planned_gpu_look_at_none(monkeypatch):
    monkeypatch.setattr(
        pick_device, "claim_device", lambda kind: pytest.fail("a GPU was asked for")
    )
    for planned, device in (("cpu", "auto"), ("cpu", "cuda"), ("tpu-v4", "xla"), ("h100", "cpu")):
        pick_device.claim_gpu_and_warn_of_other(planned, device)
