"""Batches hold every row once and keep to their limits."""

from hypothesis import given
from hypothesis import strategies as st

from opencompass_ext.likelihood.batching import BatchLimits, make_batches


@given(
    st.dictionaries(st.integers(0, 40), st.integers(1, 50), max_size=20),
    st.integers(1, 120),
    st.integers(1, 400),
    st.one_of(st.none(), st.integers(1, 5)),
    st.integers(0, 30),
)
def test_every_row_once_within_the_limits(lengths, tokens, cache_tokens, max_rows, prefix):
    limits = BatchLimits(tokens, cache_tokens, max_rows)
    batches = make_batches(lengths, limits, prefix=prefix)
    assert sorted(row for batch in batches for row in batch) == sorted(lengths)
    for batch in batches:
        longest = max(lengths[row] for row in batch)
        if len(batch) > 1:
            assert len(batch) * longest <= tokens
            assert max_rows is None or len(batch) <= max_rows
            assert prefix == 0 or len(batch) * (prefix + longest) <= cache_tokens
    longest_of = [max(lengths[row] for row in batch) for batch in batches]
    assert longest_of == sorted(longest_of, reverse=True)
