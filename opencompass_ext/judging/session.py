"""Ask a judge many questions: each once, everything on record, nothing asked that is known.

question -> calls -> transcript? -> cache? -> judge -> reply -> read -> verdicts
              ^                                          |
              +---- cut, unreadable, missing: once more -+
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

from opencompass_ext.checks import check_least
from opencompass_ext.errors import OutputError
from opencompass_ext.judging.base import BaseJudge, Call, Reply, request_key
from opencompass_ext.judging.cache import ReplyCache
from opencompass_ext.judging.jobs import Job, Taken
from opencompass_ext.judging.planning import Planner
from opencompass_ext.judging.prompts.templates import load_templates
from opencompass_ext.judging.questions import (
    DECOMPOSE_KINDS,
    MATCH_KINDS,
    Decompose,
    Decomposition,
    Match,
    Verdict,
)
from opencompass_ext.judging.results import DecomposeResult, MatchResult
from opencompass_ext.judging.transcript import Transcript
from opencompass_ext.judging.usage import Usage
from opencompass_ext.redact import hide_secrets

logger = logging.getLogger(__name__)

# Problems told one by one; the transcript has all of them.
_MOST_WARNINGS = 20
_ASKED_OTHERWISE = "it cannot be read; the same was asked again in a simpler form"


class JudgeSession:
    """Asks one judge, for one transcript. To be used in a ``with`` block, by one thread at a time.

    Args:
        judge: Who answers.
        transcript: The record; what it already holds is not asked again.
        cache: Replies kept over runs; None for no cache.
        lang: Language of the prompts: ``"en"``, ``"zh"``, or a folder with templates of your own.
        units_per_call: Most units a judge gives verdicts on in one call; 1 asks for each by itself.
        on_reply: Called after each reply of the judge, when it is on record; what it raises ends
            the asking.

    Raises:
        ConfigError: ``units_per_call`` or ``lang`` cannot be.
        OutputError: Transcript or cache cannot be opened.
    """

    def __init__(
        self,
        judge: BaseJudge,
        transcript: Path,
        cache: Path | None = None,
        lang: str = "en",
        units_per_call: int = 10,
        on_reply: Callable[[], None] | None = None,
    ) -> None:
        check_least(1, units_per_call=units_per_call)
        self._judge = judge
        self._templates = load_templates(lang)
        self._identity = judge.identity()
        self._planner = Planner(judge, self._templates, units_per_call)
        self._lang = lang
        self._units_per_call = units_per_call
        self._usage = Usage()
        self._warnings = 0
        self._on_reply = on_reply
        self._cache = None if cache is None else ReplyCache(cache)
        try:
            self._transcript = Transcript(transcript)
        except OutputError:
            self._close_cache()
            raise

    def __enter__(self) -> JudgeSession:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close transcript and cache."""
        try:
            self._transcript.close()
        finally:
            self._close_cache()

    def _close_cache(self) -> None:
        if self._cache is not None:
            self._cache.close()

    def decompose(self, questions: Sequence[Decompose]) -> list[Decomposition]:
        """Return the units of each text, in order; equal questions are asked once.

        Raises:
            ConfigError: The judge's ``max_tokens`` is too small for any list of units.
            ModelError: The judge cannot be used at all. What it said before is on record.
        """
        results: dict[Decompose, DecomposeResult] = {}

        def jobs() -> Iterator[Job]:
            for question in dict.fromkeys(questions):
                results[question], of_question = self._planner.decompose(question)
                yield from of_question

        self._run(jobs())
        return [results[question].value() for question in questions]

    def match(self, questions: Sequence[Match]) -> list[tuple[Verdict, ...]]:
        """Return one verdict per unit of each question, in order; equal questions are asked once.

        Raises:
            ModelError: The judge cannot be used at all. What it said before is on record.
        """
        results: dict[Match, MatchResult] = {}

        def jobs() -> Iterator[Job]:
            for question in dict.fromkeys(questions):
                results[question], of_question = self._planner.match(question)
                yield from of_question

        self._run(jobs())
        return [results[question].value() for question in questions]

    def usage(self) -> Mapping[str, Mapping[str, Any]]:
        """Return calls and tokens by kind of question and origin; see ``Usage.to_rows``."""
        return self._usage.to_rows()

    def provenance(self) -> dict[str, Any]:
        """Return what the verdicts rest on: the judge, its settings, and the prompts' versions."""
        return {
            "judge": hide_secrets(dict(self._identity)),
            "lang": self._lang,
            "units_per_call": self._units_per_call,
            "prompt_versions": {
                kind: self._templates.version(kind) for kind in (*DECOMPOSE_KINDS, *MATCH_KINDS)
            },
        }

    def _run(self, jobs: Iterable[Job]) -> None:
        """Bring jobs to their end, round by round: the next holds what has to be asked again."""
        while True:
            again: list[Job] = []
            self._run_once(jobs, again)
            if not again:
                return
            jobs = again

    def _run_once(self, jobs: Iterable[Job], again: list[Job]) -> None:
        asked: dict[int, tuple[Job, str]] = {}
        twins: dict[str, list[Job]] = {}

        def to_ask() -> Iterator[Call]:
            number = 0
            for job in jobs:
                key = request_key(self._identity, job.call)
                if key in twins:
                    twins[key].append(job)
                    continue
                reply, origin = self._find(key, job.call)
                if reply is not None:
                    again.extend(self._take(job, key, reply, origin))
                    continue
                asked[number], twins[key] = (job, key), []
                number += 1
                yield job.call

        for number, reply in self._judge.ask(to_ask()):
            job, key = asked.pop(number)
            again.extend(self._take(job, key, reply, "judge"))
            for twin in twins.pop(key):
                again.extend(self._take(twin, key, replace(reply, earlier=()), "transcript"))
            if self._on_reply is not None:
                self._on_reply()

    def _find(self, key: str, call: Call) -> tuple[Reply | None, str]:
        reply = self._transcript.find(key, call.max_tokens)
        if reply is not None or self._cache is None:
            return reply, "transcript"
        return self._cache.find(key), "cache"

    def _take(self, job: Job, key: str, reply: Reply, origin: str) -> list[Job]:
        """Hand a reply to its job, and write it down; return the jobs that go on."""
        for earlier in reply.earlier:
            self._usage.add(job.call.kind, origin, earlier)
            self._transcript.add(
                key, job.call, earlier, source=origin, parsed=None, problem=_ASKED_OTHERWISE
            )
        reply = replace(reply, earlier=())
        taken = job.take(reply, key)
        self._usage.add(job.call.kind, origin, reply)
        if origin != "transcript":
            self._transcript.add(
                key, job.call, reply, source=origin, parsed=taken.parsed, problem=taken.problem
            )
        if origin == "judge" and taken.problem is None and self._cache is not None:
            self._cache.add(key, job.call, reply)
        if taken.problem is not None:
            self._warn(job.call.kind, taken)
        return taken.next_jobs

    def _warn(self, kind: str, taken: Taken) -> None:
        self._warnings += 1
        if self._warnings <= _MOST_WARNINGS:
            logger.warning("judge, %s: %s; %s", kind, taken.problem, _what_follows(taken))
        if self._warnings == _MOST_WARNINGS:
            logger.warning("further problems stand only in %s", self._transcript.path)


def _what_follows(taken: Taken) -> str:
    if taken.next_jobs:
        return "asked once more"
    return "said twice, so it stands" if taken.stands else "left without an answer"
