"""Whether kernels were compiled before, told without loading the compiler."""

from lakebed.format.compiled import has_cache


def test_kernels_that_were_never_compiled_have_no_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    source = str(tmp_path / "kernel.py")
    assert not has_cache(source)
    below = tmp_path / "merge_1a2b"
    below.mkdir()
    (below / "kernel._fold-45.py311.nbi").touch()
    assert has_cache(source)
    assert not has_cache(str(tmp_path / "other.py"))
