"""The compiled kernel's cache: found, refused, damaged."""

import os
import stat

import numba
import numpy as np
import pytest

from lakebed.format import compiled
from lakebed.format.names import kernel

WANT = 31 * 31 + (97 * 31 + 0xE9)  # "aé" after a hash of 31


@pytest.fixture
def fresh():
    """Forget the kernel of this process before and after the test."""
    kernel.load_fold.cache_clear()
    yield
    kernel.load_fold.cache_clear()


def run(fold):
    hashes = np.array([31], dtype=np.int32)
    fold(np.frombuffer("aé".encode(), np.uint8), np.array([0, 3], dtype=np.int64), hashes)
    return int(hashes[0])


def cached(folder):
    return sorted(path for path in folder.rglob("kernel._fold-*") if path.is_file())


def test_the_kernel_is_cached_where_numba_is_told_and_loaded_once(fresh, tmp_path, monkeypatch):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    first = kernel.load_fold()
    assert run(first) == WANT
    assert {path.suffix for path in cached(tmp_path)} == {".nbi", ".nbc"}
    assert kernel.load_fold() is first


@pytest.mark.parametrize("suffix", [".nbi", ".nbc"])
def test_a_damaged_cache_is_built_again(fresh, tmp_path, monkeypatch, suffix):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    kernel.load_fold()
    (damaged,) = (path for path in cached(tmp_path) if path.suffix == suffix)
    damaged.write_bytes(b"\x80\x04not a pickle")
    kernel.load_fold.cache_clear()
    assert run(kernel.load_fold()) == WANT
    assert damaged.read_bytes() != b"\x80\x04not a pickle"


def test_without_any_writable_folder_the_kernel_is_compiled_each_time(tmp_path, monkeypatch):
    nowhere = tmp_path / "file"
    nowhere.write_bytes(b"")
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(nowhere))
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(nowhere))
    source = str(nowhere / "kernel.py")
    for _ in range(2):
        assert compiled.load_compiled(source, lambda cached: cached) is False


def test_numbas_own_setting_is_left_as_it_was(fresh, monkeypatch):
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    kernel.load_fold()
    assert numba.config.CACHE_DIR == ""


def test_the_private_folder_belongs_to_the_user_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = compiled.private_folder()
    assert folder == str(tmp_path / "cache" / "lakebed")
    assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700


def test_a_folder_that_others_can_write_is_passed_over(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(compiled.tempfile, "gettempdir", lambda: str(tmp_path / "tmp"))
    (tmp_path / "lakebed").mkdir()
    (tmp_path / "lakebed").chmod(0o777)
    assert compiled.private_folder() == str(tmp_path / "tmp" / f"lakebed-{os.getuid()}")


def test_a_folder_of_another_user_is_passed_over(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(compiled.tempfile, "gettempdir", lambda: str(tmp_path))
    nobody = os.getuid() + 1
    monkeypatch.setattr(compiled.os, "getuid", lambda: nobody)
    assert compiled.private_folder() is None


def test_a_link_in_place_of_the_folder_is_passed_over(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setattr(compiled.tempfile, "gettempdir", lambda: str(tmp_path / "file"))
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (tmp_path / "lakebed").symlink_to(tmp_path / "elsewhere")
    assert compiled.private_folder() is None


def test_a_text_cut_inside_a_character_stays_inside_its_own_bytes():
    """Not UTF-8: any hash will do, but the next text must keep its own."""
    data = np.frombuffer(b"\xf0\x9fab", np.uint8)
    hashes = np.ones(2, dtype=np.int32)
    kernel.load_fold()(data, np.array([0, 2, 4], dtype=np.int64), hashes)
    assert hashes[1] == 31 + 97 * 31 + 98
