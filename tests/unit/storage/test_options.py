"""The options of object stores: known ones reach the client, others are refused by name."""

import contextlib
import runpy
from pathlib import Path

import pytest

from lakebed.errors import LakebedError, OptionError, UnavailableError
from lakebed.storage.failures import translated, without_panics
from lakebed.storage.open import open_storage
from lakebed.storage.options import CLIENT_OPTIONS, STORE_OPTIONS, split_options

PAGE = Path(__file__).resolve().parents[3] / "docs" / "storage.md"


@pytest.mark.parametrize(
    ("url", "options"),
    [
        ("s3://b/t", {"region": "eu-west-1", "allow_http": "true", "aws_timeout": "9s"}),
        (
            "s3a://b/t",
            {"AWS_REGION": "eu-west-1", "aws_allow_http": "true", "endpoint_url": "http://x"},
        ),
        ("gs://b/t", {"skip_signature": "true", "google_bearer_token": "x"}),
        ("az://c/t", {"account_name": "a", "azure_storage_account_key": "a2V5"}),
    ],
)
def test_an_option_is_known_by_its_short_name_and_as_an_environment_variable(url, options):
    assert open_storage(url, options).url == url


@pytest.mark.parametrize(
    ("url", "option", "hint"),
    [
        ("s3://b/t", "acces_key_id", "did you mean 'access_key_id'?"),
        ("s3://b/t", "aws_alow_http", "did you mean 'allow_http'?"),
        ("az://c/t", "acount_name", "did you mean 'account_name'?"),
        ("gs://b/t", "region", "the options of this store are service_account,"),
        ("gs://b/t", "aws_region", "names that start like this belong to s3:// stores."),
    ],
)
def test_an_unknown_option_is_refused_with_what_may_be_meant_of_that_store(url, option, hint):
    with pytest.raises(OptionError) as caught:
        open_storage(url, {option: "x"})
    told = str(caught.value)
    assert told.startswith(f"storage option '{option}' is unknown for {url[:-2]}; {hint}")


def test_the_environment_sets_options_of_the_http_client_too(s3_server, monkeypatch):
    for name, value in s3_server.options().items():
        monkeypatch.setenv(f"AWS_{name.upper()}", value)
    assert open_storage(f"s3://{s3_server.bucket}/t").names("x") == []
    monkeypatch.setenv("AWS_ALLOW_HTTP", "false")
    with pytest.raises(UnavailableError):
        open_storage(f"s3://{s3_server.bucket}/t").names("x")
    assert open_storage(f"s3://{s3_server.bucket}/t", {"allow_http": "true"}).names("x") == []


def test_what_the_url_says_and_two_spellings_of_one_option_are_refused():
    with pytest.raises(OptionError, match="already set by the URL s3://b"):
        open_storage("s3://b/t", {"bucket": "c"})
    with pytest.raises(OptionError, match="'region' is given twice"):
        open_storage("s3://b/t", {"region": "x", "AWS_REGION": "y"})


@pytest.mark.parametrize("kind", STORE_OPTIONS)
def test_every_option_of_the_page_is_one_that_the_client_knows(kind):
    prefix, known, _ = STORE_OPTIONS[kind]
    text = PAGE.read_text()
    for name in (*known, *CLIENT_OPTIONS):
        assert f"| `{name}` |" in text
        store, client = split_options(f"{kind}://b", kind, {f"{prefix}{name}": "x"})
        assert [*store, *client] == [name]
    for name in known:
        with contextlib.suppress(LakebedError):  # of values that do not fit
            open_storage(f"{kind}://b/t", {name: "true"})


def test_the_page_is_what_the_code_says():
    page = runpy.run_path(str(PAGE.parents[1] / "scripts" / "storage_page.py"))
    assert PAGE.read_text() == page["text"](), "run python scripts/storage_page.py"


def test_a_panic_of_the_client_is_an_error_of_ours():
    class PanicException(BaseException):
        """As pyo3 raises it."""

    for guard in (without_panics("s3://b/t/x"), translated("s3://b/t/x")):
        with (
            pytest.raises(UnavailableError, match="s3://b/t/x: the object store client failed"),
            guard,
        ):
            raise PanicException("called `Option::unwrap()`")
    with pytest.raises(KeyboardInterrupt), without_panics("x"):
        raise KeyboardInterrupt
