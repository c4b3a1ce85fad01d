"""The schema of configs: which keys there are, which classes, and what may be left out."""

from opencompass_ext.schema.check import check_config, check_parts
from opencompass_ext.schema.complete import complete_config
from opencompass_ext.schema.unknown_keys import without_unknown_keys

__all__ = ["check_config", "check_parts", "complete_config", "without_unknown_keys"]
