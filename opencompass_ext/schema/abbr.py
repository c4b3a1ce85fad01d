"""The short names that files and tables call models and datasets by."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from opencompass_ext.compat import our_name


def model_abbr(model: Mapping[str, Any]) -> str:
    """Return the abbr of a model's config: its own, else type and last two parts of the real path.

    OpenCompass makes the same default, but with the type as it is spelled, which differs before
    and after a config was dumped; here it is always the class name.

    Example:
        >>> model_abbr({"type": "opencompass.models.HuggingFaceBaseModel", "path": "/w/org/opt"})
        'HuggingFaceBaseModel_org_opt'
    """
    if "abbr" in model:
        return model["abbr"]
    class_name = our_name(str(model["type"])).rpartition(".")[2]
    parts = os.path.realpath(str(model.get("path", ""))).split(os.sep)[-2:]
    return "_".join([class_name, *parts])


def dataset_abbr(dataset: Mapping[str, Any]) -> str:
    """Return the abbr of a dataset's config: its own, else path and name with ``/`` as ``_``.

    Example:
        >>> dataset_abbr({"path": "data/inference_ppl", "name": "zh_cmath"})
        'data_inference_ppl_zh_cmath'
    """
    if "abbr" in dataset:
        return dataset["abbr"]
    parts = [str(dataset[key]) for key in ("path", "name") if dataset.get(key)]
    return "_".join(parts).replace("/", "_") or our_name(str(dataset["type"])).rpartition(".")[2]
