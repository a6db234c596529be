"""Whether kernels were compiled before, told without loading the compiler."""

import threading

import numba as nb

from lakebed.format.compiled import has_cache, load_compiled


def test_kernels_that_were_never_compiled_have_no_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    source = str(tmp_path / "kernel.py")
    assert not has_cache(source)
    below = tmp_path / "merge_1a2b"
    below.mkdir()
    (below / "kernel._fold-45.py311.nbi").touch()
    assert has_cache(source)
    assert not has_cache(str(tmp_path / "other.py"))


def test_a_thread_keeps_its_cache_folder_while_another_ends(tmp_path):
    source = tmp_path / "kernel.py"
    entered, ended, seen = threading.Event(), threading.Event(), []

    def first(cached):
        threads[0].start()
        entered.wait(0.3)  # the second must not get in meanwhile
        return cached

    def second(cached):
        entered.set()
        ended.wait(5)
        seen.append(nb.config.CACHE_DIR)
        return cached

    threads = [threading.Thread(target=load_compiled, args=(str(source), second))]
    load_compiled(str(source), first)
    ended.set()
    threads[0].join()
    assert seen == [str(tmp_path / "__pycache__")]
