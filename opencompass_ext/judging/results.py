"""Where the replies to one question come together, whatever order they come in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from opencompass_ext.judging.base import Call, Unit
from opencompass_ext.judging.questions import Decomposition, Match, Verdict
from opencompass_ext.judging.replies import ReadUnits, ReadVerdict

# Where a part stands: its number, then the number of the piece of it, and so on.
Part = tuple[int, ...]


@dataclass
class DecomposeResult:
    """The units of a text, part by part; a part is None until its units are there."""

    parts: dict[Part, ReadUnits | None]
    reason: str | None = None
    calls: set[str] = field(default_factory=set)

    def note(self, key: str) -> None:
        """Note the hash of a call that this rests on."""
        self.calls.add(key)

    def split(self, part: Part, count: int) -> list[Part]:
        """Put ``count`` smaller parts in the place of one."""
        del self.parts[part]
        smaller = [(*part, i) for i in range(count)]
        self.parts.update(dict.fromkeys(smaller))
        return smaller

    def put(self, part: Part, read: ReadUnits) -> None:
        """Enter the units of one part."""
        self.parts[part] = read

    def fail(self, reason: str) -> None:
        """Give up one part, and with it the whole: half a list is no list."""
        self.reason = self.reason or reason

    def value(self) -> Decomposition:
        """Return the units of all parts in their order, each once."""
        calls = tuple(sorted(self.calls))
        read = [
            said
            for _, said in sorted(self.parts.items(), key=lambda item: item[0])
            if said is not None
        ]
        if self.reason is not None or len(read) < len(self.parts):
            return Decomposition(None, self.reason or "judge_error", calls=calls)
        units = tuple(dict.fromkeys(unit for part in read for unit in part.units))
        return Decomposition(units, None, all(part.is_refusal for part in read), calls)


@dataclass
class _Said:
    """What was said of one unit, over all parts of the sources."""

    yes: list[tuple[ReadVerdict, str | None]] = field(default_factory=list)
    other: list[ReadVerdict] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    calls: set[str] = field(default_factory=set)


class MatchResult:
    """The verdicts of a question's units.

    Args:
        question: The question.
        again: Makes the call for fewer units of a call.
    """

    def __init__(self, question: Match, again: Callable[[Call, Sequence[Unit]], Call]) -> None:
        self.question = question
        self.again = again
        self._said = {unit: _Said() for unit in question.units}
        self._units = list(self._said)

    @property
    def units(self) -> list[str]:
        """The distinct units; jobs name them by their place here."""
        return self._units

    def note(self, key: str, owners: Sequence[int]) -> None:
        """Note the hash of a call that these units rest on."""
        for owner in dict.fromkeys(owners):
            self._of(owner).calls.add(key)

    def put(self, owner: int, verdict: ReadVerdict, source_id: str | None) -> None:
        """Enter one verdict."""
        if verdict.word == "yes":
            self._of(owner).yes.append((verdict, source_id))
        else:
            self._of(owner).other.append(verdict)

    def fail(self, owner: int, reason: str) -> None:
        """Enter that a unit has no verdict on one part."""
        self._of(owner).reasons.append(reason)

    def value(self) -> tuple[Verdict, ...]:
        """Return one verdict for each unit of the question, in its order."""
        return tuple(_merge(unit, self._said[unit]) for unit in self.question.units)

    def _of(self, owner: int) -> _Said:
        return self._said[self._units[owner]]


def _merge(unit: str, said: _Said) -> Verdict:
    """Merge the verdicts on the parts of a long text: a yes on any part is a yes.

    Without a yes, a part without a verdict might have been one, so there is none.
    """
    calls = tuple(sorted(said.calls))
    probabilities = [v.probability for v in (*(y for y, _ in said.yes), *said.other)]
    known = [p for p in probabilities if p is not None]
    probability = max(known) if known and len(known) == len(probabilities) else None
    if said.yes:
        verdict, source_id = min(said.yes, key=_evidence)
        return Verdict(unit, True, False, probability, verdict.why, source_id, calls=calls)
    if said.reasons or not said.other:
        reason = min(said.reasons, default="judge_error")
        return Verdict(unit, None, reason=reason, calls=calls)
    unsure = [v for v in said.other if v.word == "unsure"]
    why = min((v.why for v in unsure or said.other), key=lambda w: w or "")
    return Verdict(unit, False, bool(unsure), probability, why, calls=calls)


def _evidence(yes: tuple[ReadVerdict, str | None]) -> tuple[float, bool, str, str]:
    """Order yeses so that which one is shown does not depend on which came first."""
    verdict, source_id = yes
    return (
        -(verdict.probability or 0.0),
        source_id is None,
        source_id or "",
        verdict.why or "",
    )
