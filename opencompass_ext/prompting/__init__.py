"""From a row of a data set to the text a model reads."""

from opencompass_ext.prompting.retriever import FixKRetriever, ZeroRetriever
from opencompass_ext.prompting.template import InsertedColumn, PromptTemplate, Rendered

__all__ = ["FixKRetriever", "InsertedColumn", "PromptTemplate", "Rendered", "ZeroRetriever"]
