import json
import logging
import math
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from completions_server import cuts_body, cuts_json, serve
from support.loopback import fails, hangs, start_test
from support.reference import close

from opencompass_ext.endpoints import posting
from opencompass_ext.errors import ConfigError, MissingDependencyError, ModelError
from opencompass_ext.models import HuggingFaceBaseModel, OpenAICompletionsModel
from opencompass_ext.records import LabelledText

KEY = "sk-Very-Secret-0123456789"


def labelled(text, *spans):
    return LabelledText(text, {"label": spans or ((0, len(text)),)})


TEXTS = [
    LabelledText("the cat sat on the mat", {"cat": ((4, 7),), "rest": ((8, 15), (19, 22))}),
    labelled("你好😀 naïve café"),
    labelled("the cat", (3, 7)),
    labelled("the cat sat on the hat and sang to the moon, long and loud"),
    labelled("x"),
    labelled("nothing is labelled here", (3, 3)),
    labelled(""),
]


@pytest.fixture(scope="module")
def running(tiny_folder):
    with serve(tiny_folder) as server:
        yield server


@pytest.fixture
def server(running, monkeypatch):
    return start_test(running, monkeypatch, KEY)


@pytest.fixture
def make(server, tiny_folder):
    def build(**options):
        arguments = {"base_url": server.url, "tokenizer_path": str(tiny_folder), **options}
        return OpenAICompletionsModel("tiny", **arguments)

    return build


@pytest.fixture(scope="module")
def local(tiny_folder):
    return lambda **options: HuggingFaceBaseModel(str(tiny_folder), **options)


def assert_equal_scores(got, expected):
    for g, e in zip(got, expected, strict=True):
        assert (g.text_tokens, g.long_text) == (e.text_tokens, e.long_text)
        for name, likelihood in e.spans.items():
            assert g.spans[name].token_len == likelihood.token_len
            assert g.spans[name].unscored_tokens == likelihood.unscored_tokens
            assert close(g.spans[name].nll, likelihood.nll, relative=1e-5)


@pytest.mark.parametrize("max_tokens", [0, 1])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"prefix_token": "bos"},
        {"max_seq_len": 12, "stride": 5},
        {"max_seq_len": 12, "long_text": "truncate"},
        {"max_seq_len": 9, "prefix_token": "eos"},
    ],
    ids=str,
)
def test_scores_are_those_of_the_weights_read_locally(make, local, options, max_tokens):
    model = make(**options, max_tokens=max_tokens, batch_prompts=2)
    assert_equal_scores(model.score_all(TEXTS), local(**options).score_all(TEXTS))


def test_a_text_is_sent_once_and_only_as_far_as_it_is_scored(make, server, tiny_folder):
    texts = [labelled("the cat sat", (3, 7)), labelled("the cat", (3, 7)), *[labelled("a a")] * 5]
    make().score_all(texts)
    the_cat = [server.tokenizer(text)["input_ids"] for text in ("the cat", "a a")]
    assert sorted(server.prompts) == sorted(the_cat)
    assert all(body["model"] == "tiny" for body in server.bodies)


def test_finished_texts_are_not_sent(make, server):
    model = make(batch_prompts=1)
    rows = [row for batch in model.score_spans(TEXTS, finished={0, 1, 3}) for row in batch]
    assert sorted(rows) == [2, 4, 5, 6]
    assert len(server.prompts) == 1


@pytest.mark.parametrize(
    ("batch_prompts", "batch_rows", "expected"), [(3, None, 3), (3, 2, 2), (2, 9, 2)]
)
def test_prompts_per_request(make, server, batch_prompts, batch_rows, expected):
    texts = [labelled(f"{letter} cat") for letter in "abcdef"]
    list(make(batch_prompts=batch_prompts).score_spans(texts, batch_rows=batch_rows))
    assert {len(body["prompt"]) for body in server.bodies} == {expected}


def test_requests_run_at_the_same_time(make, server):
    everyone_is_here = threading.Barrier(3)

    def waits_for_the_others(handler, body):
        everyone_is_here.wait(30)
        return True

    server.script = [waits_for_the_others] * 3
    make(batch_prompts=1, concurrency=3).score_all([labelled(f"{c} cat") for c in "abc"])


def test_no_more_requests_at_once_than_asked_for(make, server):
    make(batch_prompts=1, concurrency=2).score_all([labelled(f"{c} cat") for c in "abcdefgh"])
    assert server.most_at_once <= 2


def test_rows_come_as_their_requests_finish_each_once(make, server, local):
    late = threading.Event()

    def comes_last(handler, body):
        late.wait(30)
        return True

    server.script = [comes_last]
    texts = [labelled(f"{c} cat") for c in "abcd"]
    scored, order = {}, []
    for batch in make(batch_prompts=1, concurrency=2).score_spans(texts):
        assert not scored.keys() & batch.keys()
        scored.update(batch)
        order += batch
        if len(order) == 3:
            late.set()
    # Requests start in order, but on a connection each: which is first served is not fixed.
    assert order[-1] in (0, 1)
    assert_equal_scores([scored[i] for i in range(4)], local().score_all(texts))


@pytest.mark.parametrize(
    "failure",
    [
        fails(500, "oops"),
        fails(503, {"error": "loading"}),
        cuts_body,
        cuts_json,
        fails(200, "<html>"),
    ],
)
def test_a_passing_failure_changes_nothing(make, server, local, failure):
    server.script = [failure, failure]
    assert_equal_scores(make(batch_prompts=99).score_all(TEXTS), local().score_all(TEXTS))
    assert len(server.bodies) == 3


@pytest.mark.parametrize(("header", "wait"), [("0.01", "0.0"), ("0.1", "0.1")])
def test_retry_after_is_obeyed(make, server, monkeypatch, caplog, header, wait):
    monkeypatch.setattr(posting, "FIRST_WAIT_SECONDS", 30.0)
    server.script = [fails(429, {"error": {"message": "slow down"}}, [("Retry-After", header)])]
    make().score_all(TEXTS[:1])
    (message,) = caplog.messages
    assert message == f"{server.url}/completions: HTTP 429: slow down; attempt 2 of 6 in {wait} s"


@pytest.mark.parametrize("header", ["0", "Thu, 01 Jan 1970 00:00:00 GMT"])
def test_a_retry_after_that_is_over_is_no_reason_to_hurry(
    make, server, monkeypatch, caplog, header
):
    monkeypatch.setattr(posting, "FIRST_WAIT_SECONDS", 0.1)
    server.script = [fails(429, "", [("Retry-After", header)])]
    make().score_all(TEXTS[:1])
    (message,) = caplog.messages
    assert re.search(r"attempt 2 of 6 in 0\.[12] s", message)


def test_a_wait_of_an_hour_is_refused(make, server):
    server.script = [fails(429, "quota", [("Retry-After", "3600")])]
    with pytest.raises(ModelError, match=r"HTTP 429: quota \(asks to be left alone for 3600 s\)"):
        make().score_all(TEXTS)


def test_patience_ends(make, server):
    server.script = [fails(500, {"message": "out of\nmemory"})] * 3
    with pytest.raises(ModelError, match=r"HTTP 500: out of memory \(3 attempts\)"):
        make(max_attempts=3).score_all(TEXTS[:1])
    assert len(server.bodies) == 3


def test_a_server_that_hangs(make, server):
    server.script = [hangs]
    with pytest.raises(
        ModelError, match=r"completions: no answer within 0\.2 s \(timeout\) \(1 attempt\)"
    ):
        make(timeout=0.2, max_attempts=1).score_all(TEXTS[:1])


def test_no_server(make):
    with pytest.raises(ModelError, match=r"cannot connect.*Is the server running"):
        make(base_url="http://127.0.0.1:9/v1", max_attempts=1).score_all(TEXTS[:1])


@pytest.mark.parametrize(
    ("status", "content", "message"),
    [
        (400, {"error": {"message": "too long"}}, "HTTP 400: too long. If.*set max_seq_len"),
        (404, {"detail": "Not Found"}, "HTTP 404: Not Found. Check base_url.*and path"),
        (413, "", r"HTTP 413: \(no message\). Lower batch_prompts"),
        (401, {"error": "Bad key."}, "401: Bad key. The key sent is that of.*OPENAI_API_KEY"),
        (302, "", "HTTP 302"),
        (422, "x" * 999, "HTTP 422: x{300}. Asking again would not help"),
    ],
)
def test_a_refusal_fails_at_once_in_the_words_of_the_server(make, server, status, content, message):
    server.script = [fails(status, content)]
    with pytest.raises(ModelError, match=message):
        make(batch_prompts=99).score_all(TEXTS)
    assert len(server.bodies) == 1


def test_a_refusal_without_a_key_says_that_none_was_sent(make, server, monkeypatch):
    monkeypatch.delenv("MY_KEY", raising=False)
    server.script = [fails(401, "who are you?")]
    with pytest.raises(ModelError, match="No key was sent: the environment variable MY_KEY is not"):
        make(key_env="MY_KEY").score_all(TEXTS)
    assert server.authorizations == [None]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda logprobs: {"content": []}, "gives no log-probabilities of prompt tokens"),
        (lambda logprobs: {"token_logprobs": logprobs["token_logprobs"][1:]}, "ids sent.*got"),
    ],
)
def test_a_reply_without_the_scores_fails_at_once(make, server, change, message):
    def answers(handler, body):
        reply = server.reply(body)
        for choice in reply["choices"]:
            choice["logprobs"] = change(choice["logprobs"])
        handler.answer(reply)

    server.script = [answers]
    with pytest.raises(ModelError, match=f"^{server.url}/completions: .*{message}"):
        make(batch_prompts=99).score_all(TEXTS)
    assert len(server.bodies) == 1


def test_rows_finished_before_a_failure_are_kept(make, server):
    failed = threading.Event()

    def fails_last(handler, body):
        fails(400)(handler, body)
        failed.set()

    server.script = [*[lambda handler, body: True] * 5, fails_last]
    texts = [labelled(f"{c} cat") for c in "abcdef"]
    batches = make(batch_prompts=1, concurrency=1).score_spans(texts)
    scored = next(batches)
    failed.wait(30)
    time.sleep(0.1)  # until the client has read that answer too
    with pytest.raises(ModelError):
        scored.update(row for batch in batches for row in batch.items())
    assert len(scored) == 5


def test_a_token_the_model_holds_for_impossible_makes_the_sum_infinite(make, server):
    def answers(handler, body):
        reply = server.reply(body)
        reply["choices"][0]["logprobs"]["token_logprobs"][1] = -9999.0
        handler.answer(reply)

    server.script = [answers]
    assert math.isinf(make().score_all([labelled("the cat")])[0].spans["label"].nll)


def test_leaving_early_ends_the_requests_under_way(make, server, caplog):
    server.script = [lambda handler, body: True, hangs, hangs]
    batches = make(batch_prompts=1, concurrency=3).score_spans([labelled(f"{c} b") for c in "abc"])
    next(batches)
    batches.close()
    assert not [thread for thread in threading.enumerate() if "portal" in thread.name]
    assert caplog.messages == []


def test_nothing_is_asked_before_the_first_score(make, server, tiny_folder):
    model = make(base_url=server.url + "/")
    assert model.identity()["base_url"] == server.url
    assert model.scorer_fingerprint() == make(concurrency=1, batch_prompts=1).scorer_fingerprint()
    assert model.scorer_fingerprint() != make(prefix_token="bos").scorer_fingerprint()
    assert model.get_token_len("the cat") == 3
    assert server.bodies == []


def test_provenance_names_the_model_as_the_server_does(make):
    model = make(prefix_token="bos")
    model.score_all(TEXTS)
    assert model.provenance()["served_as"] == ["tiny-v1"]
    assert model.provenance()["prefix_ids"] == [1]


def test_the_address_may_stand_in_the_environment(make, server, monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    assert make(base_url=None).base_url == server.url
    monkeypatch.delenv("OPENAI_BASE_URL")
    with pytest.raises(ModelError, match=r"environment variable OPENAI_BASE_URL, or base_url"):
        make(base_url=None)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"base_url": "localhost:8000"}, "must begin with http:// or https:// and a host"),
        ({"base_url": "http://[::1/v1"}, "is no URL"),
        ({"base_url": "http://h/v1/completions"}, "must end before '/completions'"),
        ({"max_tokens": 2}, "max_tokens must be 0 or 1, got 2"),
        ({"timeout": 0}, "timeout must be a number of seconds above 0, got 0"),
        ({"concurrency": 0}, "concurrency must be a whole number of at least 1, got 0"),
        ({"long_text": "cut"}, "long_text must be one of window, truncate, error, got 'cut'"),
    ],
)
def test_options_that_cannot_be(make, options, message):
    with pytest.raises(ConfigError, match=message):
        make(**options)


@pytest.mark.parametrize(
    "options",
    [
        {"base_url": f"https://me:{KEY}@h/v1"},
        {"base_url": f"https://h/v1?k={KEY}"},
        {"key_env": KEY},
    ],
)
def test_a_key_in_the_wrong_place_is_refused_and_not_repeated(make, options):
    with pytest.raises(ConfigError, match="environment variable") as caught:
        make(**options)
    assert KEY not in str(caught.value)


def test_a_key_that_no_header_can_carry_is_refused_and_not_repeated(make, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", f"{KEY}\nX-Other: 1")
    with pytest.raises(ModelError, match="OPENAI_API_KEY holds no key") as caught:
        make().score_all(TEXTS)
    assert KEY not in str(caught.value)


def test_a_tokenizer_that_is_not_there(make, tmp_path):
    with pytest.raises(ModelError, match="tokenizer_path: there is no tokenizer at"):
        make(tokenizer_path=str(tmp_path / "none"))


def test_token_details_are_refused(make):
    with pytest.raises(ConfigError, match=r"does not report.*HuggingFaceBaseModel"):
        list(make().score_spans(TEXTS, token_details=True))


def test_a_missing_package_is_named_with_the_command_that_brings_it(make, monkeypatch):
    for module in ("models.completions_client", "endpoints.posting"):
        monkeypatch.delitem(sys.modules, f"opencompass_ext.{module}")
    monkeypatch.setitem(sys.modules, "httpx", None)
    with pytest.raises(MissingDependencyError, match=r"'httpx'.*opencompass_ext\[api\]"):
        make().score_all(TEXTS)


CONFIG = """
_model = dict(type="OpenAICompletionsModel", base_url={url!r}, tokenizer_path={tokenizer!r},
              max_attempts=2)
models = [dict(_model, abbr="good", path="good"), dict(_model, abbr="bad", path="bad")]
datasets = [
    dict(
        type="InferencePPLDataset",
        abbr="cats",
        path={data!r},
        reader_cfg=dict(input_columns=["text"], output_column=None),
        infer_cfg=dict(
            prompt_template=dict(type="PromptTemplate", template="{{text}}"),
            retriever=dict(type="ZeroRetriever"),
            inferencer=dict(type="InferencePPLOnlyInferencer"),
        ),
        eval_cfg=dict(evaluator=dict(type="AverageInferencePPLEvaluator")),
    )
]
"""


def test_the_key_is_sent_and_stands_in_no_file_and_no_output(server, tiny_folder, tmp_path, caplog):
    def quotes_the_key(handler, body):
        if body["model"] == "good":
            return True
        handler.answer({"error": {"message": f"Incorrect API key: {KEY}"}}, 403)
        return False

    server.script = [quotes_the_key] * 9
    data = tmp_path / "cats.jsonl"
    data.write_text(json.dumps({"text": "the cat sat", "label": [[4, 7, 1]]}) + "\n")
    config = tmp_path / "config.py"
    config.write_text(
        CONFIG.format(url=server.url, tokenizer=str(tiny_folder), data=str(data)), "utf-8"
    )
    caplog.set_level(logging.DEBUG)
    done = subprocess.run(
        [sys.executable, "-m", "opencompass_ext", str(config), "-w", str(tmp_path / "out")],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert {f"Bearer {KEY}"} == set(server.authorizations)
    (predictions,) = (tmp_path / "out").rglob("predictions/good/cats.json")
    assert json.loads(predictions.read_text("utf-8"))["0"]["token_len"] == 1
    files = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    texts = [done.stdout, done.stderr, *(path.read_text("utf-8") for path in files)]
    assert any("HTTP 403: Incorrect API key: <key>" in text for text in texts)
    assert not [text for text in texts if KEY in text]
