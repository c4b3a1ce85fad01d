"""How an endpoint is asked for JSON: by schema, by JSON mode, or in words, whichever it can.

"OpenAI-compatible" servers differ: one refuses a schema, another takes it and answers in prose. The
first calls go down the ladder, one at a time, until a reply can be read; then all calls ask that
way. A busy or broken server (429, 5xx) says nothing about the ladder.
"""

from __future__ import annotations

import json
import logging
import re
from typing import Any

from opencompass_ext.judging.base import REPLY_FORMATS, Call, Message, Reply
from opencompass_ext.judging.replies import has_form

logger = logging.getLogger(__name__)

# Answers that say nothing about the form, being cut or refused, before it is left as it is.
_MOST_SILENT = 3
_SPEAKS_OF_FORMAT = re.compile(r"response_format|json_schema|json_object|schema|grammar", re.I)


class ReplyFormat:
    """The form one endpoint is asked in.

    Args:
        wanted: One of ``REPLY_FORMATS``, or ``"auto"`` to find out.
        url: Of the endpoint, for the log.

    Attributes:
        now: One of ``REPLY_FORMATS``.
        is_settled: Whether it has been found out.
    """

    def __init__(self, wanted: str, url: str) -> None:
        self.now = REPLY_FORMATS[0] if wanted == "auto" else wanted
        self.is_settled = wanted != "auto"
        self._is_fixed = self.is_settled
        self._url = url
        self._silent = 0

    def in_body(self, call: Call) -> dict[str, Any]:
        """Return what the body of a request says about the form of its reply."""
        if self.now == "json_schema":
            schema = {"name": call.kind, "strict": True, "schema": call.schema}
            return {"response_format": {"type": "json_schema", "json_schema": schema}}
        return {"response_format": {"type": "json_object"}} if self.now == "json_object" else {}

    def messages(self, call: Call) -> list[Message]:
        """Return the prompt, with the schema in it where the request itself does not carry it."""
        if self.now == "json_schema":
            return list(call.messages)
        *before, last = call.messages
        schema = json.dumps(call.schema, ensure_ascii=False)
        return [*before, {**last, "content": f"{last['content']}\n\nJSON schema: {schema}"}]

    def step_down(self, why: str) -> bool:
        """Ask in a simpler form from now on; return False if there is none."""
        if self._is_fixed or self.now == REPLY_FORMATS[-1]:
            return False
        simpler = REPLY_FORMATS[REPLY_FORMATS.index(self.now) + 1]
        logger.info("%s: does not do %s (%s), trying %s", self._url, self.now, why[:120], simpler)
        self.now = simpler
        self.is_settled = False
        return True

    def start_over(self) -> None:
        """Go back to the first form: what was refused was the request, not its form."""
        if not self._is_fixed:
            self.now, self.is_settled = REPLY_FORMATS[0], False

    def note_reply(self, call: Call, reply: Reply) -> bool:
        """Take note of an answer; return False if the same call is to be sent once more."""
        if self.is_settled:
            return True
        if reply.text is None or reply.finish_reason == "length":
            self._silent += 1
            if self._silent >= _MOST_SILENT:
                self._settle()
            return True
        if self.now == REPLY_FORMATS[-1] or has_form(call.kind, reply.text):
            self._settle()
            return True
        return not self.step_down("the reply cannot be read")

    def _settle(self) -> None:
        self.is_settled = True
        logger.info("%s: replies are asked for as %s", self._url, self.now)


def speaks_of_format(said: str) -> bool:
    """Return whether a server's words about a refused request are about the form of the reply."""
    return bool(_SPEAKS_OF_FORMAT.search(said))
