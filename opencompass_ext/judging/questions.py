"""What a metric asks a judge, and what it gets back.

Two kinds of question. ``Decompose`` turns one text into units; ``Match`` gives each unit a binary
verdict. A verdict has three states: yes, no, and unreadable, which is None with a reason and never
counts as either.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from opencompass_ext.errors import DataError

DecomposeKind = Literal["claims", "facts", "subquestions"]
MatchKind = Literal["essential", "covers", "supported", "same"]
DECOMPOSE_KINDS: tuple[str, ...] = get_args(DecomposeKind)
MATCH_KINDS: tuple[str, ...] = get_args(MatchKind)


@dataclass(frozen=True, slots=True)
class Source:
    """One text that units are held against.

    Attributes:
        id: What the verdict names as its ``source_id``; unique within a question.
        text: The text.
    """

    id: str
    text: str


@dataclass(frozen=True, slots=True)
class Decompose:
    """A text to be cut into units.

    Attributes:
        kind: ``"claims"``: the stand-alone claims of a response, which may be a refusal that has
            none. ``"facts"``: the stand-alone facts of a source. ``"subquestions"``: the short
            stand-alone questions of a query, pronouns resolved.
        text: The text; must not be blank.
        query: What the text answers, to resolve its pronouns; None where there is none.

    Raises:
        DataError: The text is blank: there is nothing to ask a judge about.
    """

    kind: DecomposeKind
    text: str
    query: str | None = None

    def __post_init__(self) -> None:
        if self.kind not in DECOMPOSE_KINDS:
            raise ValueError(f"kind must be one of {DECOMPOSE_KINDS}, got {self.kind!r}")
        if not self.text.strip():
            raise DataError(f"a text to be cut into {self.kind} must not be blank")


@dataclass(frozen=True, slots=True)
class Match:
    """Units, each of which gets a verdict.

    Attributes:
        kind: What a yes means, for each unit by itself:

            - ``"essential"``: the unit (a chunk, fact or claim) is essential to answer ``query``.
            - ``"covers"``: ``sources`` together answer the unit, a sub-question.
            - ``"supported"``: ``sources`` together support the unit, a claim.
            - ``"same"``: the unit says the same as the one text in ``sources``. The pairs of n
              sentences are n - 1 questions: each sentence against those after it.
        units: The units; none of them blank.
        query: The user's query; needed for ``"essential"``, helps for the others.
        sources: Texts the units are held against; none for ``"essential"``.

    Raises:
        DataError: A unit is blank, or sources are missing, blank, or share an id.
    """

    kind: MatchKind
    units: tuple[str, ...]
    query: str | None = None
    sources: tuple[Source, ...] = ()

    def __post_init__(self) -> None:
        if self.kind not in MATCH_KINDS:
            raise ValueError(f"kind must be one of {MATCH_KINDS}, got {self.kind!r}")
        for position, unit in enumerate(self.units):
            if not unit.strip():
                raise DataError(f"unit {position} of a question {self.kind!r} is blank")
        if self.kind == "essential":
            if self.query is None or self.sources:
                raise DataError("a question 'essential' needs a query and takes no sources")
            return
        ids = [source.id for source in self.sources]
        if len(set(ids)) != len(ids):
            raise DataError(f"the sources of a question must have different ids, got {ids}")
        if not any(source.text.strip() for source in self.sources):
            raise DataError(f"a question {self.kind!r} needs a source that is not blank")
        if self.kind == "same" and len(self.sources) != 1:
            raise DataError(f"a question 'same' needs exactly one source, got {len(ids)}")


@dataclass(frozen=True, slots=True)
class Decomposition:
    """The units of a text.

    Attributes:
        units: In the order of the text, each once; empty where the judge insists that there are
            none, as in a refusal; None when the judge gave no usable answer.
        reason: Why ``units`` is None: ``"judge_error"``, ``"judge_truncated"``,
            ``"judge_timeout"``, ``"judge_rate_limited"``, ``"judge_unavailable"`` or
            ``"too_long_for_judge"``.
        is_refusal: The text declines to answer.
        calls: Hashes of the requests it rests on, as in the transcript.
    """

    units: tuple[str, ...] | None
    reason: str | None = None
    is_refusal: bool = False
    calls: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a judge says of one unit.

    Attributes:
        unit: The unit.
        is_yes: The verdict; None when unreadable.
        is_unsure: The judge cannot tell, which counts as no.
        probability: Of a yes, where the judge gives one; in [0, 1].
        why: The judge's words.
        source_id: The source a yes rests on, where the judge names one.
        reason: Why ``is_yes`` is None: those of ``Decomposition``, or ``"incomplete_verdicts"``.
        calls: Hashes of the requests it rests on, as in the transcript.
    """

    unit: str
    is_yes: bool | None
    is_unsure: bool = False
    probability: float | None = None
    why: str | None = None
    source_id: str | None = None
    reason: str | None = None
    calls: tuple[str, ...] = ()
