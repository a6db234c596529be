import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.errors import CorruptError, LakebedError, UnsupportedError
from lakebed.format.names.data_names import (
    BaseFileName,
    InlineLogName,
    LogKind,
    NativeLogName,
    wide_token,
)
from lakebed.format.names.instant_name import Action, State
from lakebed.format.timeline.plans import PlanKind, encode_plan, parse_plan
from lakebed.services.compaction.plan_file import (
    LOG_COMPACTOR,
    WIDE_VERSION,
    CompactionOperation,
    CompactionPlan,
    Kind,
)
from lakebed.table.files.file_group import BaseFile, FileGroupId, FileSlice, LogFile
from lakebed.table.files.pending_plans import PLAN_WIDENS, groups_of_plan, widened_groups
from lakebed.timeline.timeline import TimelineInstant
from support.fixtures import files

INSTANTS = st.integers(0, 99_999).map(lambda n: f"202401010000{n:05d}")
METRICS = st.dictionaries(
    st.sampled_from(["TOTAL_IO_MB", "TOTAL_LOG_FILES_SIZE"]), st.floats(0, 1e12)
)


@st.composite
def operations(draw: st.DrawFn, kind: Kind, some: bool = False) -> CompactionOperation:
    columns = draw(st.sampled_from(["", "risk"]))
    group = FileGroupId(draw(st.sampled_from(["", "p", "a=1/b=ü"])), "0001-x-0", columns)
    native = draw(st.booleans())
    names = [
        NativeLogName(group.file_id, "0-1-2", at, 1, LogKind.LOG, column_group=columns)
        if native
        else InlineLogName(group.file_id, at, 1, "0-1-2", column_group=columns)
        for at in draw(st.lists(INSTANTS, min_size=1, max_size=4, unique=True))
    ]
    logs = tuple(LogFile(group.partition, name, 0) for name in names)
    instant = draw(INSTANTS)
    base = BaseFile(
        group.partition, BaseFileName(group.file_id, "0-1-2", instant, column_group=columns), 0
    )
    slice_ = FileSlice(group, instant, draw(st.none() | st.just(base)), logs)
    taken = draw(st.integers(1, len(logs))) if some else len(logs)
    return CompactionOperation(kind, slice_, taken, draw(METRICS))


PLANS = st.one_of(
    st.builds(
        CompactionPlan,
        st.just(Action.COMPACTION),
        st.lists(operations(Kind.FULL), max_size=3).map(tuple),
    ),
    st.builds(
        CompactionPlan,
        st.just(Action.LOGCOMPACTION),
        st.lists(operations(Kind.LOG), max_size=3).map(tuple),
    ),
    st.builds(
        CompactionPlan,
        st.just(Action.COMPACTION),
        st.lists(operations(Kind.FULL) | operations(Kind.LOG, some=True), max_size=3).map(tuple),
        st.just(3),
    ),
)


@given(PLANS)
def test_a_plan_is_read_back_as_it_was_written(plan: CompactionPlan):
    assert CompactionPlan.parse(plan.encode(), plan.action, "plan") == plan


@given(PLANS)
def test_hudis_schema_reads_every_plan_and_misses_no_log(plan: CompactionPlan):
    found = parse_plan(PlanKind.COMPACTION_PLAN, plan.encode(), "plan")
    assert found["version"] == plan.version
    for told, operation in zip(found["operations"], plan.operations, strict=True):
        assert told["deltaFilePaths"] == [log.name.encode() for log in operation.slice_.log_files]


@given(PLANS, st.data())
def test_damaged_bytes_are_an_error_of_ours(plan: CompactionPlan, data: st.DataObject):
    content = bytearray(plan.encode())
    at = data.draw(st.integers(0, len(content) - 1))
    content[at] ^= data.draw(st.integers(1, 255))
    cut = data.draw(st.integers(0, len(content)))
    with contextlib.suppress(LakebedError):
        CompactionPlan.parse(bytes(content[:cut]), plan.action, "plan")


@pytest.mark.parametrize(
    ("table", "instant", "action"),
    [
        ("mor9_pending_compact", "20261115062016871", Action.COMPACTION),
        ("mor9_compact", "20261115062001021", Action.COMPACTION),
        ("mor9_logcompact", "20261115061226936", Action.LOGCOMPACTION),
    ],
)
def test_hudis_own_plans_are_read_and_written_back_with_the_same_values(
    table: str, instant: str, action: Action
):
    data = files(table)[f".hoodie/timeline/{instant}.{action}.requested"]
    plan = CompactionPlan.parse(data, action, table)
    assert {o.kind for o in plan.operations} == {
        Kind.LOG if action is Action.LOGCOMPACTION else Kind.FULL
    }
    again = parse_plan(PlanKind.COMPACTION_PLAN, plan.encode(), table)
    assert again == parse_plan(PlanKind.COMPACTION_PLAN, data, table)


def test_a_log_compaction_names_hudis_executor():
    plan = parse_plan(
        PlanKind.COMPACTION_PLAN, CompactionPlan(Action.LOGCOMPACTION, ()).encode(), "plan"
    )
    assert plan["strategy"]["compactorClassName"] == LOG_COMPACTOR
    assert plan["preserveHoodieMetadata"] is True


def _plan(**changes: object) -> bytes:
    operation = {
        "baseInstantTime": "20240101000000000",
        "deltaFilePaths": [".f-0_20240101000000001.log.1_0-0-0"],
        "dataFilePath": "f-0_0-0-0_20240101000000000.parquet",
        "fileId": "f-0",
        "partitionPath": "p",
        "metrics": {"LOG_FILES_TAKEN": float("nan")},
        **changes,
    }
    version = operation.pop("version", 2)
    return encode_plan(PlanKind.COMPACTION_PLAN, {"operations": [operation], "version": version})


def test_paths_of_older_plans_count_by_their_names():
    told = {"deltaFilePaths": ["/t/p/.f-0_20240101000000001.log.1_0-0-0"]}
    for changes in ({}, told):
        plan = CompactionPlan.parse(_plan(**changes), Action.LOGCOMPACTION, "plan")
        assert [log.path for log in plan.operations[0].logs] == [
            "p/.f-0_20240101000000001.log.1_0-0-0"
        ]


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"fileId": None}, CorruptError, "without a file id"),
        ({"deltaFilePaths": ["x"]}, CorruptError, "expected a log of file group f-0, found 'x'"),
        ({"dataFilePath": "x"}, CorruptError, "expected a base file of f-0, found 'x'"),
        ({"bootstrapFilePath": "x"}, UnsupportedError, "bootstrapped"),
        ({"version": 5}, UnsupportedError, "plan: compaction plan of version 5"),
    ],
)
def test_what_no_plan_can_say_is_refused(changes: dict, error: type[Exception], message: str):
    with pytest.raises(error, match=message):
        CompactionPlan.parse(_plan(**changes), Action.COMPACTION, "plan")


def test_a_plan_that_widens_names_the_column_group_of_each_operation():
    wide = BaseFile("p", BaseFileName("f-0", wide_token("0-1-2"), "20240101000000001"), 0)
    log = LogFile("p", NativeLogName("f-0", "0-1-2", "20240101000000002", 1, LogKind.LOG), 0)
    slices = [
        FileSlice(FileGroupId("p", "f-0"), wide.name.instant, wide, (log,)),
        FileSlice(FileGroupId("p", "f-0", "risk"), wide.name.instant, wide),
        FileSlice(FileGroupId("p", "f-0", "web"), "", None),
    ]
    planned = tuple(CompactionOperation(Kind.WIDE, of, len(of.log_files)) for of in slices)
    groups = ("", "risk", "web")
    plan = CompactionPlan(Action.COMPACTION, planned, WIDE_VERSION, "", groups)
    read = CompactionPlan.parse(plan.encode(), Action.COMPACTION, "plan")
    assert [one.slice_ for one in read.operations] == slices
    assert {one.kind for one in read.operations} == {Kind.WIDE}
    assert (read.version, read.widens) == (WIDE_VERSION, groups)
    instant = TimelineInstant("1", Action.COMPACTION, State.REQUESTED, None, Action.COMPACTION)
    record = parse_plan(PlanKind.COMPACTION_PLAN, plan.encode(), "plan")
    pending = list(groups_of_plan(instant, record))
    assert [(one.group.column_group, one.is_full) for one in pending] == [(g, True) for g in groups]


@pytest.mark.parametrize("text", ["", "[]", "{}", '["a", 1]', '"risk"'])
def test_a_plan_that_widens_unnamed_column_groups_is_rejected(text: str):
    with pytest.raises(CorruptError, match="column groups"):
        widened_groups({PLAN_WIDENS: text}, "plan")
