"""Likelihoods of question and answer: against a plain computation, and the same in every way."""

import json
import math
import subprocess
import sys
import textwrap
from types import SimpleNamespace

import pytest
from support.reference import close, span_nll
from tokenizers import Tokenizer

from opencompass_ext.errors import ConfigError, DataError, ModelError
from opencompass_ext.inferencers import GEvalInferencer, GPTScoreInferencer, PPLqaInferencer
from opencompass_ext.models import HuggingFaceBaseModel, ScriptedModel
from opencompass_ext.prompting import PromptTemplate, ZeroRetriever

QUESTIONS = {
    "q1": ("Why is the sky blue?", ["Light is scattered.", "It is not.", "x", "😀"]),
    "q2": ("天空为什么是蓝色的？", ["因为光被散射。", "Light is scattered.", "\n\nLight."]),
    "q3": ("How?", [".", "\n"]),
}
ROWS = [
    {"id": name, "question": question, "model": f"m{i}", "answer": answer}
    for name, (question, answers) in QUESTIONS.items()
    for i, answer in enumerate(answers)
]


def infer(folder, model, rows=ROWS, kind=PPLqaInferencer, template=None, **options):
    inferencer = kind(
        model, output_json_filepath=str(folder), output_json_filename="d.json", **options
    )
    retriever = ZeroRetriever(SimpleNamespace(test=rows, train=rows))
    return inferencer.inference(retriever, prompt_template=template)


@pytest.fixture(scope="module")
def model(small_model):
    return HuggingFaceBaseModel(path=str(small_model))


@pytest.fixture(scope="module")
def plain(model, small_model):
    """Return the NLL of part of a text, worked out the plain way."""
    tokenizer = Tokenizer.from_file(str(small_model / "tokenizer.json"))

    def nll(*texts, count):
        """Texts are tokenised apart; the last ``count`` of them are counted. BOS stands first."""
        ids, ranges = [], []
        for number, text in enumerate(texts):
            own = tokenizer.encode(text, add_special_tokens=False).ids
            is_counted = number >= len(texts) - count
            ranges += [(1, 2) if is_counted else (0, 1)] * len(own)
            ids += own
        return span_nll(model._loaded.model, ids, ranges, [(1, 2)], prefix=[0])

    return nll


def is_like(part, expected):
    return close(part["ppl"], expected[0]) and part["token_len"] == expected[1]


def test_all_parts_are_those_of_a_plain_computation(tmp_path, model, plain):
    rows = infer(tmp_path, model, baselines=["gptscore", "geval"])
    for row, prediction in zip(ROWS, rows, strict=True):
        if not row["answer"].strip():
            continue
        question, answer = row["question"] + "\n", row["answer"]
        assert is_like(prediction["q"], plain(question, count=1))
        assert is_like(prediction["a_given_q"], plain(question, answer, count=1))
        assert is_like(prediction["a"], plain(answer, count=1))
        assert prediction["a"]["token_len"] == prediction["a_given_q"]["token_len"]
        assert prediction["origin_prompt"] == question + answer
        assert [prediction[name] for name in ("id", "model", "reason")] == [
            row["id"],
            row["model"],
            None,
        ]
        assert prediction["answer_chars"] == len(answer)


def test_rivals_in_the_same_run_are_their_own_inferencers(tmp_path, model):
    together = infer(tmp_path / "all", model, baselines=["geval", "gptscore"])
    for kind, name in ((GPTScoreInferencer, "gptscore"), (GEvalInferencer, "geval")):
        alone = infer(tmp_path / name, model, kind=kind)
        for row, other in zip(alone, together, strict=True):
            assert set(row) == {"origin_prompt", "id", "model", name, "answer_chars", "reason"}
            assert nearly(row[name], other[name])


def nearly(one, other):
    """Whether two trees of numbers are equal but for float noise."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(nearly(one[k], other[k]) for k in one)
    if isinstance(one, float):
        return close(one, other)
    return one == other


def test_gptscore_is_the_answer_after_a_request_and_geval_each_score_after_a_form(
    tmp_path, model, plain
):
    rows = infer(tmp_path / "g", model, rows=ROWS[:1], kind=GPTScoreInferencer, instruction="Hi.")
    request = "Hi.\n\nQuestion: Why is the sky blue?\n\nAnswer:\n"
    assert is_like(rows[0]["gptscore"], plain(request, ROWS[0]["answer"], count=1))
    rows = infer(tmp_path / "e", model, rows=ROWS[:1], kind=GEvalInferencer, scale=3)
    assert set(rows[0]["geval"]) == {"1", "2", "3"}
    form = rows[0]["origin_prompt"]
    assert form.endswith("\nScore: 1")
    assert is_like(rows[0]["geval"]["1"], plain(form[:-2], " 1", count=1))


@pytest.mark.parametrize(
    "options", [{"batch_size": 1}, {"batch_size": 3}], ids=["one by one", "three at once"]
)
def test_batches_change_nothing(tmp_path, model, options):
    whole = infer(tmp_path / "a", model, baselines=["gptscore", "geval"])
    other = infer(tmp_path / "b", model, baselines=["gptscore", "geval"], **options)
    assert all(map(nearly, whole, other))


def test_the_order_of_rows_changes_nothing(tmp_path, model):
    forth = infer(tmp_path / "a", model)
    back = infer(tmp_path / "b", model, rows=ROWS[::-1])
    assert all(map(nearly, forth, back[::-1]))


def test_reading_shared_beginnings_once_changes_nothing(tmp_path, model, small_model):
    apart = HuggingFaceBaseModel(path=str(small_model), reuse_prefix=False)
    rows = [{**row, "question": row["question"] * 4} for row in ROWS]
    shared = infer(tmp_path / "a", model, rows=rows, baselines=["gptscore"])
    assert all(map(nearly, shared, infer(tmp_path / "b", apart, rows=rows, baselines=["gptscore"])))


def test_joint_tokenization_counts_a_token_on_the_border_with_the_answer(tmp_path, model, plain):
    # The tokenizer knows ".\n" as one token.
    row = {"id": "q", "question": "The sky.", "model": "m", "answer": "\nWhy"}
    joint = infer(tmp_path / "a", model, rows=[row], separator="", joint_tokenization=True)[0]
    apart = infer(tmp_path / "b", model, rows=[row], separator="")[0]
    assert apart["origin_prompt"] == joint["origin_prompt"] == "The sky.\nWhy"
    assert (joint["a_given_q"]["byte_len"], apart["a_given_q"]["byte_len"]) == (5, 4)
    assert is_like(joint["q"], plain("The sky", count=1))
    whole = plain("The sky.\nWhy", count=1)
    assert close(joint["q"]["ppl"] + joint["a_given_q"]["ppl"], whole[0])
    assert joint["q"]["token_len"] + joint["a_given_q"]["token_len"] == whole[1]
    assert is_like(apart["a_given_q"], plain("The sky.", "\nWhy", count=1))


def test_instruction_and_sources_are_read_and_not_counted(tmp_path, model, plain):
    rows = [{**ROWS[0], "sources": ["One.", " ", "Two."]}]
    made = infer(tmp_path, model, rows=rows, instruction="Be brief.", context="sources")[0]
    context = "Be brief.\n\nOne.\n\nTwo.\n\n"
    assert made["origin_prompt"] == f"{context}Why is the sky blue?\nLight is scattered."
    answer = plain(context + "Why is the sky blue?\n", "Light is scattered.", count=1)
    assert is_like(made["a_given_q"], answer)
    assert is_like(made["a"], plain("Light is scattered.", count=1))
    alone = infer(tmp_path / "alone", model, rows=rows)[0]
    assert made["q"]["token_len"] == alone["q"]["token_len"]
    assert made["q"]["ppl"] != alone["q"]["ppl"]


def test_in_a_chat_only_the_question_is_counted(tmp_path, model, plain):
    made = infer(tmp_path, model, rows=ROWS[:1], chat_template=True, baselines=["geval"])[0]
    before, question, after = "<user>", ROWS[0]["question"], "</end><assistant>"
    # The template writes the BOS, and the text gets no second one.
    assert made["origin_prompt"] == f"<s>{before}{question}{after}{ROWS[0]['answer']}"
    chat = before + question + after
    assert is_like(made["a_given_q"], plain(chat, ROWS[0]["answer"], count=1))
    assert is_like(made["a"], plain(ROWS[0]["answer"], count=1))
    assert 0 < made["q"]["token_len"] < plain(chat, count=1)[1]


def test_a_template_says_how_the_question_is_put(tmp_path, model, plain):
    template = PromptTemplate("Q: {question} ({id})")
    made = infer(tmp_path, model, rows=ROWS[:1], template=template)[0]
    assert made["origin_prompt"] == f"Q: {ROWS[0]['question']} (q1)\n{ROWS[0]['answer']}"
    plain_question = infer(tmp_path / "b", model, rows=ROWS[:1])[0]["q"]
    assert made["q"]["token_len"] == pytest.approx(plain_question["token_len"], abs=2)
    assert made["q"]["byte_len"] < len("Q: Why is the sky blue? (q1)\n")


def test_the_default_template_changes_nothing(tmp_path, model):
    with_template = infer(tmp_path / "a", model, template=PromptTemplate("{question}"))
    assert with_template == infer(tmp_path / "b", model)


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("Question: {question}\nAnswer: {answer}", "inserts {answer}"),
        ("Answer this: {id}", "must insert {question}"),
    ],
)
def test_a_template_that_is_no_question_is_refused(tmp_path, template, message):
    with pytest.raises(ConfigError, match=message):
        infer(tmp_path, ScriptedModel(), template=PromptTemplate(template))


@pytest.mark.parametrize("kind", [PPLqaInferencer, GPTScoreInferencer, GEvalInferencer])
@pytest.mark.parametrize(
    ("changes", "options", "reason"),
    [
        ({"answer": ""}, {}, "empty_answer"),
        ({"answer": " \n\u3000"}, {}, "empty_answer"),
        ({"question": " "}, {}, "empty_question"),
        ({"sources": None}, {"context": "sources"}, "no_sources"),
        ({"sources": [" "]}, {"context": "sources"}, "no_sources"),
    ],
)
def test_what_cannot_be_scored_is_null_with_a_reason(tmp_path, kind, changes, options, reason):
    sources = {"sources": ["s"]} if options else {}
    rows = [{**ROWS[0], **sources}, {**ROWS[1], **sources, **changes}, {**ROWS[2], **sources}]
    more = {"baselines": ["geval", "gptscore"]} if kind is PPLqaInferencer else {}
    made = infer(tmp_path, ScriptedModel(), rows=rows, kind=kind, **options, **more)
    assert [row["reason"] for row in made] == [None, reason, None]
    good, null = made[:2]
    assert set(good) == set(null)
    parts = [v for v in null.values() if isinstance(v, dict) and "ppl" in v]
    parts += null.get("geval", {}).values()
    assert parts
    assert all((p["ppl"], p["token_len"], p["reason"]) == (None, 0, reason) for p in parts)


def test_nothing_but_null_rows_needs_no_model(tmp_path):
    class Refusing(ScriptedModel):
        def score_spans(self, texts, **options):
            assert not texts
            return iter(())

    rows = [{**row, "answer": ""} for row in ROWS]
    assert len(infer(tmp_path, Refusing(), rows=rows)) == len(ROWS)


def test_a_token_with_nothing_before_it_is_reported_and_not_counted(tmp_path, model):
    rows = [row for row in ROWS if row["answer"] == "x"]
    made = infer(tmp_path, model, rows=rows, prefix_token="none")[0]
    assert (made["a"]["token_len"], made["a"]["unscored_tokens"]) == (0, 1)
    assert made["a_given_q"]["token_len"] == 1
    assert infer(tmp_path / "bos", model, rows=rows)[0]["a"]["token_len"] == 1


def test_a_text_longer_than_the_model_names_row_question_and_text(tmp_path, model, small_model):
    rows = [*ROWS[:2], {**ROWS[2], "answer": "long " * 200}]
    short = HuggingFaceBaseModel(path=str(small_model), max_seq_len=100)
    with pytest.raises(DataError, match=r"row 2 \(question 'q1', answer of 'm2'\), text '.*tokens"):
        infer(tmp_path, short, rows=rows)
    made = infer(tmp_path, short, rows=rows, long_text="window")
    assert made[2]["a"]["long_text"] == "window"
    assert made[2]["a"]["token_len"] == made[2]["a_given_q"]["token_len"] > 100


class Stopping(ScriptedModel):
    """Stops after so many batches."""

    def __init__(self, batches, **options):
        super().__init__(**options)
        self.batches = batches

    def score_spans(self, texts, **options):
        for number, batch in enumerate(super().score_spans(texts, **options)):
            if number == self.batches:
                raise ModelError("stopped")
            yield batch


@pytest.mark.parametrize("batches", [0, 1, 5, 9])
def test_a_run_that_goes_on_ends_as_an_unbroken_one(tmp_path, batches):
    options = {"baselines": ["gptscore", "geval"], "rows": [*ROWS, {**ROWS[0], "answer": ""}]}
    with pytest.raises(ModelError):
        infer(tmp_path / "a", Stopping(batches), **options)
    infer(tmp_path / "a", ScriptedModel(), **options)
    infer(tmp_path / "b", ScriptedModel(), **options)
    assert (tmp_path / "a" / "d.json").read_bytes() == (tmp_path / "b" / "d.json").read_bytes()


def test_a_run_that_was_killed_goes_on(tmp_path):
    script = tmp_path / "run.py"
    script.write_text(
        textwrap.dedent(f"""
            import sys
            from types import SimpleNamespace
            from opencompass_ext.inferencers import PPLqaInferencer
            from opencompass_ext.models import ScriptedModel
            from opencompass_ext.prompting import ZeroRetriever

            rows = {ROWS!r}
            model = ScriptedModel(batch_rows=2, die_on="天空为什么", die_marker=sys.argv[1])
            inferencer = PPLqaInferencer(model, output_json_filepath=sys.argv[2])
            inferencer.inference(ZeroRetriever(SimpleNamespace(test=rows, train=rows)))
        """),
        encoding="utf-8",
    )
    command = [sys.executable, str(script), str(tmp_path / "marker"), str(tmp_path)]
    assert subprocess.run(command, check=False).returncode == -9
    assert (tmp_path / "predictions.journal").exists()
    subprocess.run(command, check=True)
    made = json.loads((tmp_path / "predictions.json").read_text(encoding="utf-8"))
    assert list(made.values()) == infer(tmp_path / "whole", ScriptedModel())


class Refusing(ScriptedModel):
    """Scores nothing: whatever is asked of it is too much."""

    def score_spans(self, texts, **options):
        raise AssertionError("a finished row was scored again")


@pytest.mark.parametrize(
    "changes", [{"model": "other"}, {"id": "other"}, {"answer": "Else."}, {"question": "Else?"}]
)
def test_a_row_that_changed_is_done_again(tmp_path, changes):
    first = infer(tmp_path, ScriptedModel(), rows=ROWS[:2])
    assert infer(tmp_path, Refusing(), rows=ROWS[:2]) == first
    second = infer(tmp_path, ScriptedModel(), rows=[{**ROWS[0], **changes}, ROWS[1]])
    assert second[0] != first[0]
    assert second[1] == first[1]


@pytest.mark.parametrize(
    "options",
    [
        {"separator": " "},
        {"joint_tokenization": True},
        {"instruction": "Be brief."},
        {"context": "sources"},
        {"prefix_token": "none"},
        {"long_text": "window"},
        {"baselines": ["geval"]},
    ],
)
def test_every_option_is_recorded_and_decides_the_rows(tmp_path, options):
    rows = [{**row, "sources": ["s"]} for row in ROWS[:2]]
    infer(tmp_path, ScriptedModel(), rows=rows)
    before = json.loads((tmp_path / "d.provenance").read_text())["inferencer"]
    infer(tmp_path, ScriptedModel(), rows=rows, **options)
    after = json.loads((tmp_path / "d.provenance").read_text())["inferencer"]
    assert before.keys() == after.keys()
    assert {name for name in before if before[name] != after[name]} == set(options)


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        (PPLqaInferencer, {"baselines": "geval"}, "baselines must be a list"),
        (PPLqaInferencer, {"baselines": ["gpt"]}, "'gptscore' and 'geval'"),
        (PPLqaInferencer, {"instruction": " "}, "not blank"),
        (PPLqaInferencer, {"context": "source"}, "'sources', got 'source'"),
        (PPLqaInferencer, {"prefix_token": "box"}, "prefix_token must be one of"),
        (PPLqaInferencer, {"long_text": "truncate"}, "long_text must be one of error, window"),
        (GEvalInferencer, {"scale": 10}, "from 2 to 9, got 10"),
        (GEvalInferencer, {"scale": True}, "from 2 to 9"),
    ],
)
def test_options_are_checked(kind, options, message):
    with pytest.raises(ConfigError, match=message):
        kind(ScriptedModel(), **options)


def test_other_columns_are_named(tmp_path):
    with pytest.raises(DataError, match=r"^row 0.*no column 'id' \(columns: text\)"):
        infer(tmp_path, ScriptedModel(), rows=[{"text": "x"}])
    row = {"id": "q", "question": "Why?", "model": "m", "answer": 3}
    with pytest.raises(DataError, match=r"^row 0 \(question 'q'.*'answer' must hold text, got 3"):
        infer(tmp_path, ScriptedModel(), rows=[row])


def test_sources_of_any_form_that_is_known_are_read(tmp_path):
    row = {"id": "q", "question": "Why?", "model": "m", "answer": "So."}
    given = [{**row, "sources": ["Tea.", " "]}, {**row, "sources": [{"id": "s", "text": "Tea."}]}]
    first, second = infer(tmp_path, ScriptedModel(), rows=given, context="sources")
    assert first == second
    assert first["origin_prompt"].startswith("Tea.\n\nWhy?")
    with pytest.raises(DataError, match=r"^row 0 .*source 1 must be text, or"):
        infer(tmp_path / "b", ScriptedModel(), rows=[{**row, "sources": [3]}], context="sources")


def test_a_model_without_a_chat_template_is_told_of(tmp_path):
    with pytest.raises(ConfigError, match="no chat template"):
        infer(tmp_path, ScriptedModel(), chat_template=True)


def test_the_uniform_model_gives_what_can_be_worked_out_by_hand(tmp_path):
    row = infer(tmp_path, ScriptedModel(vocab_size=4), rows=ROWS[:1])[0]
    assert row["q"]["token_len"] == len("Why is the sky blue?\n")
    assert row["a"]["ppl"] == pytest.approx(len("Light is scattered.") * math.log(4))
