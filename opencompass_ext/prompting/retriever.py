"""Choose the in-context examples that stand before each row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from opencompass_ext.errors import ConfigError
from opencompass_ext.prompting.template import PromptTemplate
from opencompass_ext.registry import RETRIEVERS


class BaseRetriever:
    """Chooses rows of the index split as examples for each row of the test split.

    Args:
        dataset: A dataset with ``train`` (the index split) and ``test``.
        ice_separator: Stands between two examples.
        ice_eos_token: Stands after the last example.
    """

    def __init__(self, dataset: Any, ice_separator: str = "\n", ice_eos_token: str = "\n") -> None:
        self.dataset = dataset
        self.ice_separator = ice_separator
        self.ice_eos_token = ice_eos_token

    def retrieve(self) -> list[list[int]]:
        """Return, for each test row, the indices of its examples in the index split."""
        raise NotImplementedError

    def generate_ice(self, indices: Sequence[int], ice_template: PromptTemplate | None) -> str:
        """Return the text of the examples; empty without examples.

        Raises:
            ConfigError: There are examples and no ``ice_template``.
        """
        if not indices:
            return ""
        if ice_template is None:
            raise ConfigError(
                f"{type(self).__name__} chooses in-context examples, so infer_cfg needs an "
                "'ice_template' that says how to write one"
            )
        index = self.dataset.train
        examples = [ice_template.render(index[int(i)]).text for i in indices]
        return self.ice_separator.join(examples) + self.ice_eos_token


@RETRIEVERS.register_module()
class ZeroRetriever(BaseRetriever):
    """No examples."""

    def retrieve(self) -> list[list[int]]:
        """Return an empty list for each test row."""
        return [[] for _ in range(len(self.dataset.test))]


@RETRIEVERS.register_module()
class FixKRetriever(BaseRetriever):
    """The same examples before every row, which the scoring engine then reads only once.

    Args:
        dataset: See ``BaseRetriever``.
        fix_id_list: Row numbers in the index split, in the order they are shown.
        ice_separator: See ``BaseRetriever``.
        ice_eos_token: See ``BaseRetriever``.

    Raises:
        ConfigError: A number lies outside the index split.
    """

    def __init__(
        self,
        dataset: Any,
        fix_id_list: Sequence[int],
        ice_separator: str = "\n",
        ice_eos_token: str = "\n",
    ) -> None:
        super().__init__(dataset, ice_separator, ice_eos_token)
        self.fix_id_list = list(fix_id_list)
        size = len(dataset.train)
        outside = [i for i in self.fix_id_list if not 0 <= i < size]
        if outside:
            rows = f"the rows 0 to {size - 1}" if size else "no rows"
            raise ConfigError(f"fix_id_list holds {outside}, and the index split has {rows}")

    def retrieve(self) -> list[list[int]]:
        """Return ``fix_id_list`` for each test row."""
        return [self.fix_id_list for _ in range(len(self.dataset.test))]
