"""A system under test that is replayed from its log: nothing is loaded, nothing generated."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from opencompass_ext.datasets.paths import find_data_file
from opencompass_ext.datasets.rag_rows import (
    RAG_EXTENSIONS,
    index_by_id,
    required_text,
    sources_of,
)
from opencompass_ext.datasets.row_files import FileRows, read_rows
from opencompass_ext.digests import file_sha256
from opencompass_ext.errors import ConfigError, DataError
from opencompass_ext.models.base import BaseModel
from opencompass_ext.records import GeneratedText, GenerationRequest, LabelledText, ScoredText
from opencompass_ext.registry import MODELS

_SHOWN_IDS = 5


@MODELS.register_module()
class RecordedModel(BaseModel):
    """Answers each row of a data set with what a system's log holds under the row's id.

    A row of the log is ``{"id", "response"}``, with ``sources`` where the system retrieved its own
    (in the forms of ``RAGDataset``) and ``query`` where it was kept, which is then compared with
    the data set's. A response that is null or empty means that the system gave none. The log may
    hold more rows than the data set, in any order.

    Several systems are several models, each with its log; the table has a column for each. The
    prompt is not looked at, nor are lengths and stop words.

    Args:
        path: The log: ``.jsonl``, ``.json``, or either with ``.gz``. A relative path is looked up
            below the current folder, then among the files shipped with the package. None: the data
            set itself is the log, with the answers in its column ``response``.

    Raises:
        DataError: There is no such file.
    """

    row_fields = ("id", "query", "response")

    def __init__(self, path: str | None = None) -> None:
        self.path = path
        self._file = None if path is None else find_data_file(path, None, RAG_EXTENSIONS)

    def identity(self) -> Mapping[str, Any]:
        """Return the hash of the log: a changed log is another system."""
        digest = None if self._file is None else file_sha256(self._file)
        return {"type": "RecordedModel", "log_sha256": digest}

    def provenance(self) -> Mapping[str, Any]:
        """Return which log is replayed."""
        return {"log": None if self._file is None else str(self._file)}

    def score_spans(
        self,
        texts: Sequence[LabelledText],
        *,
        finished: Collection[int] = (),
        batch_rows: int | None = None,
        token_details: bool = False,
        prefix_token: str | None = None,
        long_text: str | None = None,
    ) -> Iterator[dict[int, ScoredText]]:
        """Refuse: a log has no likelihoods.

        Raises:
            ConfigError: Always.
        """
        raise _cannot("score texts")

    def get_token_len(self, prompt: str) -> NoReturn:
        """Refuse: a log has no tokenizer.

        Raises:
            ConfigError: Always.
        """
        raise _cannot("count tokens")

    def generate_texts(
        self,
        requests: Sequence[GenerationRequest],
        *,
        max_out_len: int,
        min_out_len: int | None = None,
        stop_words: Sequence[str] = (),
        json_schema: Mapping[str, Any] | None = None,
        finished: Collection[int] = (),
        batch_rows: int | None = None,
    ) -> Iterator[dict[int, GeneratedText]]:
        """Yield what the log holds for all requests, in one batch.

        Raises:
            DataError: A row of the data set has no id, the log lacks an id, a row of the log is not
                as it must be, or its query is another one.
        """
        done = frozenset(finished)
        wanted = [index for index in range(len(requests)) if index not in done]
        if self._file is None:
            answers = {index: _own_response(index, requests[index].row) for index in wanted}
        else:
            answers = self._look_up(requests, wanted, self._file)
        if answers:
            yield answers

    def _look_up(
        self, requests: Sequence[GenerationRequest], wanted: Sequence[int], file: Path
    ) -> dict[int, GeneratedText]:
        ids = [_id_of(number, request) for number, request in enumerate(requests)]
        log = read_rows(file)
        places = index_by_id(log)
        missing = [name for name in ids if name not in places]
        if missing:
            shown = ", ".join(map(repr, missing[:_SHOWN_IDS]))
            more = f" and {len(missing) - _SHOWN_IDS} more" if len(missing) > _SHOWN_IDS else ""
            raise DataError(
                f"{log.path} has no row for {len(missing)} of the {len(ids)} ids of the data set: "
                f"{shown}{more}; add them to the log (response: null where the system gave none), "
                "or leave those rows out with reader_cfg -> test_range"
            )
        return {i: _replay(log, places[ids[i]], requests[i].row) for i in wanted}


def _own_response(number: int, row: Mapping[str, Any]) -> GeneratedText:
    if "response" not in row:
        raise DataError(
            f"row {number}: the data set has no column 'response' to replay: give RecordedModel "
            "the path of a log, or add the column"
        )
    return GeneratedText(required_text(row, "response", may_be_empty=True))


def _replay(log: FileRows, place: int, asked: Mapping[str, Any]) -> GeneratedText:
    row = log.rows[place]
    try:
        text = required_text(row, "response", may_be_empty=True)
        sources = sources_of(row)
        if row.get("query") is not None and _words(row["query"]) != _words(asked.get("query")):
            raise DataError(
                f"the id {row['id']!r} belongs to the query {row['query']!r:.100}, in the data set "
                f"to {asked.get('query')!r:.100}: is this the log of another data set?"
            )
    except DataError as error:
        raise DataError(f"{log.where(place)}: {error}") from error
    return GeneratedText(text, sources=sources)


def _words(query: Any) -> list[str]:
    return str(query).split()


def _id_of(number: int, request: GenerationRequest) -> str:
    name = request.row.get("id")
    if name is None:
        raise DataError(
            f"row {number}: no column 'id', by which a RecordedModel finds the answer: use a data "
            "set with ids, such as a RAGDataset"
        )
    return str(name)


def _cannot(act: str) -> ConfigError:
    return ConfigError(
        f"a RecordedModel replays a log and cannot {act}: use it with GenInferencer, or a model "
        "with weights"
    )
