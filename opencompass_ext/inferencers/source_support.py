r"""Each response read twice, after its sources and without them: groundedness without a judge.

    after_sources   Source: {sources} \n\n Summary:\n response      the frame, filled in
    alone           Source:           \n\n Summary:\n response      the frame without sources

The response is tokenised apart in both, so it has the same tokens; its sentences are spans of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

from opencompass_ext.datasets.rag_rows import is_blank, sources_of
from opencompass_ext.errors import ConfigError, DataError
from opencompass_ext.inferencers.columns import checked_text
from opencompass_ext.inferencers.scoring import LabelledRow, ScoringInferencer
from opencompass_ext.models.options import check_choice
from opencompass_ext.prompting import Rendered
from opencompass_ext.records import LabelledText, Span
from opencompass_ext.registry import INFERENCERS
from opencompass_ext.sentences import sentence_spans

FRAMES = {
    False: "Source: {sources}\n\nSummary:\n",
    True: "Source: {sources}\n\nQuestion: {query}\n\nSummary:\n",
}
"""What stands before a response, by whether the query does."""

LONG_TEXTS = ("error", "window")
SOURCE_SEPARATOR = "\n\n"
_RESPONSE = "response"
_SOURCES = "{sources}"
_QUERY = "{query}"


class Leads(NamedTuple):
    """What stands before a response in its two readings."""

    after_sources: str
    alone: str


@INFERENCERS.register_module()
class SourceSupportInferencer(ScoringInferencer):
    """Writes the likelihood of each response after its sources, and without them.

    Rows are those of a ``RAGDataset`` that have a ``response``. Under ``after_sources`` and
    ``alone`` stand ``ppl``, the summed NLL in nats, and ``token_len`` of the response;
    ``sentences`` has both for each sentence, and ``tokens`` the NLL of every token. Responses to
    the same sources share the reading of them.

    A row without a response or without sources is null with a reason.

    Args:
        with_query: Put the query before the response in both readings, so that what it explains
            is not credited to the sources.
        frame: What stands before the response, with ``{sources}`` and, if you like, ``{query}`` in
            it; None: see ``FRAMES``. There must be more in it, which the response follows in the
            reading without sources too.
        long_text: Sources and response together longer than the model are an ``"error"``, or read
            in a ``"window"`` after another: the response then follows as much of the end of the
            sources as fits, and the row says so.
        language: ISO 639-1 code of the responses, whose abbreviations do not end a sentence.
        response_column: Column of the response.
        **kwargs: See ``BaseInferencer``.

    Raises:
        ConfigError: An option has a value it cannot have.
    """

    needs_template: ClassVar[bool] = False

    def __init__(
        self,
        *args: Any,
        with_query: bool = False,
        frame: str | None = None,
        long_text: str = "error",
        language: str = "en",
        response_column: str = "response",
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        check_choice("long_text", long_text, LONG_TEXTS)
        self.frame = _checked_frame(FRAMES[bool(with_query)] if frame is None else frame)
        if with_query and _QUERY not in self.frame:
            raise ConfigError(f"with_query=True needs {_QUERY} in the frame, got {frame!r}")
        self.long_text = long_text
        self.language = language
        self.response_column = response_column

    def settings(self) -> Mapping[str, Any]:
        """Return the settings that change what a prediction holds."""
        return {"frame": self.frame, "long_text": self.long_text, "language": self.language}

    def scoring_options(self) -> dict[str, Any]:
        """Return the keyword arguments for the model's ``score_spans``."""
        return {**super().scoring_options(), "token_details": True, "long_text": self.long_text}

    def row_name(self, number: int, row: Mapping[str, Any]) -> str:
        """Return number and id, for an error."""
        return f"row {number} (id {row.get('id')!r})"

    def key_content(self, prepared: LabelledRow) -> Any:
        """Return the texts, and the id that the prediction carries."""
        row = prepared.row
        return [super().key_content(prepared), row.get("id"), self._response(row)]

    def label(self, row: Mapping[str, Any], prompt: Rendered | None) -> Mapping[str, LabelledText]:
        """Return the two readings; none for a row without response or sources."""
        if prompt is not None:
            raise ConfigError(
                "SourceSupportInferencer takes no prompt_template: its 'frame' says what stands "
                f"before a response, such as {FRAMES[False]!r}"
            )
        if self._why_not(row) is not None:
            return {}
        response = self._response(row)
        spans = _spans(response, self.language)
        sources = SOURCE_SEPARATOR.join(_texts(row))
        leads = fill_frame(self.frame, sources, _query(row))
        return {name: _after(lead, response, spans) for name, lead in leads._asdict().items()}

    def to_prediction(
        self,
        row: Mapping[str, Any],
        texts: Mapping[str, LabelledText],
        scored: Mapping[str, Mapping[str, Any]],
    ) -> dict[str, Any]:
        """Return both readings of the response, of its sentences and of its tokens."""
        response, reason = self._response(row), self._why_not(row)
        shown: dict[str, Any] = {
            "origin_prompt": texts["after_sources"].text if texts else None,
            "id": row.get("id"),
            "response": response,
            "source_count": len(_texts(row)),
        }
        if reason is not None:
            nothing = dict.fromkeys(("after_sources", "alone", "sentences", "tokens"))
            return {**shown, **nothing, "reason": reason}
        after, alone = (scored[name]["spans"] for name in Leads._fields)
        whole = after.pop(_RESPONSE), alone.pop(_RESPONSE)
        details = [part.pop("token_details", None) for part in whole]
        sentences = _spans(response, self.language)
        del sentences[_RESPONSE]
        return {
            **shown,
            "after_sources": whole[0],
            "alone": whole[1],
            "sentences": [
                {
                    "start": start,
                    "end": end,
                    **{
                        reading: {key: parts[name][key] for key in ("ppl", "token_len", "reason")}
                        for reading, parts in (("after_sources", after), ("alone", alone))
                    },
                }
                for name, (start, end) in sentences.items()
            ],
            "tokens": _tokens(details, len(texts["alone"].text) - len(response)),
            "reason": None,
        }

    def _response(self, row: Mapping[str, Any]) -> str:
        if self.response_column not in row:
            raise DataError(
                f"there is no column {self.response_column!r} with the response (columns: "
                f"{', '.join(map(str, row))}): name it by response_column"
            )
        response = row[self.response_column]
        return "" if response is None else checked_text(self.response_column, response)

    def _why_not(self, row: Mapping[str, Any]) -> str | None:
        """Return why a row cannot be scored, in one word; None if it can."""
        if is_blank(self._response(row)):
            return "no_response"
        if not _texts(row):
            return "no_sources"
        if _QUERY in self.frame and is_blank(_query(row)):
            return "no_query"
        return None


def _query(row: Mapping[str, Any]) -> str:
    query = row.get("query")
    return "" if query is None else checked_text("query", query)


def fill_frame(frame: str, sources: str, query: str) -> Leads:
    r"""Return what stands before a response in its two readings; the texts go in verbatim.

    Example:
        >>> fill_frame("Source: {sources}\nSummary: ", "Tea {query} is hot.", "")
        Leads(after_sources='Source: Tea {query} is hot.\nSummary: ', alone='Source: \nSummary: ')
    """
    before, behind = (part.replace(_QUERY, query) for part in frame.split(_SOURCES))
    return Leads(before + sources + behind, before + behind)


def _checked_frame(frame: object) -> str:
    problem = None
    if not isinstance(frame, str) or frame.count(_SOURCES) != 1:
        problem = f"must be a text with {_SOURCES} in it once"
    elif frame == _SOURCES:
        problem = (
            f"must hold more than {_SOURCES}: without sources the response would follow nothing"
        )
    if problem is not None:
        raise ConfigError(f"frame {problem}, such as {FRAMES[False]!r}; got {frame!r}")
    assert isinstance(frame, str)
    return frame


def _texts(row: Mapping[str, Any]) -> list[str]:
    sources = sources_of(row)
    if sources is None:
        raise DataError(
            f"there is no column 'sources' (columns: {', '.join(map(str, row))}): give a list of "
            "texts, empty where nothing was retrieved"
        )
    return [source["text"] for source in sources if not is_blank(source["text"])]


def _spans(response: str, language: str) -> dict[str, Span]:
    """Return the whole response and its sentences, by name."""
    sentences = enumerate(sentence_spans(response, language), start=1)
    return {_RESPONSE: (0, len(response)), **{str(n): span for n, span in sentences}}


def _after(lead: str, response: str, spans: Mapping[str, Span]) -> LabelledText:
    offset = len(lead)
    return LabelledText(
        text=lead + response,
        spans={name: ((offset + start, offset + end),) for name, (start, end) in spans.items()},
        cuts=(offset,),
    )


def _tokens(details: list[Any], offset: int) -> dict[str, list[Any]] | None:
    """Return the tokens as columns, in characters of the response; None from a model without."""
    after, alone = details
    if after is None or alone is None:
        return None
    return {
        "start": [start - offset for start in alone["start"]],
        "end": [end - offset for end in alone["end"]],
        "after_sources": after["nll"],
        "alone": alone["nll"],
    }
