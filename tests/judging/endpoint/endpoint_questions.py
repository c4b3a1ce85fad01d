"""Questions for an endpoint, and what came of them."""

from opencompass_ext.judging import Match, Source
from opencompass_ext.judging.base import Unit
from opencompass_ext.judging.prompts.render import match_call
from opencompass_ext.judging.prompts.templates import load_templates

KEY = "sk-Very-Secret-0123456789"
TRUE = "The tower stands in Paris."
FALSE = "The tower is made of cheese."
SOURCE = Source("s1", f"{TRUE} It opened in 1889.")


def row(number, *, claims=(TRUE, FALSE)):
    """A question of its own for each number."""
    return Match("supported", claims, query=f"Query {number}?", sources=(SOURCE,))


def open_questions(count):
    return [row(i) for i in range(count)]


def calls_of(questions):
    for question in questions:
        units = [Unit(i, text) for i, text in enumerate(question.units, start=1)]
        yield match_call(
            load_templates("en"),
            question.kind,
            units,
            question.query,
            [source.text for source in question.sources],
            100,
            by_likelihood=False,
        )


def states(verdicts):
    return [verdict.is_yes for verdict in verdicts]


def reasons(answers):
    return [verdict.reason for verdicts in answers for verdict in verdicts]
