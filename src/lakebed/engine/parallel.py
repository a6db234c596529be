"""Read several streams at once with threads of this process, with a bound on buffered items."""

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")

# The number of items that each thread may read ahead of the caller.
_HELD_PER_THREAD = 2


def read_parallel(opens: Sequence[Callable[[], Iterator[T]]], threads: int) -> Iterator[T]:
    """Yield the items of all streams as they become ready; the items of one stream stay in order.

    Each of `opens` opens a stream, which one thread reads to its end; streams are started in the
    given order. Buffered items are limited to a few per thread. The threads end when all items are
    read, when a stream fails, or when the caller drops this iterator.
    """
    if threads <= 1 or len(opens) <= 1:
        for open_ in opens:
            yield from open_()
        return
    pool = _Readers(opens, min(threads, len(opens)))
    try:
        yield from pool.items()
    finally:
        pool.stop()


class _Readers(Generic[T]):
    def __init__(self, opens: Sequence[Callable[[], Iterator[T]]], threads: int) -> None:
        self._waiting = deque(opens)
        self._ready: deque[T] = deque()
        self._room = threads * _HELD_PER_THREAD
        self._running = threads
        self._failure: BaseException | None = None
        self._stopped = False
        self._changed = threading.Condition()
        # An iterator that is kept but not exhausted must not keep the process alive.
        self._threads = [
            threading.Thread(target=self._work, name=f"lakebed-read-{number}", daemon=True)
            for number in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    def items(self) -> Iterator[T]:
        """Yield items until every stream has ended; raise the first error of a stream."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._ready or self._failure or not self._running)
                if self._failure is not None:
                    raise self._failure
                if not self._ready:
                    return
                item = self._ready.popleft()
                self._changed.notify_all()
            yield item

    def stop(self) -> None:
        """Stop the threads, wait for them, and drop buffered items."""
        with self._changed:
            self._stopped = True
            self._ready.clear()
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def _work(self) -> None:
        try:
            while (open_ := self._next()) is not None:
                for item in open_():
                    if not self._put(item):
                        return
        except BaseException as error:  # noqa: BLE001 - raised again where the caller reads
            with self._changed:
                self._failure = self._failure or error
        finally:
            with self._changed:
                self._running -= 1
                self._changed.notify_all()

    def _next(self) -> Callable[[], Iterator[T]] | None:
        with self._changed:
            return self._waiting.popleft() if self._waiting and not self._stopped else None

    def _put(self, item: T) -> bool:
        """Add an item to the queue once there is room; return False if the reader was stopped."""
        with self._changed:
            self._changed.wait_for(lambda: len(self._ready) < self._room or self._stopped)
            if self._stopped:
                return False
            self._ready.append(item)
            self._changed.notify_all()
            return True
