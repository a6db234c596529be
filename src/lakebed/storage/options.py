"""The options of object stores: their names, aliases and purpose.

The names are those of obstore, the client. `docs/storage.md` is generated from this module.
"""

import difflib
import os
from collections.abc import Mapping
from typing import Final

from lakebed.errors import OptionError

CLIENT_OPTIONS: Final = {
    "allow_http": "true allows http:// endpoints",
    "allow_invalid_certificates": "true accepts any TLS certificate; for tests only",
    "connect_timeout": "how long connecting may take, as `5s` (the default)",
    "pool_idle_timeout": "how long an idle connection is kept, as `90s`",
    "pool_max_idle_per_host": "how many idle connections are kept for each host",
    "proxy_url": "an HTTP proxy",
    "proxy_ca_certificate": "the certificate of the proxy's authority, as PEM",
    "proxy_excludes": "hosts that are reached without the proxy",
    "read_timeout": "how long one read may take",
    "root_certificate": "a root certificate to trust, as PEM",
    "timeout": "how long one request may take, as `60s` (the default)",
    "user_agent": "the User-Agent header",
}
"""Options of the HTTP client, for all stores."""
S3_OPTIONS: Final = {
    "access_key_id": "the access key",
    "secret_access_key": "the secret key",
    "session_token": "the token of temporary credentials",
    "region": "the bucket's region, as eu-west-1",
    "default_region": "the region where none is given",
    "endpoint": "the address of a store that is not AWS's, as http://localhost:9000",
    "virtual_hosted_style_request": "true puts the bucket into the host name",
    "skip_signature": "true reads a public bucket without credentials",
    "unsigned_payload": "true leaves the body out of the signature",
    "checksum_algorithm": "SHA256 adds a checksum to each object",
    "conditional_put": "how a put if absent is made: etag (the default) or disabled",
    "copy_if_not_exists": "how a copy if absent is made",
    "disable_tagging": "true for stores without tags",
    "disable_bulk_delete": "true for stores that delete one object at a time",
    "request_payer": "true pays for requests to a bucket of another account",
    "s3_express": "true for directory buckets",
    "server_side_encryption": "AES256, aws:kms, aws:kms:dsse or sse-c",
    "sse_kms_key_id": "the key for aws:kms",
    "sse_bucket_key_enabled": "true uses the bucket's key",
    "sse_customer_key_base64": "the key for sse-c",
    "role_arn": "the role to assume",
    "role_session_name": "the name of that role's session",
    "web_identity_token_file": "the token file of a web identity",
    "sts_endpoint": "the address of the security token service",
    "container_credentials_relative_uri": "where a container finds its credentials",
    "container_credentials_full_uri": "where a container finds its credentials",
    "container_authorization_token_file": "the token file of a container",
    "imdsv1_fallback": "true allows version 1 of the machine's metadata service",
    "metadata_endpoint": "the address of the machine's metadata service",
}
GCS_OPTIONS: Final = {
    "service_account": "the path of a service account file",
    "service_account_key": "the content of that file, as JSON",
    "application_credentials": "the path of application default credentials",
    "bearer_token": "a bearer token that is sent as is",
    "base_url": "the address of another endpoint",
    "skip_signature": "true reads a public bucket without credentials",
}
AZURE_OPTIONS: Final = {
    "account_name": "the storage account",
    "account_key": "its key",
    "sas_key": "a shared access signature",
    "token": "a bearer token",
    "client_id": "the id of a service principal",
    "client_secret": "its secret",
    "tenant_id": "its tenant",
    "authority_host": "the host that issues its tokens",
    "credential_type": "the kind of credential to use",
    "endpoint": "the address of another endpoint",
    "use_emulator": "true uses the local emulator",
    "use_fabric_endpoint": "true uses Microsoft Fabric",
    "use_azure_cli": "true uses the credentials of the az command",
    "skip_signature": "true reads a public container without credentials",
    "disable_tagging": "true for accounts without tags",
    "encryption_key": "a customer's own key",
    "msi_endpoint": "the endpoint of a managed identity",
    "msi_resource_id": "the resource id of a managed identity",
    "object_id": "the object id of a managed identity",
    "federated_token_file": "the token file of a workload identity",
}
STORE_OPTIONS: Final[Mapping[str, tuple[str, Mapping[str, str], Mapping[str, str]]]] = {
    "s3": (
        "aws_",
        S3_OPTIONS,
        {
            "endpoint_url": "endpoint",
            "endpoint_url_s3": "aws_endpoint_url_s3",
            "token": "session_token",
        },
    ),
    "gs": ("google_", GCS_OPTIONS, {"service_account_path": "service_account"}),
    "az": (
        "azure_",
        AZURE_OPTIONS,
        {
            "storage_account_name": "account_name",
            "storage_account_key": "account_key",
            "storage_sas_key": "sas_key",
            "storage_token": "token",
            "access_key": "account_key",
        },
    ),
}
"""By kind of store: the prefix of its environment variables, its options, and their aliases."""
_KINDS: Final = {"s3a": "s3", "abfs": "az", "abfss": "az"}
_BUCKETS: Final = ("bucket", "bucket_name", "container_name")


def client_environment(scheme: str) -> dict[str, str]:
    """Return the options of the HTTP client that the environment sets, such as `AWS_ALLOW_HTTP`.

    The client itself looks at these variables only if it is given no options at all.
    """
    prefix, _, _ = STORE_OPTIONS[_KINDS.get(scheme, scheme)]
    values = {name: os.environ.get(f"{prefix}{name}".upper()) for name in CLIENT_OPTIONS}
    return {name: value for name, value in values.items() if value}


def split_options(
    root: str, scheme: str, options: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, str]]:
    """Split options into those of the store and those of its HTTP client; reject unknown ones.

    A name may be that of the environment variable, such as `AWS_REGION`. Unknown names are rejected
    here because obstore would panic on some of them.
    """
    prefix, known, others = STORE_OPTIONS[_KINDS.get(scheme, scheme)]
    store: dict[str, str] = {}
    client: dict[str, str] = {}
    for given, value in options.items():
        short = str(given).lower().removeprefix(prefix)
        short = others.get(short, short)
        if short in _BUCKETS:
            raise OptionError(f"storage option {given!r}: already set by the URL {root}")
        into = client if short in CLIENT_OPTIONS else store
        if short not in known and short not in CLIENT_OPTIONS and short not in others.values():
            raise OptionError(
                f"storage option {given!r} is unknown for {root}; {_hint(short, known)} "
                "docs/storage.md lists all"
            )
        if short in into:
            raise OptionError(
                f"storage option {given!r}: {short!r} is given twice, under two names"
            )
        into[short] = value
    return store, client


def _hint(short: str, known: Mapping[str, str]) -> str:
    """Return a hint for an unknown name, such as the closest option of the store."""
    near = difflib.get_close_matches(short, [*known, *CLIENT_OPTIONS], 1)
    foreign = [kind for kind, (prefix, _, _) in STORE_OPTIONS.items() if short.startswith(prefix)]
    if foreign:
        return f"names that start like this belong to {foreign[0]}:// stores."
    if near:
        return f"did you mean {near[0]!r}?"
    return f"the options of this store are {', '.join(known)}."
