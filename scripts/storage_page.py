"""Write docs/storage.md from the options that the code knows."""

from pathlib import Path

from lakebed.storage.options import CLIENT_OPTIONS, STORE_OPTIONS

PAGE = Path(__file__).resolve().parents[1] / "docs" / "storage.md"

_HEAD = """# Object stores

A table is on local disk, or below a URL of an object store: `s3://bucket/path` (or `s3a://`), `gs://bucket/path`, `az://container/path` (or
`abfs://`, `abfss://`). `create_table` and `open_table` take its options as `storage_options={...}`:

```python
import lakebed

trips = lakebed.open_table("s3://lake/trips", storage_options={"region": "eu-west-1"})
print(trips.count())
```

The command `lakebed` takes them as `-o KEY=VALUE`, and `format("lakebed")` as options that start with `lakebed.storage.`:
`spark.read.format("lakebed").option("lakebed.storage.region", "eu-west-1")`.

```console
$ lakebed head s3://lake/trips -o region=eu-west-1
id  city
1   Oslo
```

Without options the settings come from the environment (`AWS_ACCESS_KEY_ID`, `AWS_REGION`, `AWS_ENDPOINT`, `AWS_ALLOW_HTTP`, ...), and credentials from the
machine's role too. An option may also be given by the name of its environment variable (`AWS_REGION`, `aws_region`). An unknown option is rejected, and the error names the closest
known one. Local disk and `memory://` take no options.

For your own store (MinIO, Ceph): `{"endpoint": "http://localhost:9000", "allow_http": "true", "access_key_id": "...",
"secret_access_key": "...", "region": "us-east-1"}`.
"""
_TITLES = {
    "s3": "Amazon S3 and stores that speak its protocol",
    "gs": "Google Cloud Storage",
    "az": "Azure Blob Storage",
}


def text() -> str:
    """Return the page."""
    sections = {_TITLES[kind]: known for kind, (_, known, _) in STORE_OPTIONS.items()}
    sections["Every store: the HTTP client"] = CLIENT_OPTIONS
    page = _HEAD
    for title, known in sections.items():
        page += f"\n## {title}\n\n| option | what it is |\n|---|---|\n"
        page += "".join(f"| `{name}` | {what} |\n" for name, what in known.items())
    return page


if __name__ == "__main__":
    PAGE.write_text(text())
