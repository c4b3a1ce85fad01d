"""One row of mean NLL per inference_ppl data set, and the average for each language."""

from opencompass_ext.summarizers import DefaultSummarizer

_en = ["inference-ppl-en_gsm8k_reasoning", "inference-ppl-en_gsm8k_answer"]
_zh = [
    "inference-ppl-zh_cmath_answer",
    "inference-ppl-zh_gaokao_reasoning",
    "inference-ppl-zh_gaokao_answer",
]

summarizer = dict(
    type=DefaultSummarizer,
    dataset_abbrs=[*_en, *_zh, "inference-ppl-en", "inference-ppl-zh"],
    summary_groups=[
        dict(name="inference-ppl-en", subsets=_en),
        dict(name="inference-ppl-zh", subsets=_zh),
    ],
)
