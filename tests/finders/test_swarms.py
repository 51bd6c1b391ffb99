"""Public swarms: fetched by pinned hashes, and those of the package."""

import gzip
import hashlib
import http.client
import io

import numpy as np
import pytest

from pike_mixing.errors import InputError
from pike_mixing.finders import swarm_table
from pike_mixing.swarms import catalogue
from pike_mixing.swarms.catalogue import PublicSwarm, TablePair
from pike_mixing.swarms.fetch import download_swarm

RATIOS = "index,mix_en,mix_de\n1,0.5,0.5\n2,0.25,0.75\n"
METRICS = "index,m/en_val,m/de_val\n2,3.5,1.5\n1,3,2\n"


@pytest.fixture
def mirror(tmp_path, monkeypatch):
    """A folder of a repository's files, and the entry of the catalogue that pins them."""
    folder = tmp_path / "mirror"
    folder.mkdir()
    files = {"LICENSE": "take it", "a.csv": RATIOS, "b.csv": METRICS}
    for name, text in files.items():
        (folder / name).write_text(text)
    swarm = PublicSwarm(
        about="two runs",
        repository="some/where",
        revision="0" * 40,
        licence="MIT",
        parts=(TablePair("a.csv", "b.csv", {"parameters": "1e6"}),),
        ratio_prefix="mix_",
        metric_prefix="m/",
        metric_suffix="_val",
    )
    monkeypatch.setitem(catalogue.TABLES, "two", swarm)
    sums = tmp_path / "SHA256SUMS"
    digests = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in files.items()}
    sums.write_text("".join(f"{digest}  two/{name}\n" for name, digest in digests.items()))
    monkeypatch.setattr(catalogue, "SHA256SUMS", sums)
    return folder


def test_a_swarm_is_fetched_into_the_one_form_with_its_licence(mirror, said, tmp_path):
    path = tmp_path / "two.csv.gz"
    fetched = said("swarms", "two", "--to", tmp_path, "--from", mirror.as_uri())
    assert fetched.strip() == str(path)
    assert (tmp_path / "two.LICENSE").read_text() == "take it"
    swarm = swarm_table.read_swarm(path)
    assert (swarm.domains, swarm.losses) == (("en", "de"), ("en", "de"))
    assert [run.loss_K.tolist() for run in swarm.runs] == [[3, 2], [3.5, 1.5]]
    assert [run.parameters for run in swarm.runs] == [1e6, 1e6]
    first = path.read_bytes()
    assert download_swarm("two", tmp_path, mirror.as_uri()).read_bytes() == first
    told = said("swarms", "two", "--to", path, "--from", mirror.as_uri(), code=2)
    assert "give another folder" in told


def test_another_file_is_refused_and_nothing_is_written(mirror, tmp_path):
    (mirror / "b.csv").write_text(METRICS.replace("3.5", "3.6"))
    with pytest.raises(InputError, match=r"b\.csv has the SHA-256 .* it is another file"):
        download_swarm("two", tmp_path / "out", mirror.as_uri())
    (mirror / "a.csv").unlink()
    with pytest.raises(InputError, match=r"a\.csv cannot be had: .*--from file:///folder"):
        download_swarm("two", tmp_path / "out", mirror.as_uri())
    assert not (tmp_path / "out").exists()


def test_an_answer_that_breaks_off_is_refused(mirror, tmp_path, monkeypatch):
    class Cut(io.BytesIO):
        def read(self, *_):
            raise http.client.IncompleteRead(b"half")

    monkeypatch.setattr("urllib.request.urlopen", lambda *_, **__: Cut())
    with pytest.raises(InputError, match=r"cannot be had: IncompleteRead.*try again later"):
        download_swarm("two", tmp_path / "out", mirror.as_uri())


def test_a_swarm_that_nobody_has_pinned_is_refused_by_name(tmp_path, monkeypatch):
    monkeypatch.setitem(catalogue.TABLES, "new", catalogue.TABLES["regmix"])
    with pytest.raises(InputError, match="'new': nobody has recorded the SHA-256 of L"):
        download_swarm("new", tmp_path)
    with pytest.raises(InputError, match="swarm: 'regmx' is unknown: did you mean 'regmix'"):
        download_swarm("regmx", tmp_path)


def test_the_list_says_what_is_there(said):
    listed = said("swarms")
    assert "regmix (in the package, MIT)" in listed
    assert "olmix-dclm (to fetch, Apache-2.0)" in listed


@pytest.mark.slow
@pytest.mark.parametrize(
    ("where", "runs", "tokens"),
    [
        ({"parameters": "1e6", "set": "train"}, 512, 1e9),
        ({"parameters": "1000000", "set": "test"}, 256, 1e9),
        ({"parameters": "6e7"}, 256, 1e9),
        ({"parameters": "1e9"}, 64, 2.5e10),
    ],
)
def test_the_packages_swarm_has_its_runs(where, runs, tokens):
    for name in catalogue.PACKAGED:
        path = catalogue.packaged_table_or_path(catalogue.Path(name))
        assert (path.parent / f"{name}.LICENSE").is_file()
    swarm = swarm_table.read_swarm(path, where=where)
    assert (len(swarm.runs), len(swarm.domains), len(swarm.losses)) == (runs, 17, 13)
    assert {run.tokens for run in swarm.runs} == {tokens}
    # 0.88 GiB of Enron's mail, 4 bytes a token.
    text = dict(zip(swarm.domains, swarm.runs[0].available_K, strict=True))
    assert text["enron_emails"] == 236e6
    weights_NxK, loss_NxM = swarm.weights_and_losses()
    np.testing.assert_allclose(weights_NxK.sum(axis=1), 1)
    assert (loss_NxM.min(), loss_NxM.max()) > (0.5, 2)


def pair(tmp_path, ratios, metrics):
    (tmp_path / "ratios.csv").write_text(ratios)
    (tmp_path / "metrics.csv").write_text(metrics)
    return tmp_path / "ratios.csv", tmp_path / "metrics.csv"


@pytest.mark.parametrize("key", ["run", "run_id"])
def test_a_pair_in_olmixs_form_is_joined_by_its_run(said, tmp_path, key):
    # Weights that were rounded sum to 1 within a hundredth, that hundredth included.
    ratios, metrics = pair(
        tmp_path,
        f",{key},name,index,web,code\n0,11,x-0,0,0.7425,0.2475\n1,22,x-1,1,0.505,0.505\n",
        f",{key},name,index,easy,hard\n0,22,x-1,1,2,4\n1,11,x-0,0,1,3\n2,33,x-2,2,9,9\n",
    )
    swarm = swarm_table.read_swarm(ratios, ["hard"], metrics=metrics)
    assert swarm.domains == ("web", "code")
    weights = [run.weights_K.tolist() for run in swarm.runs]
    assert weights == [pytest.approx([0.75, 0.25]), pytest.approx([0.5, 0.5])]
    assert [run.loss_K.tolist() for run in swarm.runs] == [[3], [4]]
    with pytest.raises(InputError, match=r"the second file of a pair \(--metrics\)"):
        swarm_table.read_swarm(ratios)
    # What comes next is named as in the first file.
    command = ["design", ratios, "--metrics", metrics, "--count", "1"]
    assert said(*command).startswith("web,code\n")


@pytest.mark.parametrize("total", [0.989, 0.99, 1.01, 1.011])
def test_weights_of_two_digits_are_a_mixture(write, total):
    rows = [[0.33, 0.33, total - 0.66, 1], [0.5, total - 0.5, 0, 2]]
    path = write(["weight/a", "weight/b", "weight/c", "loss/l"], rows)
    if 0.99 <= total <= 1.01:
        assert swarm_table.read_swarm(path).runs[0].weights_K.sum() == pytest.approx(1)
        return
    with pytest.raises(InputError, match=r"row 1: the weights sum to"):
        swarm_table.read_swarm(path)


def test_a_pair_is_read_by_the_names_of_its_columns_as_one_table_is(said, tmp_path):
    ratios, metrics = pair(
        tmp_path,
        "run,size,w_a,w_b\nr,10,1,0\ns,20,0,1\nt,20,0.5,0.5\n",
        "run,l_x,acc_x\nt,3,5\ns,2,6\nr,1,7\n",
    )
    names, where = {"weight": "w_*", "loss": "l_*"}, {"size": "20"}
    for losses in (None, ["x"], ["l_x"]):
        swarm = swarm_table.read_swarm(ratios, losses, metrics=metrics, where=where, **names)
        assert (swarm.domains, swarm.losses) == (("a", "b"), ("x",))
        weights_NxK, loss_NxM = swarm.weights_and_losses()
        assert (weights_NxK.tolist(), loss_NxM.tolist()) == ([[0, 1], [0.5, 0.5]], [[2], [3]])
    for wrong in ({"weight": "nonsense_*"}, {"loss": "nonsense_*"}):
        with pytest.raises(InputError, match=r"0 column\(s\) are named nonsense_\*"):
            swarm_table.read_swarm(ratios, metrics=metrics, **names | wrong)
    command = ["design", ratios, "--metrics", metrics, "--count", "1"]
    given = ["--weight-columns", "w_*", "--loss-columns", "l_*"]
    assert said(*command, *given).startswith("w_a,w_b\n")
    # Usual names need no pattern.
    pair(tmp_path, "run,weight/a,weight/b\nr,1,0\ns,0,1\n", "run,loss/x,acc\nr,1,7\ns,2,6\n")
    assert swarm_table.read_swarm(ratios, metrics=metrics).losses == ("x",)
    assert said(*command).startswith("weight/a,weight/b\n")


@pytest.mark.parametrize(
    ("ratios", "metrics", "message"),
    [
        ("run,a,b\nx,1,0\n", "run,l\ny,1\n", "run 'x' of ratios.csv is missing"),
        ("run,a,b\nx,1,0\nx,0,1\n", "run,l\nx,1\n", "run 'x' is there twice"),
        ("run,a,b\nx,1,0\n", "name,l\nx,1\n", "both need a column run or run_id or index"),
    ],
)
def test_a_pair_that_cannot_be_joined_is_refused(tmp_path, ratios, metrics, message):
    one, other = pair(tmp_path, ratios, metrics)
    with pytest.raises(InputError, match=message):
        swarm_table.read_swarm(one, metrics=other)


def test_columns_have_the_names_that_their_table_gives_them(tmp_path):
    path = tmp_path / "s.csv"
    path.write_text(
        "weight_a,weight_b,model_size,n_tokens,a_loss,b_loss\n"
        "1,0,1e8,2e9,3,4\n0.5,0.5,3e8,2e9,2,\n0,1,6e8,4e9,1,3\n"
    )
    names = {"weight": "weight_*", "loss": "*_loss"}
    sizes = {"parameters": "model_size", "tokens": "n_tokens"}
    swarm = swarm_table.read_swarm(
        path, ["a_loss"], where={"model_size": "1e8..3e8"}, sizes=sizes, **names
    )
    assert (swarm.domains, swarm.losses) == (("a", "b"), ("a",))
    assert [(r.parameters, r.tokens) for r in swarm.runs] == [(1e8, 2e9), (3e8, 2e9)]
    with pytest.raises(InputError, match=r"row 2: b_loss is nothing, .*--skip-unmeasured"):
        swarm_table.read_swarm(path, **names)
    assert len(swarm_table.read_swarm(path, skip_unmeasured=True, **names).runs) == 2
    with pytest.raises(InputError, match="no name with one"):
        swarm_table.read_swarm(path, weight="weight_")
    with pytest.raises(InputError, match="sizes: 'modelsize' is unknown"):
        swarm_table.read_swarm(path, ["a"], sizes={"parameters": "modelsize"}, **names)


@pytest.mark.parametrize(
    ("where", "rows"),
    [
        ({"n": "1000000"}, ["row 00001", "row 00002"]),
        ({"n": "1..5"}, ["row 00003"]),
        ({"set": "x", "final": "true"}, ["row 00001"]),
    ],
)
def test_rows_are_chosen_by_numbers_ranges_and_texts(tmp_path, where, rows):
    path = tmp_path / "s.csv.gz"
    with gzip.open(path, "wt") as file:
        file.write("set,n,final,weight/a,weight/b,loss/l\n")
        file.write("x,1e6,true,1,0,1\ny,1000000,true,0,1,2\nx,2,false,0.5,0.5,3\n")
    assert [run.name for run in swarm_table.read_swarm(path, where=where).runs] == rows
    with pytest.raises(InputError, match="no row has"):
        swarm_table.read_swarm(path, where={"set": "z"})
    with pytest.raises(InputError, match="where: 'sett' is unknown: did you mean 'set'"):
        swarm_table.read_swarm(path, where={"sett": "x"})
