"""What must change nothing changes nothing, and what is lost is said."""

import math
import random

import pytest
import torch
from support.reference import close, span_nll, token_nlls
from support.tiny import VOCAB_SIZE, CharEncoder, make_scorer, score_all, tiny_model

from opencompass_ext.errors import DataError, ModelError
from opencompass_ext.likelihood import engine as engine_module
from opencompass_ext.likelihood import scorer as scorer_module
from opencompass_ext.likelihood.engine import EngineOptions
from opencompass_ext.likelihood.prefix import PrefixNode
from opencompass_ext.likelihood.probe import expand_cache
from opencompass_ext.records import LabelledText

PLAIN = EngineOptions(max_batch_tokens=1, reuse_prefix=False)


@pytest.fixture(scope="module")
def model():
    return tiny_model("llama")


def labelled(text, *spans):
    return LabelledText(text, {"label": spans or ((0, len(text)),)})


def random_texts(count, seed=0, longest=40):
    rng = random.Random(seed)
    lengths = [rng.randint(0, longest) for _ in range(count)]
    return [labelled("".join(rng.choice("abcdefgh") for _ in range(n))) for n in lengths]


def assert_equal_scores(got, expected):
    assert got.keys() == expected.keys()
    for i in expected:
        for name, likelihood in expected[i].spans.items():
            assert got[i].spans[name].token_len == likelihood.token_len
            assert close(got[i].spans[name].nll, likelihood.nll)


@pytest.mark.parametrize(
    "options",
    [
        EngineOptions(max_batch_tokens=1),
        EngineOptions(max_batch_tokens=64),
        EngineOptions(max_batch_tokens=100_000),
        EngineOptions(max_batch_tokens=100_000, max_batch_rows=3),
        EngineOptions(max_batch_tokens=64, reuse_prefix=False),
    ],
)
def test_batching_and_prefix_reuse_change_nothing(model, options):
    texts = random_texts(40)
    texts += [labelled("a" * 60 + text.text) for text in texts[:12]]
    expected = score_all(make_scorer(model, PLAIN), texts)
    assert_equal_scores(score_all(make_scorer(model, options), texts), expected)


def test_results_belong_to_their_inputs_in_any_order(model):
    texts = random_texts(30)
    order = list(range(30))
    random.Random(1).shuffle(order)
    straight = score_all(make_scorer(model), texts)
    shuffled = score_all(make_scorer(model), [texts[i] for i in order])
    assert_equal_scores({i: shuffled[order.index(i)] for i in range(30)}, straight)


def test_uniform_logits_cost_the_log_of_the_vocabulary():
    model = tiny_model("llama")
    with torch.no_grad():
        model.lm_head.weight.zero_()
    scored = score_all(make_scorer(model), [labelled("abcdef", (2, 5))])[0].spans["label"]
    assert scored.token_len == 3
    assert close(scored.nll, 3 * math.log(VOCAB_SIZE), relative=1e-6)


class CountingHook:
    """Counts forwards of the trunk and the tokens they read."""

    def __init__(self, model):
        self.forwards, self.tokens = 0, 0
        self._handle = model.model.register_forward_pre_hook(self._count, with_kwargs=True)

    def _count(self, module, args, kwargs):
        self.forwards += 1
        self.tokens += kwargs["input_ids"].numel()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._handle.remove()


def test_equal_texts_with_different_spans_are_read_once(model):
    text = "abcdefghij"
    texts = [labelled(text, (i, i + 3)) for i in (1, 3, 5, 7)]
    scorer = make_scorer(model)
    with CountingHook(model) as count:
        scored = score_all(scorer, texts)
    assert count.forwards == 1
    for i, labelled_text in enumerate(texts):
        ids = CharEncoder().encode_one(text).ids.tolist()
        ranges = [(c, c + 1) for c in range(len(text))]
        nll, token_len = span_nll(model, ids, ranges, labelled_text.spans["label"])
        assert scored[i].spans["label"].token_len == token_len
        assert close(scored[i].spans["label"].nll, nll)


def test_nothing_after_the_last_target_is_read(model):
    scorer = make_scorer(model)
    with CountingHook(model) as count:
        score_all(scorer, [labelled("a" * 50, (3, 5))])
    assert count.tokens == 4  # tokens 0 to 3 predict tokens 1 to 4


def test_a_shared_beginning_is_read_once_at_every_level(model):
    shots, questions = "s" * 100, ["q" * 30, "w" * 30]
    answers = ["abc", "bcd", "cde", "def", "efg"]
    texts = [
        labelled(shots + q + a, (len(shots + q), len(shots + q + a)))
        for q in questions
        for a in answers
    ]
    scorer = make_scorer(model, EngineOptions(max_batch_tokens=1000))
    with CountingHook(model) as count:
        scored = score_all(scorer, texts)
    # 100 tokens of shots, 30 of each question, and of each answer all but the last token.
    assert count.tokens == 100 + 2 * 30 + 10 * 2
    assert_equal_scores(scored, score_all(make_scorer(model, PLAIN), texts))


def test_texts_that_differ_in_their_last_token_alone_need_no_batch(model):
    texts = [labelled("q" * 120 + verdict, (120, 121)) for verdict in "yn"]
    scorer = make_scorer(model)
    with CountingHook(model) as count:
        scored = score_all(scorer, texts)
    assert count.forwards == 1
    assert_equal_scores(scored, score_all(make_scorer(model, PLAIN), texts))


def test_copies_of_a_shared_beginning_are_bounded(model):
    texts = [labelled("s" * 100 + a + b, (100, 102)) for a in "abcdefgh" for b in "xyz"]
    scorer = make_scorer(model, EngineOptions(max_batch_tokens=96))
    rows = []
    handle = model.model.register_forward_pre_hook(
        lambda module, args, kwargs: rows.append(kwargs["input_ids"].shape[0]), with_kwargs=True
    )
    try:
        scored = score_all(scorer, texts)
    finally:
        handle.remove()
    # One token of each is read after the 100 that are shared: 16 x 96 tokens of cache, 15 rows.
    assert max(rows) == 15
    assert_equal_scores(scored, score_all(make_scorer(model, PLAIN), texts))


class OutOfMemoryAbove:
    """Makes a model fail as a full device does, above a number of tokens in one forward."""

    def __init__(self, model, tokens):
        self.sizes = []
        self._tokens = tokens
        self._handle = model.model.register_forward_pre_hook(self._check, with_kwargs=True)

    def _check(self, module, args, kwargs):
        size = kwargs["input_ids"].numel()
        if size > self._tokens:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 1 GiB.")
        self.sizes.append(size)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._handle.remove()


def test_out_of_memory_halves_the_batch_and_scores_every_row_once(model, caplog):
    texts = random_texts(50, seed=4)
    expected = score_all(make_scorer(model, PLAIN), texts)
    scorer = make_scorer(model, EngineOptions(max_batch_tokens=800, reuse_prefix=False))
    with OutOfMemoryAbove(model, tokens=100) as memory:
        got = score_all(scorer, texts)
    assert_equal_scores(got, expected)
    assert max(memory.sizes) <= 100
    # The limit is learnt: what was too large once is not tried again.
    failed_sizes = [record.args[0] * record.args[1] for record in caplog.records]
    assert failed_sizes
    assert failed_sizes == sorted(set(failed_sizes), reverse=True)


def test_out_of_memory_on_one_text_says_what_to_do(model):
    scorer = make_scorer(model, EngineOptions(max_batch_tokens=800))
    with (
        OutOfMemoryAbove(model, tokens=5),
        pytest.raises(ModelError, match=r"single text of 19 tokens.*max_seq_len"),
    ):
        score_all(scorer, [labelled("a" * 20)])


class OutOfMemoryWithCache(OutOfMemoryAbove):
    """Fails whenever more than ``tokens`` tokens are held in the cache of one forward."""

    def _check(self, module, args, kwargs):
        cache = kwargs.get("cache")
        held = kwargs["input_ids"].shape[1] + (0 if cache is None else cache.get_seq_length())
        if kwargs.get("use_cache") and kwargs["input_ids"].shape[0] * held > self._tokens:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 1 GiB.")
        self.sizes.append(held)


@pytest.mark.parametrize("tokens", [50, 101, 103, 300])
def test_a_cache_that_does_not_fit_is_done_without(model, tokens, caplog):
    texts = [labelled("s" * 100 + a + b, (50, 103)) for a in "abcd" for b in ("xyz", "zyx")]
    texts += [labelled("t" * 60 + a, (1, 61)) for a in "abc"]
    with OutOfMemoryWithCache(model, tokens=tokens):
        got = score_all(make_scorer(model, EngineOptions(max_batch_tokens=400)), texts)
    assert_equal_scores(got, score_all(make_scorer(model, PLAIN), texts))
    assert "out of memory" in caplog.text


def test_a_long_chain_of_beginnings_holds_one_cache(model, monkeypatch):
    """Each text is the one before and some more, as the turns of a conversation are."""
    rng = random.Random(0)
    turns = ["".join(rng.choice("abcdefgh") for _ in range(4)) for _ in range(30)]
    texts = []
    for i in range(1, 30):
        before = "".join(turns[:i])
        texts.append(labelled(before + "z", (len(before), len(before) + 1)))
    copies = []
    monkeypatch.setattr(
        "opencompass_ext.likelihood.engine.expand_cache",
        lambda cache, rows: copies.append(rows) or expand_cache(cache, rows),
    )
    monkeypatch.setitem(engine_module._TOKENS_PER_EXTRA_PASS, "cpu", 1)
    scorer = make_scorer(model)
    with CountingHook(model) as count:
        got = score_all(scorer, texts)
    assert count.tokens == sum(len(turn) for turn in turns[:29])
    # One, for the turn that ends the last text and belongs to no beginning.
    assert copies == [1]
    assert_equal_scores(got, score_all(make_scorer(model, PLAIN), texts))


def test_a_tree_deeper_than_the_stack_is_read(model):
    root = node = PrefixNode()
    for depth in range(5000):
        node.children.append(PrefixNode(start=depth, end=depth + 1))
        node = node.children[0]
    node.rows.append(0)
    assert list(root.rows_below()) == [0]


@pytest.mark.parametrize("finished", [(), range(0, 23), (3, 20, 21), range(31)])
def test_chunks_of_rows_change_nothing(model, monkeypatch, finished):
    texts = random_texts(31, seed=6)
    expected = score_all(make_scorer(model), texts)
    monkeypatch.setattr(scorer_module, "CHUNK_ROWS", 7)
    scored = score_all(make_scorer(model), texts, finished=finished)
    assert_equal_scores(scored, {i: expected[i] for i in range(31) if i not in finished})
    long = [*texts, labelled("a" * 50)]
    with pytest.raises(DataError, match="row 31: "):
        score_all(make_scorer(model, max_seq_len=45, long_text="error"), long)


def test_finished_texts_are_left_out_and_the_rest_gets_the_very_same_numbers(model):
    texts = random_texts(60, seed=2)
    options = EngineOptions(max_batch_tokens=100)
    unbroken = score_all(make_scorer(model, options), texts)
    finished = set(random.Random(5).sample(range(60), 35))
    resumed = score_all(make_scorer(model, options), texts, finished=finished)
    assert resumed.keys() == set(range(60)) - finished
    for i, scored in resumed.items():
        assert scored == unbroken[i]


def windows_by_hand(model, text, max_tokens, stride, prefix=()):
    """Each token scored in the first window that reaches it, one window at a time."""
    ids = CharEncoder().encode_one(text).ids.tolist()
    nlls = {}
    start = 0
    while len(nlls) < len(ids) - (0 if prefix else 1):
        window = [*prefix, *ids[start : start + max_tokens]]
        for position, nll in enumerate(token_nlls(model, window), start=1):
            nlls.setdefault(start + position - len(prefix), nll)
        start += max_tokens - stride
    return math.fsum(nlls.values()), len(nlls)


@pytest.mark.parametrize("prefix", [(), (7,)])
def test_a_long_text_is_scored_in_windows(model, prefix):
    text = "".join(random.Random(0).choice("abcdefgh") for _ in range(50))
    scorer = make_scorer(model, prefix_ids=prefix, max_seq_len=12 + len(prefix), stride=5)
    scored = score_all(scorer, [labelled(text)])[0]
    nll, token_len = windows_by_hand(model, text, 12, 5, prefix)
    assert scored.long_text == "window"
    assert scored.spans["label"].token_len == token_len
    assert close(scored.spans["label"].nll, nll)


def test_the_default_stride_is_half_a_window(model):
    text = "".join(random.Random(0).choice("abcdefgh") for _ in range(40))
    scored = score_all(make_scorer(model, max_seq_len=11), [labelled(text)])[0]
    nll, token_len = windows_by_hand(model, text, 11, 5)
    assert scored.spans["label"].token_len == token_len
    assert close(scored.spans["label"].nll, nll)


def test_later_windows_get_the_prefix_that_the_text_itself_brings(model):
    bos = ord("b") % VOCAB_SIZE
    text = "b" + "".join(random.Random(1).choice("acdefgh") for _ in range(20))
    options = dict(max_seq_len=9, stride=3, prefix_ids=(bos,))
    scored = score_all(make_scorer(model, **options), [labelled(text)])[0].spans["label"]
    ids = CharEncoder().encode_one(text).ids.tolist()
    nlls = {}
    for start in range(0, len(ids), 5):
        prefix = [bos] if start else []
        for place, nll in enumerate(token_nlls(model, [*prefix, *ids[start : start + 8]]), 1):
            nlls.setdefault(start + place - len(prefix), nll)
    assert scored.token_len == len(ids) - 1
    assert close(scored.nll, math.fsum(nlls[i] for i in range(1, len(ids))))


def test_bytes_are_those_of_the_scored_tokens_alone(model):
    scorer = make_scorer(model, max_seq_len=4, long_text="truncate")
    scored = score_all(scorer, [labelled("\u00e9\u4f60cdefg")])[0].spans["label"]
    assert (scored.token_len, scored.unscored_tokens, scored.truncated_tokens) == (3, 1, 3)
    assert scored.byte_len == len("\u4f60cd".encode())


def test_truncation_keeps_the_beginning_and_counts_what_is_lost(model):
    scorer = make_scorer(model, max_seq_len=8, long_text="truncate")
    scored = score_all(scorer, [labelled("abcdefghijklmnop", (2, 5), (6, 11))])[0]
    likelihood = scored.spans["label"]
    assert scored.long_text == "truncate"
    assert (likelihood.token_len, likelihood.truncated_tokens) == (5, 3)
    expected = score_all(make_scorer(model), [labelled("abcdefgh", (2, 5), (6, 8))])[0]
    assert close(likelihood.nll, expected.spans["label"].nll)


def test_a_long_text_is_refused_where_asked(model):
    scorer = make_scorer(model, max_seq_len=8, long_text="error")
    with pytest.raises(DataError, match=r"row 1: .* 9 tokens .* takes 8"):
        score_all(scorer, [labelled("abc"), labelled("abcdefghi")])


def test_the_first_token_is_unscored_unless_something_stands_before_it(model):
    alone = score_all(make_scorer(model), [labelled("ab")])[0].spans["label"]
    assert (alone.token_len, alone.unscored_tokens) == (1, 1)
    prefixed = score_all(make_scorer(model, prefix_ids=(7,)), [labelled("ab")])[0].spans["label"]
    assert (prefixed.token_len, prefixed.unscored_tokens) == (2, 0)
    ids = CharEncoder().encode_one("ab").ids.tolist()
    assert close(prefixed.nll, sum(token_nlls(model, [7, *ids])))


def test_a_text_that_brings_the_prefix_gets_no_second_one(model):
    bos = ord("b") % VOCAB_SIZE
    scored = score_all(make_scorer(model, prefix_ids=(bos,)), [labelled("bac")])[0].spans["label"]
    ids = CharEncoder().encode_one("bac").ids.tolist()
    assert (scored.token_len, scored.unscored_tokens) == (2, 1)
    assert close(scored.nll, sum(token_nlls(model, ids)))


def test_empty_texts_and_empty_labels_give_zero_tokens(model):
    texts = [
        labelled(""),
        LabelledText("abc", {"label": ()}),
        labelled("abc", (1, 1)),
        labelled("a"),
    ]
    scored = score_all(make_scorer(model), texts)
    assert [scored[i].spans["label"].token_len for i in range(4)] == [0, 0, 0, 0]
    assert [scored[i].spans["label"].nll for i in range(4)] == [0, 0, 0, 0]
    assert scored[3].spans["label"].unscored_tokens == 1


def test_several_names_are_scored_in_one_pass(model):
    text = LabelledText("abcdefgh", {"question": ((0, 4),), "answer": ((4, 8),), "none": ()})
    scorer = make_scorer(model)
    with CountingHook(model) as count:
        spans = score_all(scorer, [text])[0].spans
    assert count.forwards == 1
    whole = score_all(scorer, [labelled("abcdefgh")])[0].spans["label"]
    assert spans["question"].token_len + spans["answer"].token_len == whole.token_len
    assert close(spans["question"].nll + spans["answer"].nll, whole.nll)


def test_an_infinite_nll_does_not_reach_what_is_read_with_it(model):
    """A text that is the beginning of a broken one, and one that is padded beside it."""
    broken = tiny_model("llama")
    with torch.no_grad():
        broken.model.embed_tokens.weight[ord("h") % VOCAB_SIZE] = float("nan")
        broken.model.embed_tokens.weight[0] = float("nan")
    texts = [labelled("abc"), labelled("abchz"), labelled("a"), labelled("abcdefg"), labelled("xy")]
    scored = score_all(make_scorer(broken), texts)
    alone = {i: score_all(make_scorer(broken), [text])[0] for i, text in enumerate(texts)}
    assert [math.isfinite(scored[i].spans["label"].nll) for i in range(5)] == [
        True,
        False,
        True,
        True,
        True,
    ]
    del scored[1], alone[1]
    assert_equal_scores(scored, alone)


def test_half_a_surrogate_pair_is_named_with_its_row(model):
    with pytest.raises(DataError, match=r"row 1: character 1 .*surrogate"):
        score_all(make_scorer(model), [labelled("ab"), labelled("a\ud83d")])


def test_an_infinite_nll_stays_with_its_row(model):
    broken = tiny_model("llama")
    letter = ord("h") % VOCAB_SIZE
    with torch.no_grad():
        broken.model.embed_tokens.weight[letter] = float("nan")
    texts = [labelled("abc"), labelled("ahc"), labelled("bcd")]
    scored = score_all(make_scorer(broken), texts)
    finite = [math.isfinite(scored[i].spans["label"].nll) for i in range(3)]
    assert finite == [True, False, True]


def test_token_details_add_up_and_rank_the_vocabulary(model):
    text = "abcdefgh"
    scorer = make_scorer(model, EngineOptions(top_k=3), token_details=True)
    likelihood = score_all(scorer, [labelled(text, (2, 6))])[0].spans["label"]
    details = likelihood.token_details
    ids = CharEncoder().encode_one(text).ids.tolist()
    with torch.inference_mode():
        log_probs = model(input_ids=torch.tensor([ids])).logits[0].double().log_softmax(-1)
    assert (details.start, details.end) == ([2, 3, 4, 5], [3, 4, 5, 6])
    assert close(math.fsum(details.nll), likelihood.nll)
    for i, position in enumerate(range(2, 6)):
        row = log_probs[position - 1]
        assert close(details.nll[i], -row[ids[position]].item())
        assert details.rank[i] == int((row > row[ids[position]]).sum()) + 1
        best = row.topk(3)
        assert details.top_tokens[i] == [chr(t) for t in best.indices.tolist()]
        assert all(
            close(a, -b) for a, b in zip(details.top_nll[i], best.values.tolist(), strict=True)
        )
