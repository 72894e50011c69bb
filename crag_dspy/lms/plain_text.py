"""Plain prompts for small language models.

A base model of 270 million parameters continues text; it does not follow a format. Chat and JSON prompts make
it copy their own markers, so this adapter renders a signature as the few lines of an exercise book:

    Answer the question from the context.

    Context: The Nile flows north into the Mediterranean Sea.
    Question: Into which sea does the Nile flow?
    Answer: the Mediterranean Sea

    Context: ...
    Question: ...
    Answer:
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

import dspy
from dspy.adapters.utils import apply_output_field_defaults, format_field_value
from dspy.utils.exceptions import AdapterParseError

from crag_dspy.lms.plain_values import read_value
from crag_dspy.lms.worked_examples import worked_examples
from crag_dspy.text.replies import without_markers, without_thinking

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dspy.signatures.signature import Signature
    from pydantic.fields import FieldInfo


class PlainTextAdapter(dspy.Adapter):
    """Renders `Label: value` lines and reads the continuation; one call, no format instructions.

    Demos of the predictor are shown in the same shape, those with every output filled. A predictor without any
    is shown the worked examples that this package has for its signature, if any: a base model without an example
    does not know how to answer, nor when to stop.

    A single output is the reply up to its first line break; several outputs are labelled lines. Values cannot
    forge a field: continuation lines are indented, so a label at the start of a line is always the adapter's own.

    Args:
        examples: show worked examples to predictors without demos.
        callbacks: as for every `dspy.Adapter`.
    """

    def __init__(self, *, examples: bool = True, callbacks: list[Any] | None = None) -> None:
        super().__init__(callbacks=callbacks)
        self.examples = examples

    def __call__(
        self,
        lm: dspy.BaseLM,
        lm_kwargs: dict[str, Any],
        signature: type[Signature],
        demos: list[dict[str, Any]],
        inputs: dict[str, Any],
    ) -> list[dict[str, Any]]:
        """Stop the reply where the answer ends, then run DSPy's own pipeline."""
        lm_kwargs = self._stopping(lm, lm_kwargs, signature)
        replies: list[dict[str, Any]] = super().__call__(lm, lm_kwargs, signature, demos, inputs)
        return replies

    async def acall(
        self,
        lm: dspy.BaseLM,
        lm_kwargs: dict[str, Any],
        signature: type[Signature],
        demos: list[dict[str, Any]],
        inputs: dict[str, Any],
    ) -> list[dict[str, Any]]:
        """The same, awaited."""
        lm_kwargs = self._stopping(lm, lm_kwargs, signature)
        replies: list[dict[str, Any]] = await super().acall(lm, lm_kwargs, signature, demos, inputs)
        return replies

    def format(
        self, signature: type[Signature], demos: list[dict[str, Any]], inputs: dict[str, Any]
    ) -> list[dict[str, Any]]:
        """The messages: instructions, one pair a demo or worked example, then the inputs."""
        shown = [demo for demo in demos if _is_whole(signature, demo)]
        if not shown and self.examples:
            shown = worked_examples(signature, inputs)
        messages: list[dict[str, Any]] = super().format(signature, shown, inputs)
        return messages

    def format_system_message(self, signature: type[Signature]) -> str:
        """The instructions; for several outputs also their labels, and the choices of those that have some."""
        lines = [signature.instructions.strip()]
        outputs = signature.output_fields
        if len(outputs) > 1:
            labels = ", ".join(f'"{_label(name, field)}:"' for name, field in outputs.items())
            lines.append(f"Reply with the lines {labels}.")
        for name, field in outputs.items():
            if choices := _choices(field.annotation):
                lines.append(f"{_label(name, field)} is one of: {', '.join(choices)}.")
        return "\n".join(lines)

    def format_user_message_content(
        self,
        signature: type[Signature],
        inputs: dict[str, Any],
        prefix: str = "",
        suffix: str = "",
        main_request: bool = False,
    ) -> str:
        """The inputs that are given, one label each, then the label of the first output, to be continued."""
        lines = [_line(n, f, inputs[n]) for n, f in signature.input_fields.items() if n in inputs]
        first = next(iter(signature.output_fields.items()), None)
        if first is not None:
            lines.append(f"{_label(*first)}:")
        return "\n".join(part for part in (prefix, *lines, suffix) if part)

    def format_assistant_message_content(
        self,
        signature: type[Signature],
        outputs: dict[str, Any],
        missing_field_message: str | None = None,
    ) -> str:
        """The outputs, the first without its label, which ends the message before."""
        lines: list[str] = []
        for name, field in signature.output_fields.items():
            value = _one_line(field, outputs.get(name, missing_field_message))
            lines.append(f"{_label(name, field)}: {value}" if lines else value)
        return "\n".join(lines)

    def format_demos(self, signature: type[Signature], demos: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """One pair of messages a demo."""
        messages = []
        for demo in demos:
            user = self.format_user_message_content(signature, demo)
            messages.append({"role": "user", "content": user})
            reply = self.format_assistant_message_content(signature, demo)
            messages.append({"role": "assistant", "content": reply})
        return messages

    def parse(self, signature: type[Signature], completion: str) -> dict[str, Any]:
        """Read the outputs from the continuation.

        Raises `AdapterParseError` when an output without a default is missing, empty, or not of its type.
        """
        labels = {n: _label(n, f) for n, f in signature.output_fields.items()}
        fields: dict[str, Any] = {}
        for name, text in _sections(without_thinking(completion), labels, signature).items():
            try:
                fields[name] = read_value(
                    without_markers(text, name), signature.output_fields[name].annotation
                )
            except ValueError as error:
                raise self._unreadable(signature, completion, f"{labels[name]} {text!r}: {error}") from error
        fields = apply_output_field_defaults(signature, fields)
        missing = [labels[name] for name in labels if name not in fields]
        if missing:
            raise self._unreadable(signature, completion, f"nothing for {', '.join(missing)}")
        return fields

    def _unreadable(self, signature: type[Signature], completion: str, message: str) -> AdapterParseError:
        return AdapterParseError(
            adapter_name=type(self).__name__, signature=signature, lm_response=completion, message=message
        )

    def _stopping(
        self, lm: dspy.BaseLM, lm_kwargs: dict[str, Any], signature: type[Signature]
    ) -> dict[str, Any]:
        """Stop at the line break that ends a single output, or at the blank line that ends several."""
        if lm_kwargs.get("stop") or "stop" in lm.kwargs or "stop" not in lm.supported_params:
            return lm_kwargs
        return {**lm_kwargs, "stop": ["\n" if len(signature.output_fields) == 1 else "\n\n"]}


def _label(name: str, field: FieldInfo) -> str:
    """The field's own prefix where its author chose one, else its name in words: "Search query"."""
    prefix = str((field.json_schema_extra or {}).get("prefix", "")).strip().rstrip(":")  # type: ignore[union-attr]
    words = name.replace("_", " ").strip()
    if not prefix or prefix.lower() == words.lower():
        return words[:1].upper() + words[1:]
    return prefix


def _line(name: str, field: FieldInfo, value: Any) -> str:
    if isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value):
        text = "\n".join(f"[{number}] {item}" for number, item in enumerate(value, 1))
    else:
        text = str(format_field_value(field, value))
    lines = [line.strip() for line in text.splitlines()]
    return f"{_label(name, field)}: " + "\n ".join(line for line in lines if line)


def _one_line(field: FieldInfo, value: Any) -> str:
    return " ".join(str(format_field_value(field, value)).split())


def _is_whole(signature: type[Signature], demo: Mapping[str, Any]) -> bool:
    given = any(demo.get(name) is not None for name in signature.input_fields)
    return given and all(demo.get(name) is not None for name in signature.output_fields)


def _choices(annotation: Any) -> list[str]:
    if annotation is bool:
        return ["yes", "no"]
    return [str(choice) for choice in get_args(annotation)] if get_origin(annotation) is Literal else []


def _sections(completion: str, labels: Mapping[str, str], signature: type[Signature]) -> dict[str, str]:
    """The text of each output that is there. The first one's label ended the prompt, so it is often absent."""
    first = next(iter(labels))
    inputs = [_label(n, f) for n, f in signature.input_fields.items()]
    known = sorted({*labels.values(), *inputs}, key=len, reverse=True)
    marks = re.compile(rf"^[ \t*#>\"'`-]*({'|'.join(map(re.escape, known))})[ \t]*[:：]\**", re.I | re.M)
    pieces = marks.split(completion.strip())
    found = {first: pieces[0]} if pieces[0].strip() else {}
    names = {label.lower(): name for name, label in labels.items()}
    for label, text in zip(pieces[1::2], pieces[2::2], strict=True):
        name = names.get(label.lower())
        if name is None or name in found:  # the model goes on with an exercise of its own
            break
        found[name] = text
    return {name: text for name, text in found.items() if text.strip()}
