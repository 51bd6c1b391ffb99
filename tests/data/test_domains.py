import gzip
import json
import random
from importlib.util import find_spec

import pytest
import yaml
from downloads import download, lines, manifest

from pike_mixing.errors import InputError
from pipeline.__main__ import main
from pipeline.data.document_clusters import cluster_documents, write_clusters

# Imported by the process alone that runs these tests: it takes seconds.
absent = pytest.mark.skipif(find_spec("sklearn") is None, reason="needs the extra `domains`")
pytestmark = [pytest.mark.slow, absent]

TOPICS = {
    "sea": "ship sail harbour wave anchor captain tide deck storm island",
    "kitchen": "flour butter oven sugar recipe spoon dough salt boil taste",
    "law": "court judge appeal statute verdict clause witness contract plea trial",
}
SIZES = {"sea": 30, "kitchen": 20, "law": 10}


@pytest.fixture
def mixed(tmp_path):
    """A file of documents of three topics in random order; their ids tell the topic."""
    draw = random.Random(0)
    records = [
        {"id": f"{topic}{n}", "text": " ".join(draw.choices(words.split(), k=30)) + " and the"}
        for topic, words in TOPICS.items()
        for n in range(SIZES[topic])
    ]
    draw.shuffle(records)
    path = tmp_path / "mixed.jsonl"
    path.write_bytes(lines(*records))
    return path


def topics(path):
    return {json.loads(line)["id"].rstrip("0123456789") for line in gzip.open(path, "rt")}


def test_topics_come_apart_and_become_sources(mixed, tmp_path):
    out = tmp_path / "clusters"
    told = write_clusters([mixed], out=out, clusters=3)
    names = ["cluster-1", "cluster-2", "cluster-3"]
    assert [topics(out / f"{n}.jsonl.gz") for n in names] == [{"sea"}, {"kitchen"}, {"law"}]
    assert [line.split()[:2] for line in told.splitlines()[1:4]] == [
        [n, str(size)] for n, size in zip(names, SIZES.values(), strict=True)
    ]
    # Its eight words are of its topic.
    for line, words in zip(told.splitlines()[1:4], TOPICS.values(), strict=True):
        assert set(line.split()[3:]) <= set(words.split())
    asked = yaml.safe_load((out / "domains.yaml").read_text())["sources"]
    assert list(asked) == names
    assert manifest(download(tmp_path, asked["cluster-3"]))["documents"] == 10


@pytest.mark.parametrize(
    ("one", "other", "blank"),
    [
        # Ten characters each, in lines without blanks.
        (range(0x4E00, 0x4E0A), range(0x4E10, 0x4E1A), ""),
        # The same ten consonants, each before the vowel sign I or the vowel sign U.
        (*([f"{chr(0x915 + n)}{vowel}" for n in range(10)] for vowel in "\u093f\u0941"), " "),
    ],
    ids=["Chinese", "Hindi"],
)
def test_scripts_are_cut_into_their_words(one, other, blank):
    draw = random.Random(0)
    kinds = [[w if isinstance(w, str) else chr(w) for w in kind] for kind in (one, other)]
    texts = [blank.join(draw.choices(kind, k=12)) for kind in kinds for _ in range(20)]
    place_N, terms_C = cluster_documents(iter(texts), 2, 0)
    assert len({*place_N[:20].tolist()}) == len({*place_N[20:].tolist()}) == 1
    assert place_N[0] != place_N[20]
    assert all(set(terms) <= set(kinds[0]) or set(terms) <= set(kinds[1]) for terms in terms_C)


def test_the_same_text_makes_the_same_bytes(mixed, tmp_path):
    outs = [tmp_path / name for name in ("one", "two")]
    for out in outs:
        write_clusters([mixed], out=out, clusters=2)
    for name in ("cluster-1.jsonl.gz", "cluster-2.jsonl.gz"):
        one, other = ((out / name).read_bytes() for out in outs)
        assert one == other
        # The header's time of writing: none, or two calls in one second would hide it.
        assert one[4:8] == bytes(4)


def test_what_cannot_be_clustered_is_refused(mixed, tmp_path, capsys):
    out = tmp_path / "clusters"
    with pytest.raises(InputError, match=r"60 documents are too few for 31 clusters"):
        write_clusters([mixed], out=out, clusters=31)
    (tmp_path / "one.txt").write_text("alpha\nbeta\n")
    with pytest.raises(InputError, match=r"cannot be told apart by words .*--documents paragraphs"):
        write_clusters([tmp_path / "one.txt"], out=out, clusters=2, documents="lines")
    twice = [json.dumps({"text": text}) for text in ("one two three", "four five six") * 10]
    (tmp_path / "alike.jsonl").write_text("\n".join(twice))
    with pytest.raises(InputError, match=r"words of 2 kinds only, too few for 5 clusters"):
        write_clusters([tmp_path / "alike.jsonl"], out=out, clusters=5)
    assert not out.exists()
    command = ["domains", str(mixed), "--out", str(mixed), "--clusters", "2"]
    assert main(command) == 2
    assert "mixed.jsonl" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main([*command, "--seed", str(2**32)])
    assert "4294967296 is above 4,294,967,295" in capsys.readouterr().err
