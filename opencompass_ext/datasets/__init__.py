"""Data sets: where the rows of an evaluation come from."""

from opencompass_ext.datasets.base import BaseDataset
from opencompass_ext.datasets.hub import HFDataset
from opencompass_ext.datasets.inference_ppl import InferencePPLDataset
from opencompass_ext.datasets.jsonl import JsonlDataset
from opencompass_ext.datasets.pplqa import PPLqaDataset
from opencompass_ext.datasets.rag import RAGDataset
from opencompass_ext.datasets.rag_pairs import RAGPairsDataset
from opencompass_ext.datasets.reader import DatasetReader

__all__ = [
    "BaseDataset",
    "DatasetReader",
    "HFDataset",
    "InferencePPLDataset",
    "JsonlDataset",
    "PPLqaDataset",
    "RAGDataset",
    "RAGPairsDataset",
]
