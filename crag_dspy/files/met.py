"""What reading a source came across: kept while it is read, and told at the end, all together."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from crag_dspy.errors import ConfigError

logger = logging.getLogger(__name__)

MOST_TOLD = 100


@dataclass
class Met:
    """What could not be read and was left out, and what is good to know of the rest.

    Attributes:
        strict: what cannot be read is an error, raised where it is.
        refused: a message for each file or line left out, naming it.
        encodings: files that are not UTF-8, by the name of the encoding that they were read in.
        empty: files without text.
        others: files of kinds that are not read, by their endings.
    """

    strict: bool = False
    refused: list[str] = field(default_factory=list)
    encodings: dict[str, list[str]] = field(default_factory=dict)
    empty: list[str] = field(default_factory=list)
    others: Counter[str] = field(default_factory=Counter)

    @contextmanager
    def reading(self, where: str = "") -> Iterator[None]:
        """Within, what cannot be read is refused; `where` it is, unless the error says so itself."""
        try:
            yield
        except ConfigError as error:
            self.refuse(ConfigError(f"{where}: {error}") if where else error)
        except OSError as error:  # nobody may read it, or it is gone
            self.refuse(ConfigError(f"{where}: {error.strerror or error}"))

    def refuse(self, error: ConfigError) -> None:
        """Raises the error, or keeps it for the end."""
        if self.strict:
            raise error
        self.refused.append(str(error))

    def read_in(self, encoding: str, name: str) -> None:
        if encoding not in ("utf-8", "ascii"):
            self.encodings.setdefault(encoding, []).append(name)

    def warnings(self) -> list[str]:
        """One line each."""
        told = [f"not UTF-8, read as {name}: {_some(files)}" for name, files in self.encodings.items()]
        if self.empty:
            told.append(f"empty, left out: {_some(self.empty)}")
        if self.others:
            kinds = ", ".join(f"{suffix} ({count})" for suffix, count in self.others.most_common(8))
            told.append(f"files of other kinds are left out: {kinds}")
        if self.refused:
            lines = [f"  {message}" for message in self.refused[:MOST_TOLD]]
            if len(self.refused) > MOST_TOLD:
                lines.append(f"  and {len(self.refused) - MOST_TOLD} more")
            told.append("\n".join([f"could not be read, left out ({len(self.refused)}):", *lines]))
        return told

    def tell(self) -> None:
        """Log all of it."""
        for warning in self.warnings():
            logger.warning(warning)


def _some(names: Sequence[str], most: int = 5) -> str:
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")
