"""LANGLAUF_BLOBS: what it may say, and what is said where it cannot be used."""

import asyncio
import sys
from pathlib import Path

import pytest

from langlauf.bootstrap import open_store
from langlauf.domain.errors import SettingsError
from langlauf.hints import Hints
from langlauf.settings import load_settings
from langlauf.store.blobs.files import FileBlobs
from langlauf.store.blobs.large import open_blobs
from langlauf.store.blobs.s3 import Bucket, read_bucket


@pytest.mark.parametrize("text", ["{}/b", "file://{}/b", "file://localhost{}/b", "file://{}/%62"])
def test_a_folder_is_named_by_path_or_url(tmp_path: Path, text: str) -> None:
    """With and without the scheme."""
    blobs = open_blobs(text.format(tmp_path), seconds=1)
    assert isinstance(blobs, FileBlobs)
    assert blobs._root == tmp_path / "b"


def test_a_relative_path_stays_where_the_program_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An analysis that changes the folder of the process does not move the results."""
    monkeypatch.chdir(tmp_path)
    blobs = open_blobs("here", seconds=1)
    assert isinstance(blobs, FileBlobs)
    assert blobs._root == tmp_path / "here"


def test_a_bucket_is_named_by_url() -> None:
    """With what an S3-compatible server needs that is not Amazon's."""
    assert read_bucket("s3://results") == Bucket(name="results")
    text = "s3://results/a/b/?endpoint=http://10.0.0.1:9000&region=zrh&allow_http=true&virtual_hosted=0"
    assert read_bucket(text) == Bucket(
        name="results",
        prefix="a/b",
        endpoint="http://10.0.0.1:9000",
        region="zrh",
        allow_http=True,
        virtual_hosted=False,
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ftp://host/x", "ftp:// is not supported"),
        ("file://host/x", "three slashes"),
        ("file:///", "names no folder"),
        ("s3://", "names no bucket"),
        ("s3://b", "names no bucket"),
        ("s3://key:secret@bucket", "names no bucket"),
        ("s3://bucket/a/../b", "prefix"),
        ("s3://bucket/a b", "prefix"),
        ("s3://bucket?endpoint=minio:9000", "http:// or https://"),
        ("s3://bucket?endpoint=http://minio:9000", "allow_http=true"),
        ("s3://bucket?allow_http=maybe", "true or false"),
        ("s3://bucket?region=", "region is empty"),
        ("s3://bucket?secret_access_key=hunter2", "AWS_"),
    ],
)
def test_a_bad_value_is_refused_in_words(text: str, message: str, tmp_path: Path) -> None:
    """Before anything is opened, and without a secret in the message."""
    settings = load_settings({"LANGLAUF_BLOBS": text, "LANGLAUF_STORE": str(tmp_path / "store.db")})
    with pytest.raises(SettingsError, match=message) as refused:
        asyncio.run(open_store(settings, Hints()))
    assert "LANGLAUF_BLOBS" in str(refused.value)
    assert not any(word in str(refused.value) for word in ("hunter2", "key:secret"))
    assert list(tmp_path.iterdir()) == []


def test_what_is_not_installed_is_said_with_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bucket without the extra names the package to install."""
    monkeypatch.setitem(sys.modules, "obstore.store", None)
    with pytest.raises(SettingsError, match=r"pip install 'langlauf\[s3\]'"):
        open_blobs("s3://bucket", seconds=1)


def test_a_store_in_memory_has_no_blobs(tmp_path: Path) -> None:
    """Its blobs would outlive it, and would never be collected."""
    settings = load_settings({"LANGLAUF_BLOBS": str(tmp_path / "blobs"), "LANGLAUF_STORE": "memory://"})
    with pytest.raises(SettingsError, match="lasting store"):
        asyncio.run(open_store(settings, Hints()))


@pytest.mark.parametrize(
    ("name", "value"),
    [("LANGLAUF_BLOBS", ""), ("LANGLAUF_LIMITS", "inline_result=-1"), ("LANGLAUF_LIMITS", "blob_seconds=0")],
)
def test_bad_settings_stop_the_program(name: str, value: str) -> None:
    """Like every other one."""
    with pytest.raises(SettingsError, match=name):
        load_settings({name: value})
