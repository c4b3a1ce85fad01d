"""The plain way to a score, to compare every shortcut with.

One row alone, in float32, full logits, log-softmax and sums in float64, spans mapped by hand.
"""

import math

import torch


def token_nlls(model, ids):
    """NLL of ids[1:] given what stands before, as float64, from one row alone."""
    with torch.inference_mode():
        # Dynamic rotary embeddings remember the longest row until a short one is read.
        model(input_ids=torch.tensor([ids[:1]]))
        logits = model(input_ids=torch.tensor([ids])).logits[0].double()
    log_probs = logits.log_softmax(dim=-1)
    return [-log_probs[i - 1, ids[i]].item() for i in range(1, len(ids))]


def span_nll(model, ids, ranges, spans, prefix=()):
    """Return (summed NLL, counted tokens) of the tokens whose range meets a span."""
    everything = [*prefix, *ids]
    if len(everything) < 2:
        return 0.0, 0
    nlls = token_nlls(model, everything)
    counted = []
    for token, (start, end) in enumerate(ranges):
        position = token + len(prefix)
        meets = any(start < span_end and end > span_start for span_start, span_end in spans)
        if meets and position >= 1:
            counted.append(nlls[position - 1])
    return math.fsum(counted), len(counted)


def close(got, expected, relative=1e-4, absolute=1e-5):
    return abs(got - expected) <= max(absolute, relative * abs(expected))
