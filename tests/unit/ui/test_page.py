"""The page shows what is in the tables, escapes it, and refuses strangers."""

import re
from http.client import HTTPConnection

import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import NotFoundError
from lakebed.ui.server import Access, is_loopback
from lakebed.ui.site import Site

TRIPS = "/tables/trips"


@pytest.fixture(scope="module")
def fetch(warehouse, served):
    server = served(warehouse)

    def get(path, method="GET", **headers):
        connection = HTTPConnection(*server.server_address[:2], timeout=30)
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode(), dict(answer.getheaders())

    return get


def body(fetch, path):
    status, text, _ = fetch(path)
    assert status == 200, text
    return text


def test_a_warehouse_lists_tables_and_not_other_folders(fetch):
    page = body(fetch, "/")
    assert 'href="/tables/trips"' in page
    assert 'href="/tables/ml%2Ffeatures"' in page
    assert "notes" not in page


def test_the_overview_names_settings_and_its_parts_have_what_listings_cost(fetch):
    page = body(fetch, TRIPS)
    assert "merge on read" in page
    for part in re.findall(r'data-load="([^"]+)"', page):
        body(fetch, part)
    assert "7 files of 2 file groups in 2 partitions" in body(fetch, f"{TRIPS}/parts/size")
    assert "by_note" in body(fetch, f"{TRIPS}/parts/indexes")
    assert "No service has run" in body(fetch, f"{TRIPS}/parts/services")
    assert body(fetch, f"{TRIPS}/parts/timeline").count("<rect") == 4
    groups = body(fetch, "/tables/ml%2Ffeatures")
    assert "<td>risk</td><td>ts</td><td>score</td>" in groups


def test_layers_are_drawn_run_by_run(fetch):
    assert ">Show the layers</a></noscript>" in body(fetch, f"{TRIPS}/layers")
    page = body(fetch, f"{TRIPS}/parts/layers?partition=a%26b+0")
    assert page.count("<svg") == 1
    assert re.findall(r'class="(base|log|deletes)"', page)[-1] == "base"
    assert "20 rows" in page
    status, text, _ = fetch(f"{TRIPS}/parts/layers?partition=nowhere")
    assert (status, "partition &#x27;nowhere&#x27;" in text) == (404, True)


def test_partitions_with_special_characters_are_links_that_work(fetch):
    page = body(fetch, f"{TRIPS}/parts/partitions")
    found = re.search(r'href="([^"]+)">a&amp;b 1<', page)
    assert found
    assert "a&amp;b 1" in body(fetch, found[1].replace("&amp;", "&"))


def test_a_preview_of_rows_filters_escapes_and_explains(fetch):
    page = body(fetch, f"{TRIPS}/rows?where=%60select%60+%3D+3")
    assert page.count("<tr>") == 2
    assert "&lt;script&gt;alert(&#x27;x&#x27;)&lt;/script&gt;" in page
    assert "<script>alert" not in page
    assert "<summary>Plan</summary>" in page
    assert body(fetch, f"{TRIPS}/rows?limit=2&columns=id").count("<tr>") == 3
    wrong = body(fetch, f"{TRIPS}/rows?where=nowhere+%3D+1")
    assert "nowhere" in wrong
    assert "<form" in wrong


def test_changes_show_the_row_before_and_after(fetch):
    last = body(fetch, f"{TRIPS}/changes")
    assert last.count("<td>insert</td>") == 2
    every = body(fetch, f"{TRIPS}/changes?since=earliest&limit=1000")
    assert every.count("<td>delete</td>") == 1
    assert "plain → &lt;script&gt;" in every


def test_a_compaction_does_not_hide_the_changes_of_the_latest_write(tmp_path, served):
    table = lakebed.create_table(None, str(tmp_path / "t"), "id BIGINT, v BIGINT", key="id")
    for value in (1, 2):
        table.upsert(pa.table({"id": [7], "v": [value]}))
    table.compact()
    connection = HTTPConnection(*served(str(tmp_path)).server_address[:2], timeout=30)
    connection.request("GET", "/tables/t/changes")
    assert "1 → 2" in connection.getresponse().read().decode()


def test_the_timeline_and_the_schema_tell_the_past(fetch):
    assert body(fetch, f"{TRIPS}/timeline").count("<td>completed</td>") == 4
    body(fetch, f"{TRIPS}/timeline?archived=1")
    schema = body(fetch, f"{TRIPS}/schema")
    assert "added later double" in schema
    assert "<td>select</td><td>bigint</td>" in schema


@pytest.mark.parametrize(
    "path",
    ["/tables", "/tables/nope", "/tables/notes", "/tables/..%2Fwarehouse", f"{TRIPS}/parts", f"{TRIPS}/x",
     "/static/../server.py", "/static/nope.css", "/etc/passwd", "/tables/%00"],
)  # fmt: skip
def test_what_the_server_was_not_given_is_not_there(fetch, path):
    assert fetch(path)[0] == 404


@pytest.mark.parametrize(
    "query", ["page=0", "page=x", "limit=99999999", "page=99999999999", "limit=00000000199999999"]
)
def test_numbers_out_of_range_are_named(fetch, query):
    status, text, _ = fetch(f"{TRIPS}/{'rows' if 'limit' in query else 'timeline'}?{query}")
    assert status == 400
    assert query.partition("=")[2] in text


def test_an_address_may_have_any_parameters(fetch):
    for query in ("label=1", "self=1", "path=1&name=1"):
        body(fetch, f"{TRIPS}/layers?{query}")


def test_a_predicate_that_is_not_supported_is_told_beside_the_form(fetch):
    page = body(fetch, f"{TRIPS}/rows?where=note+RLIKE+%27x%27")
    assert "RLIKE" in page
    assert "<form" in page


def test_dates_beyond_those_of_python_are_shown(tmp_path, served):
    days = pa.array([10**7, -(10**6)], pa.int32()).cast(pa.date32())
    late = pa.array([10**18, 0], pa.timestamp("us", "UTC"))
    rows = pa.table({"id": [1, 2], "day": days, "at": late, "all": [[one] for one in days]})
    lakebed.create_table(None, str(tmp_path / "t"), rows, key="id").insert(rows)
    connection = HTTPConnection(*served(str(tmp_path)).server_address[:2], timeout=30)
    for page in ("rows", "changes"):
        connection.request("GET", f"/tables/t/{page}")
        text = connection.getresponse().read().decode()
        assert "29349-01-26" in text
        assert "1970-01-01 00:00:00+00:00" in text


def test_only_reads_of_this_host_are_answered(fetch):
    assert fetch("/", Host="evil.example")[0] == 403
    assert fetch("/", Host="evil.example:80")[0] == 403
    assert fetch("/", Host="localhost:1")[0] == 200
    assert fetch("/", method="POST")[0] == 501
    status, text, headers = fetch(TRIPS, method="HEAD")
    assert (status, text) == (200, "")
    assert "default-src 'none'" in headers["Content-Security-Policy"]


def test_other_machines_need_the_token(warehouse, served):
    server = served(warehouse, "0.0.0.0")
    token = server.access.token
    assert token in server.url

    def get(path, **headers):
        connection = HTTPConnection("127.0.0.1", server.server_address[1], timeout=30)
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        answer.read()
        return answer

    assert get("/").status == 403
    assert get("/?token=wrong").status == 403
    entered = get(f"/tables/trips?page=1&token={token}")
    assert (entered.status, entered.headers["Location"]) == (302, "/tables/trips?page=1")
    cookie = entered.headers["Set-Cookie"].partition(";")[0]
    assert get("/tables/trips", Cookie=cookie).status == 200
    assert get("/tables/trips", Cookie="lakebed_token=wrong").status == 403
    assert get(f"//evil.example/?token={token}").headers["Location"].startswith("/evil.example")


def test_only_loopback_addresses_go_without_a_token():
    assert all(map(is_loopback, ["127.0.0.1", "127.8.9.1", "::1", "localhost"]))
    assert not any(map(is_loopback, ["0.0.0.0", "::", "192.0.2.1", "example.org", ""]))
    assert Access.on("::1").token is None
    assert Access.on("::").token


def test_a_single_table_is_shown_at_once_and_no_other(warehouse, served):
    server = served(warehouse / "trips")
    connection = HTTPConnection(*server.server_address[:2], timeout=30)
    connection.request("GET", "/")
    assert connection.getresponse().headers["Location"] == "/tables/trips"
    with pytest.raises(NotFoundError, match="there is no table 'ml/features' here"):
        server.site.table("ml/features")


def test_a_folder_without_tables_is_refused(tmp_path):
    with pytest.raises(NotFoundError, match="no tables in its folders"):
        Site(str(tmp_path))
