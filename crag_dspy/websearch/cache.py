"""Search replies kept on disk, so that an evaluation asks the web once and repeats for nothing.

One JSON file a request, named by the request's digest. A key or any other secret is never part of a request.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crag_dspy.errors import ConfigError
from crag_dspy.passages import Passage
from crag_dspy.state.files import write_whole

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

WEEK = 7 * 24 * 3600.0

_log = logging.getLogger(__name__)


class SearchCache:
    """A folder of search results with a lifetime. Safe for threads and processes that share the folder.

    A file that cannot be read, is too old, or belongs to another request is a miss; a folder that cannot be
    written to costs a logged warning, never the search.

    Args:
        folder: made when first written to.
        lifetime: seconds for which a reply counts, above 0; `math.inf` keeps it for ever.
        clock: seconds since the epoch, for tests.
    """

    def __init__(
        self, folder: str | os.PathLike[str], lifetime: float = WEEK, clock: Callable[[], float] = time.time
    ) -> None:
        if isinstance(lifetime, bool) or not isinstance(lifetime, (int, float)) or not lifetime > 0:
            raise ConfigError(f"lifetime must be a number of seconds above 0, got {lifetime!r}")
        self.folder = Path(folder)
        self.lifetime = float(lifetime)
        self._clock = clock

    def __repr__(self) -> str:
        return f"SearchCache({str(self.folder)!r}, lifetime={self.lifetime:g})"

    def get(self, request: Mapping[str, Any]) -> list[Passage] | None:
        """What an equal request brought within the lifetime, or None."""
        try:
            stored = json.loads(self._path(request).read_text(encoding="utf-8"))
            age = self._clock() - stored["saved"]
            if stored["request"] != _plain(request) or not (0 <= age < self.lifetime):
                return None
            return [Passage(**fields) for fields in stored["passages"]]
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
            _log.warning("Unreadable search cache file %s: searching again (%r)", self._path(request), error)
            return None

    def put(self, request: Mapping[str, Any], passages: Sequence[Passage]) -> None:
        """Keep `passages` for `request`, in one step: a reader never sees half a file."""
        stored = {
            "saved": self._clock(),
            "request": _plain(request),
            "passages": [passage.to_json() for passage in passages],
        }
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            write_whole(self._path(request), json.dumps(stored, ensure_ascii=False, allow_nan=False))
        except (OSError, ValueError) as error:
            _log.warning("Search results were not cached in %s: %r", self.folder, error)

    def _path(self, request: Mapping[str, Any]) -> Path:
        digest = hashlib.sha256(json.dumps(_plain(request), sort_keys=True).encode()).hexdigest()
        return self.folder / f"{digest}.json"


def _plain(request: Mapping[str, Any]) -> Any:
    """The request as it will be read back: JSON knows no tuples."""
    return json.loads(json.dumps(dict(request)))


def as_cache(cache: SearchCache | str | os.PathLike[str] | None) -> SearchCache | None:
    """A folder becomes a cache with the default lifetime of a week."""
    return cache if cache is None or isinstance(cache, SearchCache) else SearchCache(cache)
