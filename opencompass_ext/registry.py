"""All registries on one screen: the names a config may use for ``type``.

A class joins with ``@DATASETS.register_module()`` in a module of the package named here. Looking a
name up imports that package, and nothing heavier: modules that hold registered classes import
torch, transformers and datasets inside the methods that need them, so that the command line can
check a config without loading any of the three.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from mmengine.registry import Registry as _MMEngineRegistry

from opencompass_ext.compat import our_name
from opencompass_ext.errors import ConfigError, did_you_mean
from opencompass_ext.user_code import import_class


class Registry(_MMEngineRegistry):
    """mmengine's registry with three changes: lazy package import, OpenCompass's names, errors.

    mmengine builds a logger on the first lookup, which imports torch; and it lets ``force=True``
    replace a registered name without a word. Here a lookup is a dictionary access, a second
    registration under one name is refused, and an unknown name is answered with the nearest ones.
    """

    def __init__(self, name: str, package: str) -> None:
        super().__init__(name, scope="opencompass_ext")
        self._package = package

    def _register_module(
        self, module: type, module_name: str | list[str] | None = None, force: bool = False
    ) -> None:
        # The one place through which mmengine registers, as a decorator or as a call.
        names = module_name if isinstance(module_name, list) else [module_name or module.__name__]
        for name in names:
            taken = self.module_dict.get(name)
            if taken is not None:
                raise ValueError(
                    f"the {self.name} name {name!r} is taken by "
                    f"{taken.__module__}.{taken.__qualname__}: register under another name"
                )
            self.module_dict[name] = module

    def names(self) -> list[str]:
        """Return the registered names, sorted."""
        importlib.import_module(self._package)
        return sorted(self.module_dict)

    def get(self, key: str | type) -> type:
        """Return the class for a class, a registered name, or a dotted path.

        Args:
            key: A class (returned as it is), ``"NaivePartitioner"``, a dotted name of OpenCompass
                (``"opencompass.partitioners.NaivePartitioner"``, found by its last part), or the
                dotted path of a class of the user's own.

        Raises:
            ConfigError: No such class.

        Example:
            >>> MODELS.get("opencompass.models.ScriptedModel").__name__
            'ScriptedModel'
        """
        if isinstance(key, type):
            return key
        if not isinstance(key, str):
            raise ConfigError(
                f"a {self.name} type must be a class or its name, got {key!r} "
                f"({type(key).__name__})"
            )
        names = self.names()
        name = our_name(key)
        if name in self.module_dict:
            return self.module_dict[name]
        if "." in name:
            return import_class(name, self.name)
        raise ConfigError(f"unknown {self.name} type {key!r}: {did_you_mean(name, names)}")

    def build(self, cfg: Mapping[str, Any], **extra: Any) -> Any:
        """Build ``cfg["type"]`` from the other keys of ``cfg``; ``extra`` fills what cfg lacks.

        Raises:
            ConfigError: ``type`` is missing or unknown, or the class refuses the arguments.
        """
        arguments = {**extra, **cfg}
        if "type" not in arguments:
            raise ConfigError(f"a {self.name} config needs the key 'type', got keys {sorted(cfg)}")
        cls: Callable[..., Any] = self.get(arguments.pop("type"))
        try:
            inspect.signature(cls).bind(**arguments)
        except TypeError as error:
            raise ConfigError(f"the {self.name} {cls.__name__}: {error}") from error
        return cls(**arguments)


MODELS = Registry("model", package="opencompass_ext.models")
DATASETS = Registry("dataset", package="opencompass_ext.datasets")
PROMPT_TEMPLATES = Registry("prompt template", package="opencompass_ext.prompting")
RETRIEVERS = Registry("retriever", package="opencompass_ext.prompting")
INFERENCERS = Registry("inferencer", package="opencompass_ext.inferencers")
EVALUATORS = Registry("evaluator", package="opencompass_ext.evaluators")
PARTITIONERS = Registry("partitioner", package="opencompass_ext.partitioners")
RUNNERS = Registry("runner", package="opencompass_ext.runners")
TASKS = Registry("task", package="opencompass_ext.tasks")
SUMMARIZERS = Registry("summarizer", package="opencompass_ext.summarizers")
JUDGES = Registry("judge", package="opencompass_ext.judging")
