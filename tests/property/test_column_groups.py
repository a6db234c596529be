"""Tables with column groups against their model: every projection shows the same rows."""

from hypothesis import given
from hypothesis import strategies as st

from support.grouped import GroupedModel, Row
from support.grouped_history import KEYS, GroupedHistory, by_key
from support.machine import history_settings

STEPS = 14
INDEXES = {"i_name": ["name"], "i_score": ["score"], "i_ts": ["ts"], "i_mix": ["band", "n"]}


def columns_of(model: GroupedModel) -> list[str]:
    return [name for of in model.groups.columns.values() for name in of]


def check(history: GroupedHistory) -> None:
    """Compare a table with its model, by whole rows and by some of its columns."""
    table, rows = history.table, history.model.rows()
    assert by_key(table.read().read_all()) == rows, history.done
    names = columns_of(history.model)
    for name in history.rng.choice(names, size=3, replace=False):
        found = by_key(table.read(columns=["id", name]).read_all())
        wanted = {key: {"id": row["id"], name: row[name]} for key, row in rows.items()}
        assert found == wanted, (name, history.done)
    assert table.count() == len(rows), history.done


@history_settings(6)
@given(seed=st.integers(0, 2**32 - 1))
def test_a_table_with_column_groups_shows_what_its_model_says(seed: int):
    history = GroupedHistory(seed)
    for _ in range(STEPS):
        history.step()
        check(history)
    rows = history.model.rows()
    assert by_key(history.table.lookup([{"id": key} for key in range(KEYS)])) == rows
    instants = history.table.history().to_pylist()
    active = {row["instant"] for row in instants if not row.get("archived")}
    for instant, model in history.past[-6:]:
        if instant in active:
            assert by_key(history.table.read(as_of=instant).read_all()) == model.rows(), instant
    findings = [f for f in history.table.verify().findings if f.severity.name == "ERROR"]
    assert not findings, (findings, history.done)


@history_settings(3)
@given(seed=st.integers(0, 2**32 - 1))
def test_indexes_find_the_rows_of_any_column_group(seed: int):
    history = GroupedHistory(seed, alters=False)
    for name, columns in INDEXES.items():
        history.table.create_index(name, columns)
    for _ in range(STEPS):
        history.step()
        rows = history.model.rows().values()
        for column in ("name", "score", "ts", "band"):
            values = {row[column] for row in rows} | {None}
            for value in sorted(values, key=repr)[:4]:
                test = f"{column} IS NULL" if value is None else f"{column} = {value!r}"
                found = by_key(history.table.read(where=test).read_all())
                wanted = {str(row["id"]) for row in rows if row[column] == value}
                assert found.keys() == wanted, (test, history.done)


@history_settings(3)
@given(seed=st.integers(0, 2**32 - 1))
def test_changes_of_all_column_groups_replay_to_the_rows(seed: int):
    history = GroupedHistory(seed, alters=False)
    for _ in range(STEPS):
        history.step()
    state: dict[str, Row] = {}
    changes = history.table.read(mode="cdc", since="20000101000000000").read_all().to_pylist()
    for change in sorted(changes, key=lambda change: change["ts_ms"]):
        before, after = change["before"], change["after"]
        key = str((after or before)["id"])
        assert before == state.get(key), (key, history.done)
        if after is None:
            state.pop(key)
        else:
            state[key] = after
    assert state == history.model.rows(), history.done


@history_settings(3)
@given(seed=st.integers(0, 2**32 - 1))
def test_incremental_reads_show_every_row_that_changed(seed: int):
    history = GroupedHistory(seed, alters=False)
    for _ in range(STEPS):
        history.step()
    rows, table = history.model.rows(), history.table
    done = {row["instant"]: row for row in table.history().to_pylist()}
    for instant, model in history.past[-8::2] if history.single else ():
        commit = done[instant]
        if commit["operation"] not in ("UPSERT", "DELETE") or commit["archived"]:
            continue
        since = str(int(commit["completion_time"]) + 1)
        found = by_key(table.read(since=since).read_all())
        assert all(rows[key] == row for key, row in found.items()), history.done
        before = model.rows()
        changed = {key for key, row in rows.items() if before.get(key) != row}
        # Compaction forgets deletes without ordering values, and which columns they took.
        if all(history.model.groups.ordering.values()):
            assert changed <= found.keys(), history.done


def test_the_histories_do_everything():
    wanted = {
        "full",
        "some",
        "update",
        "change",
        "flag some",
        "add",
        "drop",
        "plan",
        "undo",
        "widen",
    }
    done: set[str] = set()
    for seed in range(40):
        history = GroupedHistory(seed)
        for _ in range(4):
            history.step()
        done |= {what for what in history.done if isinstance(what, str)}
        if wanted <= done:
            return
    raise AssertionError(f"never done: {wanted - done}")
