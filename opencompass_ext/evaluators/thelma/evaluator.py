"""THELMA as an evaluator: answers and sources in, seven metrics with their evidence out."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opencompass_ext.errors import ConfigError
from opencompass_ext.evaluators.base import BaseEvaluator
from opencompass_ext.evaluators.checks import check_resampling
from opencompass_ext.evaluators.cosines import make_embedder
from opencompass_ext.evaluators.thelma.asking import judge_rows
from opencompass_ext.evaluators.thelma.judged import ScoringOptions
from opencompass_ext.evaluators.thelma.options import (
    check_asking,
    check_judge,
    check_shares,
    check_similarity,
    chosen_metrics,
)
from opencompass_ext.evaluators.thelma.rows import make_row
from opencompass_ext.evaluators.thelma.summary import Tally
from opencompass_ext.judging import BaseJudge
from opencompass_ext.metrics.thelma_diagnosis import HIGH, LOW
from opencompass_ext.registry import EVALUATORS, JUDGES
from opencompass_ext.writing import atomic_writer, to_json

if TYPE_CHECKING:
    from opencompass_ext.judging.session import JudgeSession
    from opencompass_ext.models.embedding import SentenceEmbedder

# So many rows are before the judge at a time, for each call that it works on at once. As a row
# makes some ten calls, waiting for the last of them takes a hundredth of the time; and memory does
# not grow with the data set, and progress is seen.
ROWS_PER_CONNECTION = 16
# Least time between two reports within a chunk.
REPORT_SECONDS = 1.0

_USED_FOR = {
    "claims": ("response_precision", "groundedness"),
    "facts": ("source_precision_fact",),
    "subquestions": ("source_query_coverage", "response_query_coverage"),
    "essential": ("source_precision_chunk", "source_precision_fact", "response_precision"),
    "covers": ("source_query_coverage", "response_query_coverage"),
    "supported": ("groundedness",),
    "same": ("response_self_distinctness",),
}


@EVALUATORS.register_module()
class ThelmaEvaluator(BaseEvaluator):
    """Judges a retrieval-augmented system by query, sources and response, without references.

    A judge cuts texts into units and gives each unit a verdict; the metrics are the means, see
    ``metrics.thelma``. Each text is cut once and each verdict asked once per row, however many
    metrics need it, and what is asked for a metric does not depend on the others. Whatever the
    judge says is kept in the transcript: evaluating again asks only what has no reply yet, and
    costs nothing when all have one, nor with fewer metrics.

    A row that the judge leaves without a usable answer has no value there, with the reason, and
    the others go on. When fewer than ``min_judged`` of the rows are judged in full, the task
    counts as failed after its results are written.

    The results hold, beside each metric, ``<metric>_ci95``, and under ``coverage`` how many rows
    it is taken over and why the others have no value; ``refusal_rate``, the share of the responses
    that decline to answer; ``counts``; ``diagnosis``, the paper's patterns with the component to
    mend; ``usage``, calls and tokens by kind of question, those paid for apart from replayed ones;
    ``judging``, all that decides the verdicts; ``details``, the scores of each row.

    Args:
        judge_cfg: Config of the judge, such as ``dict(type=EndpointJudge, url=..., model=...)``.
        metrics: ``"all"``, or a list of names of ``metrics.thelma.METRICS``.
        similarity: Who says whether two sentences repeat each other: the ``"judge"``, or the cosine
            of an ``"embedding"`` model.
        embedding_model: Config of it: ``path`` and the other arguments of ``SentenceEmbedder``.
        joint: Source query coverage by one verdict on all sources together, since an answer may be
            spread over several; without it a sub-question counts when a single source answers it.
        soft: Average the judge's probabilities instead of 0 and 1; for a judge that answers by
            likelihood, such as ``LocalJudge``.
        literal_eq7: Self-distinctness as the paper prints it, see ``metrics.thelma``.
        lang: Language of the prompts: ``"en"``, ``"zh"``, or a folder with templates of your own.
        sentence_language: ISO 639-1 code of the responses, whose abbreviations do not end a
            sentence; sentences of every script are told apart whatever it is.
        units_per_call: Most units that the judge is given at a time; 1 is one call per unit, as in
            the paper.
        cache: File in which the judge's replies are kept over runs; None keeps none beside the
            transcript.
        low: A metric below it is low in the diagnosis.
        high: A metric of at least it is high in the diagnosis.
        min_coverage: Share of the rows that a metric must be scored on for its mean to be shown.
        min_judged: See above; 0 lets any number of failures pass.
        seed: Seed of the bootstrap.
        transcript: File of the judge's record, given by the task; None keeps no record.
        evidence: File for the units and verdicts of each row, a JSON object a line, given by the
            task; None puts them into the details of the results.
        progress: Called with rows done, rows in all, and 0, given by the task.

    Raises:
        ConfigError: An argument has a value it cannot have.
    """

    def __init__(
        self,
        judge_cfg: Mapping[str, Any],
        metrics: str | Sequence[str] = "all",
        similarity: str = "judge",
        embedding_model: Mapping[str, Any] | None = None,
        joint: bool = False,
        soft: bool = False,
        literal_eq7: bool = False,
        lang: str = "en",
        sentence_language: str = "en",
        units_per_call: int = 10,
        cache: str | None = None,
        low: float = LOW,
        high: float = HIGH,
        min_coverage: float = 0.0,
        min_judged: float = 1.0,
        seed: int = 0,
        transcript: str | Path | None = None,
        evidence: str | Path | None = None,
        progress: Callable[[int, int, int], None] | None = None,
    ) -> None:
        check_judge(judge_cfg)
        check_similarity(similarity, embedding_model)
        check_shares(low=low, high=high, min_coverage=min_coverage, min_judged=min_judged)
        check_resampling(seed)
        check_asking(judge_cfg, lang, units_per_call, soft=soft)
        if low > high:
            raise ConfigError(f"low={low} must not be above high={high}")
        self.judge_cfg = judge_cfg
        self.options = ScoringOptions(chosen_metrics(metrics), joint, soft, literal_eq7)
        self.similarity = similarity
        self.embedding_model = dict(embedding_model or {})
        self.lang = lang
        self.sentence_language = sentence_language
        self.units_per_call = units_per_call
        self.cache = cache
        self.low = low
        self.high = high
        self.min_coverage = min_coverage
        self.min_judged = min_judged
        self.seed = seed
        self.transcript = transcript
        self.evidence = evidence
        self.progress = progress
        self._reported = (0, 0, 0.0)

    def score(
        self,
        prediction: Sequence[str | None],
        test_set: Sequence[Mapping[str, Any]],
        sources: Sequence[Any] | None = None,
        finish_reason: Sequence[str | None] | None = None,
    ) -> dict[str, Any]:
        """Return the metrics, coverage, diagnosis, usage and details of one data set.

        Args:
            prediction: The response of each row.
            test_set: The rows of the data set: ``query``, and ``sources`` unless the system
                brought its own.
            sources: What the system retrieved itself, for each row; None where it did not say.
            finish_reason: ``"length"`` for a response that a limit of tokens cut; those are
                counted, as their last claim may be half a sentence.

        Raises:
            ConfigError: The judge gives no probabilities, and ``soft`` asks for them.
            PredictionsError: A row is not as it must be.
            ModelError: The judge cannot be used at all, or the embedding model not be loaded.
        """
        embedder = self._embedder()
        total = len(test_set)
        self._report(0, total)
        judge = self._judge()
        chunk = ROWS_PER_CONNECTION * judge.concurrency
        with self._evidence_writer() as write, self._session(judge) as session:
            tally = Tally(self.options, self.low, self.high, write)
            for start in range(0, total, chunk):
                rows = [
                    make_row(
                        number,
                        test_set[number],
                        prediction[number],
                        None if sources is None else sources[number],
                        language=self.sentence_language,
                    )
                    for number in range(start, min(start + chunk, total))
                ]
                for judged in judge_rows(
                    rows,
                    session,
                    metrics=self.options.metrics,
                    joint=self.options.joint,
                    embedder=embedder,
                ):
                    tally.add(judged)
                self._report(len(tally.details), total)
            tally.counts["cut_responses"] = list(finish_reason or ()).count("length")
            usage, judging = session.usage(), session.provenance()
        return {
            **tally.results(seed=self.seed, min_coverage=self.min_coverage),
            **self._incomplete(tally),
            "usage": {
                kind: {"used_for": self._used_for(kind), **sums} for kind, sums in usage.items()
            },
            "judging": {**judging, **self._settings(embedder)},
            "report": "thelma",
        }

    @contextmanager
    def _evidence_writer(self) -> Iterator[Callable[[dict[str, Any]], None] | None]:
        if self.evidence is None:
            yield None
            return
        with atomic_writer(Path(self.evidence)) as file:

            def write(row: dict[str, Any]) -> None:
                file.write(to_json(row) + b"\n")

            yield write

    def _report(self, rows: int, total: int) -> None:
        self._reported = (rows, total, time.monotonic())
        if self.progress is not None:
            self.progress(rows, total, 0)

    def _report_again(self) -> None:
        """Report between two chunks too: a run that is to stop stops there."""
        rows, total, told = self._reported
        if time.monotonic() - told >= REPORT_SECONDS:
            self._report(rows, total)

    def _judge(self) -> BaseJudge:
        judge = JUDGES.build(self.judge_cfg)
        if not isinstance(judge, BaseJudge):
            raise ConfigError(f"judge_cfg: {type(judge).__name__} is no judge")
        return judge

    @contextmanager
    def _session(self, judge: BaseJudge) -> Iterator[JudgeSession]:
        from opencompass_ext.judging.session import JudgeSession

        with tempfile.TemporaryDirectory() as nowhere:
            transcript = Path(self.transcript or Path(nowhere, "transcript.jsonl"))
            cache = None if self.cache is None else Path(self.cache).expanduser()
            with JudgeSession(
                judge, transcript, cache, self.lang, self.units_per_call, self._report_again
            ) as session:
                yield session

    def _embedder(self) -> SentenceEmbedder | None:
        if self.similarity == "judge":
            return None
        embedder = make_embedder(self.embedding_model)
        embedder.load()
        return embedder

    def _incomplete(self, tally: Tally) -> dict[str, str]:
        rows = len(tally.details)
        if rows - tally.failed_rows >= self.min_judged * rows:
            return {}
        reasons = ", ".join(f"{reason}: {n}" for reason, n in tally.failures.most_common())
        return {
            "incomplete": f"the judge left questions on {tally.failed_rows} of {rows} rows without "
            f"a usable answer ({reasons}), so their metrics are null; -m eval -r asks again "
            "where no reply came (docs/judges.md says how to ask about the others again), "
            "min_judged lets such rows pass"
        }

    def _used_for(self, kind: str) -> list[str]:
        return [name for name in _USED_FOR[kind] if name in self.options.metrics]

    def _settings(self, embedder: SentenceEmbedder | None) -> dict[str, Any]:
        return {
            "similarity": self.similarity,
            "embedding_model": None if embedder is None else embedder.identity(),
            "joint": self.options.joint,
            "soft": self.options.soft,
            "literal_eq7": self.options.literal_eq7,
            "sentence_language": self.sentence_language,
            "seed": self.seed,
        }
