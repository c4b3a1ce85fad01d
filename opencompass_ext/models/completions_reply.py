"""What a completions endpoint answers to prompts it was asked to echo, checked token by token.

    sent             9     4     7              ids of one prompt
    tokens         "The" " cat" " sat"          how the server spells them
    token_logprobs  null  -7.25  -2.5  (-1.0)   nothing stands before the first; in brackets the
                                                token generated with max_tokens=1

Positions are those of the ids that were sent. The texts are never used to find a position, only to
notice a server that reads the ids with another vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opencompass_ext.errors import ModelError
from opencompass_ext.likelihood.spans import IntArray

# JSON has no infinity; vLLM writes minus infinity as this.
LOWEST_LOGPROB = -9999.0

_NO_PROMPT_LOGPROBS = (
    "the server gives no log-probabilities of prompt tokens: it ignores 'echo' or 'logprobs', as "
    "llama.cpp's server does ({got}). Texts cannot be scored there; use a server that echoes, such "
    "as vLLM's, or score the weights with HuggingFaceBaseModel"
)


def read_reply(
    reply: Any,
    prompts: Sequence[IntArray],
    *,
    max_tokens: int,
    token_text: Callable[[int], str],
) -> list[NDArray[np.float64]]:
    """Return the log-probability of each token of each prompt, in the order they were sent.

    Args:
        reply: The decoded JSON.
        prompts: The ids that were sent, each ``[tokens]``.
        max_tokens: How many tokens were to be generated after each prompt: 0 or 1.
        token_text: Text of one token, by the tokenizer that made the ids.

    Returns:
        Nats, ``[tokens]`` for each prompt; NaN where the server gave no number, as for every first
        token; minus infinity where it gave its stand-in for that.

    Raises:
        ModelError: The reply is not that of an endpoint that echoes these prompts.

    Example:
        >>> logprobs = {"tokens": ["a", "b"], "token_logprobs": [None, -0.5]}
        >>> reply = {"choices": [{"index": 0, "logprobs": logprobs}]}
        >>> read_reply(reply, [np.array([0, 1])], max_tokens=0, token_text="ab".__getitem__)
        [array([ nan, -0.5])]
    """
    choices = _choices_in_order(reply, len(prompts))
    return [
        _read_choice(choice, ids, max_tokens, token_text)
        for choice, ids in zip(choices, prompts, strict=True)
    ]


def _choices_in_order(reply: Any, count: int) -> list[Mapping[str, Any]]:
    choices = reply.get("choices") if isinstance(reply, Mapping) else None
    if not isinstance(choices, list) or not all(isinstance(c, Mapping) for c in choices):
        raise ModelError(
            f"expected a JSON object with the list 'choices', got {_shape(reply)}: this is no "
            "completions endpoint"
        )
    by_index = {choice.get("index"): choice for choice in choices}
    if len(choices) != count or by_index.keys() != set(range(count)):
        raise ModelError(
            f"expected one choice for each of {count} prompts, with 'index' 0 to {count - 1}, got "
            f"{len(choices)} with {[choice.get('index') for choice in choices][:8]}. If the server "
            "takes one prompt a request, set batch_prompts=1"
        )
    return [by_index[index] for index in range(count)]


def _read_choice(
    choice: Mapping[str, Any], ids: IntArray, max_tokens: int, token_text: Callable[[int], str]
) -> NDArray[np.float64]:
    logprobs = choice.get("logprobs")
    values = logprobs.get("token_logprobs") if isinstance(logprobs, Mapping) else None
    if not isinstance(logprobs, Mapping) or not isinstance(values, list):
        raise ModelError(_NO_PROMPT_LOGPROBS.format(got=f"'logprobs' is {_shape(logprobs)}"))
    _check_count(len(values), len(ids), max_tokens)
    prompt_values = values[: len(ids)]
    for position, value in enumerate(prompt_values):
        if value is not None and (isinstance(value, bool) or not isinstance(value, (int, float))):
            raise ModelError(f"token_logprobs[{position}] must be a number or null, got {value!r}")
    _check_first(prompt_values[0])
    _check_tokens(logprobs.get("tokens"), ids, token_text)
    numbers = np.array([np.nan if v is None else v for v in prompt_values], dtype=np.float64)
    return np.where(numbers <= LOWEST_LOGPROB, -np.inf, numbers)


def _check_count(count: int, sent: int, max_tokens: int) -> None:
    if count == sent + max_tokens:
        return
    if count <= 1:
        raise ModelError(_NO_PROMPT_LOGPROBS.format(got=f"{sent} ids sent, {count} numbers back"))
    hint = "the server does not read the ids as they were sent"
    if count == sent + 1:
        hint = (
            "either the server generates a token although none is asked for, then set "
            "max_tokens=1, or it puts a token of its own before the prompt"
        )
    elif count == sent and max_tokens:
        hint = "if the server generates no token, set max_tokens=0"
    raise ModelError(
        f"expected {sent + max_tokens} log-probabilities ({sent} ids sent, {max_tokens} to be "
        f"generated), got {count}: {hint}"
    )


def _check_first(value: float | None) -> None:
    if value is not None and value != 0 and not math.isnan(value):
        raise ModelError(
            f"the first token of a prompt has the log-probability {value}, expected null: the "
            "server puts a token of its own before the prompt. Switch that off there (for the "
            "right prefix see prefix_token)"
        )


def _check_tokens(tokens: Any, ids: IntArray, token_text: Callable[[int], str]) -> None:
    """Check the server's spelling of the tokens, where both sides spell them plainly."""
    if not isinstance(tokens, list):
        return
    for position, (token_id, spelt) in enumerate(zip(ids.tolist(), tokens, strict=False)):
        if not isinstance(spelt, str):
            continue
        ours, theirs = _plain_word(token_text(token_id)), _plain_word(spelt)
        is_other = ours is not None and theirs is not None and ours != theirs
        # vLLM's --return-tokens-as-token-ids
        if spelt.startswith("token_id:"):
            is_other = spelt != f"token_id:{token_id}"
        if is_other:
            raise ModelError(
                f"token {position} of a prompt was sent as id {token_id} ({token_text(token_id)!r} "
                f"by the tokenizer at tokenizer_path) and came back as {spelt!r}: the server's "
                "model has another tokenizer, or does not read the ids as they were sent"
            )


def _plain_word(spelt: str) -> str | None:
    """Return the letters and digits of a token; None where spellings may differ between servers.

    Example:
        >>> _plain_word("Ġcat"), _plain_word(" cat"), _plain_word("é"), _plain_word("<s>")
        ('cat', 'cat', None, None)
    """
    word = spelt.strip(" Ġ▁")
    return word if word.isascii() and word.isalnum() else None


def _shape(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"an object with the keys {sorted(map(str, value))[:8]}"
    return "null" if value is None else f"a {type(value).__name__}"
