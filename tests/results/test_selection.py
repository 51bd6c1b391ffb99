import subprocess
import sys

import pytest

from pike_mixing.errors import InputError
from pipeline.results.selection import connect, rows


@pytest.fixture
def connection(made):
    connection = connect(made / "pike.duckdb")
    yield connection
    connection.close()


GUESSES = {"uniform guess", "unigram counts", "entropy floor"}


@pytest.mark.parametrize(
    ("view", "selection", "column", "values"),
    [
        ("table_costs", {"scenarios": ["languages"]}, "scenario", {"languages"}),
        # Rows of no method stay when methods are selected.
        ("table_perplexity", {"methods": ["pike"]}, "row_label", {"pike", *GUESSES}),
        # Any column of the view can be selected.
        ("table_gradients", {"quantity": ["variance"]}, "quantity", {"variance"}),
        # A method without rows in the view is no mistake.
        ("table_gradients", {"methods": ["mix"]}, "method", set()),
    ],
)
def test_selected_rows_remain_in_the_order_of_the_view(connection, view, selection, column, values):
    found = rows(connection, view, selection, "x")
    assert {row[column] for row in found} == values
    assert found == [row for row in rows(connection, view, {}, "x") if row in found]


@pytest.mark.parametrize(
    ("view", "selection", "message"),
    [
        ("table_costs", {"methods": ["pik"]}, "x.selection.methods: 'pik' is unknown: did you"),
        ("table_costs", {"method_name": ["pike"]}, "x.selection: 'method_name' is unknown"),
        ("table_costs", {"methods": "pike"}, "'pike' is not a list"),
        ("table_cost", {}, "x.query: 'table_cost' is unknown: did you mean 'table_costs'"),
        ("table_costs", {"seeds": [0]}, "over all runs of the database"),
    ],
)
def test_mistakes_are_named_where_they_were_made(connection, view, selection, message):
    with pytest.raises(InputError, match=message):
        rows(connection, view, selection, "x")


def test_seeds_may_be_selected_where_the_database_has_no_others(connection):
    assert rows(connection, "table_costs", {"seeds": [0, 1, 2]}, "x")


def test_nobody_is_told_to_delete_a_file(tmp_path):
    (tmp_path / "passwd").write_text("root:x:0:0\n" * 1000)
    with pytest.raises(InputError, match=r"passwd cannot be opened \(.*\): check the path$"):
        connect(tmp_path / "passwd")


def test_a_database_that_another_process_writes_is_waited_for(tmp_path):
    code = (
        "import duckdb, sys; held = duckdb.connect(sys.argv[1]); print('held', flush=True); "
        "sys.stdin.read()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", code, tmp_path / "pike.duckdb"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with holder:
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(InputError, match=r"lock.*: wait until that process has closed it$"):
            connect(tmp_path / "pike.duckdb")
        holder.stdin.close()
