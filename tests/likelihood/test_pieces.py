"""What is read: windows that score each target once, and merged pieces that lose none."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from opencompass_ext.likelihood.pieces import Piece, cut_windows, merge_pieces


@given(
    tokens=st.integers(1, 60),
    max_tokens=st.integers(2, 12),
    data=st.data(),
)
def test_windows_score_each_target_once_with_enough_context(tokens, max_tokens, data):
    stride = data.draw(st.integers(1, max_tokens - 1))
    targets = np.array(sorted(data.draw(st.sets(st.integers(0, tokens - 1)))), dtype=int)

    windows = cut_windows(targets, tokens, max_tokens, stride)

    assert np.concatenate([targets[:0], *(w.targets for w in windows)]).tolist() == targets.tolist()
    for window in windows:
        assert 0 < window.end - window.start <= max_tokens
        assert window.end == window.targets[-1] + 1
        for target in window.targets:
            assert target - window.start >= min(stride, target)


def test_a_text_that_fits_is_one_window_up_to_its_last_target():
    (window,) = cut_windows(np.array([2, 5]), 50, 100, 10)
    assert (window.start, window.end, window.targets.tolist()) == (0, 6, [2, 5])


def test_the_tail_is_kept_where_the_length_of_the_input_matters():
    (window,) = cut_windows(np.array([2, 5]), 50, 100, 10, keep_tail=True)
    assert (window.start, window.end) == (0, 50)


ids_strategy = st.lists(st.integers(0, 2), min_size=1, max_size=6)


@given(st.lists(ids_strategy, max_size=12), st.data())
def test_every_target_is_found_again_after_merging(all_ids, data):
    pieces = []
    for ids in all_ids:
        targets = sorted(data.draw(st.sets(st.integers(0, len(ids) - 1))))
        pieces.append(Piece(np.array(ids), np.array(targets, dtype=int)))

    merged, places = merge_pieces(pieces)

    for piece, place in zip(pieces, places, strict=True):
        host = merged[place.piece]
        assert host.ids[: len(piece.ids)].tolist() == piece.ids.tolist()
        assert host.targets[place.slots].tolist() == piece.targets.tolist()
    asked = {(m.ids.tobytes(), t) for m in merged for t in m.targets.tolist()}
    assert len(asked) == sum(len(m.targets) for m in merged)
    texts = [m.ids.tolist() for m in merged]
    assert texts == sorted(texts)
    assert not any(a != b and b[: len(a)] == a for a in texts for b in texts)


def test_pieces_of_unequal_length_stay_apart_where_length_matters():
    short = Piece(np.array([1, 2, 3]), np.array([2]))
    long = Piece(np.array([1, 2, 3, 4]), np.array([3]))
    assert len(merge_pieces([short, long], alone_above=3)[0]) == 2
    assert len(merge_pieces([short, long], alone_above=4)[0]) == 1
    assert len(merge_pieces([long, long], alone_above=3)[0]) == 1
