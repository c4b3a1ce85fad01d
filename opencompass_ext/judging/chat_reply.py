"""What a chat completions endpoint answers, as a ``Reply``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opencompass_ext.endpoints.posting import Posted, PostFailure
from opencompass_ext.judging.base import Reply

_TOO_LONG = (
    "context length",
    "context size",
    "context window",
    "context_length",
    "too long",
    "exceed_context",
    "maximum context",
    "max_model_len",
    "too many tokens",
    "上下文长度",
)
_REASONS = {
    "timeout": "judge_timeout",
    "rate_limited": "judge_rate_limited",
    "unavailable": "judge_unavailable",
    "cannot_connect": "judge_unavailable",
}


def to_reply(posted: Posted, reply_format: str) -> Reply:
    """Return the first choice of a completion.

    Text may come as one string or in parts. None at all is an empty reply, unless the server
    refuses by its own rules: then there is a reason, and the server's words.

    Raises:
        PostFailure: It is no completion.
    """
    content = posted.content
    choice = _first_choice(content)
    message = choice.get("message") if choice is not None else None
    usage = content.get("usage") if isinstance(content, Mapping) else None
    usage = usage if isinstance(usage, Mapping) else {}
    shared: dict[str, Any] = {
        "finish_reason": _finish_reason(choice),
        "input_tokens": _count(usage.get("prompt_tokens")),
        "output_tokens": _count(usage.get("completion_tokens")),
        "seconds": posted.seconds,
        "attempts": posted.attempts,
        "served_as": _text_or_none(content, "model"),
        "reply_format": reply_format,
    }
    if not isinstance(message, Mapping):
        shown = (
            sorted(map(str, content)) if isinstance(content, Mapping) else type(content).__name__
        )
        told = f"expected 'choices' with a 'message' in the reply, got {shown}"
        failure = PostFailure(told, "unavailable", 200)
        failure.attempts, failure.seconds = posted.attempts, posted.seconds
        raise failure
    text = _text(message.get("content"))
    refusal = message.get("refusal")
    if not text and refusal:
        said = str(refusal)[:300].encode("utf-8", "replace").decode()
        return Reply(None, reason="judge_error", message=said, **shared)
    return Reply(text, **shared)


def to_failed_reply(failure: PostFailure, reply_format: str) -> Reply:
    """Return the reply that says why there is none."""
    reason, message = _REASONS.get(failure.kind, "judge_error"), str(failure)
    if failure.kind != "rate_limited" and is_too_long(failure.said):
        reason = "too_long_for_judge"
        message += (
            ". Set context_tokens of the judge, or lower it, and long sources are read in parts"
        )
    return Reply(
        None,
        seconds=failure.seconds,
        attempts=failure.attempts,
        reason=reason,
        message=message,
        reply_format=reply_format,
    )


def is_too_long(said: str) -> bool:
    """Return whether a server's words about a refused request are about its length."""
    lowered = said.lower()
    return any(phrase in lowered for phrase in _TOO_LONG)


def _finish_reason(choice: Mapping[str, Any] | None) -> str | None:
    said = _text_or_none(choice, "finish_reason")
    # Endpoints in front of other APIs pass on what those call it.
    return "length" if said is not None and said.lower() in ("length", "max_tokens") else said


def _first_choice(content: Any) -> Mapping[str, Any] | None:
    choices = content.get("choices") if isinstance(content, Mapping) else None
    is_list = isinstance(choices, list) and choices and isinstance(choices[0], Mapping)
    return choices[0] if is_list and choices else None


def _text(content: Any) -> str:
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, Mapping)]
        return "".join(part for part in parts if isinstance(part, str))
    return content if isinstance(content, str) else ""


def _text_or_none(owner: Any, key: str) -> str | None:
    value = owner.get(key) if isinstance(owner, Mapping) else None
    return value if isinstance(value, str) else None


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
