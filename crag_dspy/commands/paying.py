"""What the commands that call a language model many times may spend, and replies that are kept or given again."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from crag_dspy.commands.output import note
from crag_dspy.errors import ConfigError

if TYPE_CHECKING:
    from crag_dspy.optimize.runs.cap import Cap
    from crag_dspy.optimize.runs.tariff import Tariff


def add_paying_arguments(parser: argparse.ArgumentParser) -> None:
    """--max-calls, --max-tokens, --max-cost, --token-price, --record, --replay."""
    group = parser.add_argument_group("cost")
    group.add_argument(
        "--max-calls",
        type=int,
        metavar="N",
        help="LM calls; one beyond is refused and the run stops (no limit)",
    )
    group.add_argument(
        "--max-tokens",
        type=int,
        metavar="N",
        help="tokens in and out, after which no call is begun (no limit)",
    )
    group.add_argument(
        "--max-cost", type=float, metavar="X", help="dollars, after which no call is begun (no limit)"
    )
    group.add_argument(
        "--token-price",
        action="append",
        metavar="[MODEL=]IN,OUT",
        help="dollars a million tokens, of a model or of all; default: LiteLLM's table",
    )
    replies = group.add_mutually_exclusive_group()
    replies.add_argument("--record", metavar="FOLDER", help="keep every reply of a language model there")
    replies.add_argument("--replay", metavar="FOLDER", help="take every reply from there, and call no model")


@contextmanager
def paying(args: argparse.Namespace) -> Iterator[Cap]:
    """Within, the limits hold, and replies are recorded or replayed. Says on stderr what was spent under a limit."""
    from crag_dspy.optimize.runs.cap import Cap, capped
    from crag_dspy.optimize.runs.recording import recording, replaying

    cap = Cap(args.max_calls, args.max_tokens, args.max_cost, _tariff(args.token_price))
    with ExitStack() as stack:
        if args.record is not None:
            stack.enter_context(recording(args.record))
        if args.replay is not None:
            stack.enter_context(replaying(args.replay))
        stack.enter_context(capped(cap))
        try:
            yield cap
        finally:
            if any(limit is not None for limit in (args.max_calls, args.max_tokens, args.max_cost)):
                note(f"spent: {cap.spent}")


def _tariff(given: list[str] | None) -> Tariff | dict[str, Tariff] | None:
    """One for all models, or by model."""
    from crag_dspy.optimize.runs.tariff import read_tariff

    found = {}
    for text in given or []:
        model, _, price = text.rpartition("=")
        found[model] = read_tariff(price)
    if "" not in found:
        return found or None
    if len(found) > 1:
        raise ConfigError("--token-price is given for all models or by model (MODEL=IN,OUT), not both")
    return found[""]
