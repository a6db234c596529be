"""A clean's plan and result on the timeline: Hudi's bytes, and nothing deleted by mistake."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.errors import CorruptError, UnsupportedError
from lakebed.format.names.data_names import BaseFileName
from lakebed.format.timeline.plans import PlanKind, encode_plan, parse_plan
from lakebed.model.options.services import CleanPolicy
from lakebed.services.clean.plan import CleanPlan
from lakebed.services.clean.plan_file import encode_clean, encode_clean_plan, parse_clean_plan
from support.fixtures import files

INSTANTS = st.integers(0, 10**17 - 1).map(lambda number: f"{number:017d}")
NAMES = st.builds(BaseFileName, st.sampled_from(["a", "b-0"]), st.just("0-1-2"), INSTANTS).map(
    BaseFileName.encode
)
PLANS = st.builds(
    CleanPlan,
    st.sampled_from(CleanPolicy),
    INSTANTS,
    INSTANTS,
    st.dictionaries(
        st.sampled_from(["", "p", "a=1/b=ü"]),
        st.lists(NAMES, min_size=1, unique=True).map(sorted).map(tuple),
    ).map(lambda found: dict(sorted(found.items()))),
    st.lists(INSTANTS, max_size=2).map(tuple),
    st.sampled_from(["commit", "deltacommit", "replacecommit"]),
)


@given(PLANS, st.sampled_from(["file:///a/b", "s3://bucket/t", "memory://x"]))
def test_a_plan_comes_back_from_its_bytes(plan, root):
    assert parse_clean_plan(encode_clean_plan(plan, root), "plan") == plan


def cleans():
    found = files("cow9_archive")
    for path, data in sorted(found.items()):
        if path.endswith(".clean.requested") and path.startswith(".hoodie/timeline/"):
            instant = path.rpartition("/")[2].partition(".")[0]
            [done] = [
                value
                for name, value in found.items()
                if f"/{instant}_" in name and name.endswith(".clean")
            ]
            yield instant, data, done


def test_a_plan_of_hudi_gives_names_below_its_partitions():
    plans = [parse_clean_plan(data, "plan") for _, data, _ in cleans()]
    assert plans
    for plan in plans:
        assert plan.policy is CleanPolicy.KEEP_LATEST_COMMITS
        [names] = plan.files.values()
        assert set(plan.files) == {""}
        assert all(BaseFileName.parse(name) for name in names)
        assert plan.earliest == plan.last_completed


def test_plan_and_result_have_the_fields_that_hudi_writes():
    for instant, data, done in cleans():
        plan = parse_clean_plan(data, "plan")
        theirs = parse_plan(PlanKind.CLEAN, done, "theirs")
        ours = parse_plan(
            PlanKind.CLEAN, encode_clean(plan, instant, theirs["timeTakenInMillis"], []), "ours"
        )
        assert ours == theirs
        root = "file:/data/hudi/t0/cow9_archive"
        again = parse_plan(PlanKind.CLEANER_PLAN, encode_clean_plan(plan, root), "ours")
        assert again == parse_plan(PlanKind.CLEANER_PLAN, data, "theirs")


def plan_with(**changes) -> bytes:
    return encode_plan(PlanKind.CLEANER_PLAN, {"policy": "KEEP_LATEST_COMMITS", **changes})


def test_a_plan_of_version_1_names_files_without_their_folder():
    name = "f_0-0-0_20240101000000000.parquet"
    plan = parse_clean_plan(plan_with(filesToBeDeletedPerPartition={"p": [name]}), "plan")
    assert plan.files == {"p": (name,)}
    assert plan.earliest == ""


@pytest.mark.parametrize(
    "path", ["/t/p/.hoodie_partition_metadata", "", "/t/.hoodie/hoodie.properties"]
)
def test_a_plan_that_names_anything_but_data_is_refused(path):
    info = {"filePath": path, "isBootstrapBaseFile": False}
    data = plan_with(filePathsToBeDeletedPerPartition={"p": [info]})
    with pytest.raises(CorruptError, match="data files"):
        parse_clean_plan(data, "plan")


def test_bootstrap_files_and_unknown_policies_are_refused():
    info = {"filePath": "/x/f.parquet", "isBootstrapBaseFile": True}
    with pytest.raises(UnsupportedError, match="bootstrap"):
        parse_clean_plan(plan_with(filePathsToBeDeletedPerPartition={"p": [info]}), "plan")
    with pytest.raises(UnsupportedError, match="KEEP_NOTHING"):
        parse_clean_plan(plan_with(policy="KEEP_NOTHING"), "plan")


def test_a_partition_that_is_gone_is_marked():
    plan = CleanPlan(CleanPolicy.KEEP_LATEST_COMMITS, "1", "2", {"p": ("x",), "q": ("y",)})
    result = parse_plan(PlanKind.CLEAN, encode_clean(plan, "3", 4, ["q"]), "result")
    marks = {p: of["isPartitionDeleted"] for p, of in result["partitionMetadata"].items()}
    assert marks == {"p": False, "q": True}
    assert result["totalFilesDeleted"] == 2
