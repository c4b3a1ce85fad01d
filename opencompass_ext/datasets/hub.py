"""A data set from the Hugging Face hub, or from a local folder that ``datasets`` can read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opencompass_ext.datasets.base import BaseDataset
from opencompass_ext.errors import DataError
from opencompass_ext.registry import DATASETS

if TYPE_CHECKING:
    from datasets import Dataset, DatasetDict


@DATASETS.register_module()
class HFDataset(BaseDataset):
    """A data set by its hub id, a local folder of data files, or a folder of ``save_to_disk``.

    No code of the data set's repository is run. Downloads are kept in the cache of ``datasets``
    (``HF_HOME``), and a data set that is there already needs no network.

    Config keys:
        path: Hub id such as ``"openai/gsm8k"``, or a local folder.
        name: Configuration of the data set, such as ``"main"``.
        split: One split; without it all splits are there and ``reader_cfg`` picks.
        revision: Branch, tag or commit of the repository; give a commit to pin the data.
        data_files: Files of the repository or folder, as ``datasets.load_dataset`` takes them.
    """

    @staticmethod
    def load(  # type: ignore[override]
        path: str,
        name: str | None = None,
        split: str | None = None,
        revision: str | None = None,
        data_files: str | list[str] | dict[str, Any] | None = None,
    ) -> Dataset | DatasetDict:
        """Return the data set; see the class.

        Raises:
            DataError: There is no such data set, split or file, or the hub cannot be reached.
        """
        import datasets

        if not isinstance(path, (str, os.PathLike)) or not os.fspath(path):
            raise DataError(f"path must be a hub id or a folder, got {path!r}")
        local = os.path.expanduser(path)
        if local.startswith((".", os.sep)) and not os.path.isdir(local):
            raise DataError(f"there is no folder {Path(local).absolute()} (key 'path')")
        try:
            if _is_saved_to_disk(local):
                return _one_split(datasets.load_from_disk(local), path, split)
            return datasets.load_dataset(
                local if os.path.isdir(local) else os.fspath(path),
                name,
                split=split,
                revision=revision,
                data_files=data_files,
            )
        except (OSError, ValueError, RuntimeError, datasets.exceptions.DatasetsError) as error:
            raise _cannot_load(os.fspath(path), error) from error


def _is_saved_to_disk(folder: str) -> bool:
    return any(
        os.path.isfile(os.path.join(folder, file)) for file in ("dataset_dict.json", "state.json")
    )


def _one_split(data: Dataset | DatasetDict, path: str, split: str | None) -> Dataset | DatasetDict:
    from datasets import DatasetDict

    if split is None or not isinstance(data, DatasetDict):
        return data
    if split not in data:
        raise DataError(f"{path} has no split {split!r}; it has {', '.join(data)}")
    return data[split]


def _cannot_load(path: str, error: Exception) -> DataError:
    from huggingface_hub.errors import OfflineModeIsEnabled

    chain: list[BaseException] = [error]
    while (before := chain[-1].__cause__ or chain[-1].__context__) is not None:
        chain.append(before)
    first_line = str(error).strip().split("\n")[0]
    reason = f"{type(error).__name__}: {first_line}"
    if os.path.isdir(os.path.expanduser(path)):
        return DataError(f"cannot load the data set folder {Path(path).resolve()}: {reason}")
    if any(isinstance(e, (ConnectionError, OfflineModeIsEnabled)) for e in chain):
        return DataError(
            f"cannot load {path!r}: it is no local folder, it is not in the cache of datasets, "
            f"and the hub cannot be reached ({reason}). Download it once with a network, or name "
            f"local files with type='JsonlDataset'"
        )
    return DataError(f"cannot load {path!r} from the hub: {reason}")
