"""Names of OpenCompass, and ours for the same thing."""

from __future__ import annotations

OPENCOMPASS_PREFIXES = ("opencompass.", "opencompass_ext.")


def our_name(dotted_or_plain: str) -> str:
    """Return the name to look up for a ``type`` string of a config.

    OpenCompass has moved its modules more than once while the class names stayed, so of a dotted
    name that starts with ``opencompass.`` only the last part counts.

    Example:
        >>> our_name("opencompass.openicl.icl_inferencer.InferencePPLOnlyInferencer")
        'InferencePPLOnlyInferencer'
        >>> our_name("my_package.MyDataset")
        'my_package.MyDataset'
    """
    if dotted_or_plain.startswith(OPENCOMPASS_PREFIXES):
        return dotted_or_plain.rpartition(".")[2]
    return dotted_or_plain
