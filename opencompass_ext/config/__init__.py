"""Config files: Python that builds lists and dicts, read into plain data and written back."""

from opencompass_ext.config.bases import packaged_configs
from opencompass_ext.config.dump import HIDDEN_SECRET, dump_config, format_config, hide_secrets
from opencompass_ext.config.load import load_config

__all__ = [
    "HIDDEN_SECRET",
    "dump_config",
    "format_config",
    "hide_secrets",
    "load_config",
    "packaged_configs",
]
