"""Builds datasets and tells how large they are.

Started by ``sizes`` as ``python -m opencompass_ext.tasks.count``: a JSON list of dataset configs
comes in on the standard input; for each, in order, a line ``{"rows": ..., "bytes": ...}`` or
``{"error": ...}`` goes out on the standard output.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from typing import Any

from opencompass_ext.tasks.base import build_dataset
from opencompass_ext.tasks.protocol import failure


def measure(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``{"rows", "bytes"}`` of the test rows; bytes are those of all text in them."""
    try:
        test = build_dataset(config).test
        return {"rows": len(test), "bytes": sum(_text_bytes(row) for row in test)}
    except Exception as error:
        return {"error": failure(error).error}


def _text_bytes(value: Any) -> int:
    """Return the UTF-8 bytes of all text inside a value.

    Example:
        >>> _text_bytes({"question": "数?", "options": ["a", "b"], "id": 7})
        6
    """
    if isinstance(value, str):
        return len(value.encode("utf-8", "surrogatepass"))
    if isinstance(value, Mapping):
        return sum(map(_text_bytes, value.values()))
    if isinstance(value, (list, tuple)):
        return sum(map(_text_bytes, value))
    return 0


def main() -> int:
    """Measure the datasets that come in on the standard input."""
    configs = json.load(sys.stdin)
    # What libraries print must not stand among the replies.
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for config in configs:
        print(json.dumps(measure(config)), file=replies, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
