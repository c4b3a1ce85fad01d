"""A causal language model that vLLM runs in this process."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from opencompass_ext.errors import MissingDependencyError, ModelError, ModelLoadError
from opencompass_ext.models.options import as_plain_json, check_positive
from opencompass_ext.models.scoring import TOP_K, SpanScoringModel
from opencompass_ext.models.sources import check_source, local_source, source_identity
from opencompass_ext.registry import MODELS

if TYPE_CHECKING:
    from opencompass_ext.likelihood.scorer import Backend
    from opencompass_ext.models.tokenizer import TextSide

# Arguments of vllm.LLM that say where and how fast, not what.
_PLACEMENT_KEYS = frozenset(
    {
        "disable_log_stats",
        "enable_prefix_caching",
        "gpu_memory_utilization",
        "max_num_batched_tokens",
        "max_num_seqs",
        "pipeline_parallel_size",
        "tensor_parallel_size",
    }
)


@MODELS.register_module()
class VLLMModel(SpanScoringModel):
    """Scores texts with vLLM's ``prompt_logprobs``; vLLM itself batches what it is given.

    vLLM generates one token after each prompt, which is thrown away, and reads no prefix cache for
    prompts whose log-probabilities are asked for: a beginning that texts share is computed for
    each of them. Where that matters, HuggingFaceBaseModel reads it once.

    Tried with vLLM 0.32 on a CPU in float32. Needs the extra ``vllm``.

    Args:
        path: A folder in Hugging Face's format, ``"embedded:<name>"``, or a hub id.
        model_kwargs: For ``vllm.LLM``: ``dtype`` (vLLM turns float32 weights into half precision
            unless told otherwise), ``tensor_parallel_size``, ``gpu_memory_utilization``,
            ``max_model_len``...
        tokenizer_path: Where the tokenizer is, if not at ``path``.
        tokenizer_kwargs: For ``AutoTokenizer.from_pretrained``.
        batch_prompts: Prompts handed to vLLM at a time; their scores are on disk when all of them
            are done.
        **text_options: See ``SpanScoringModel``. Default and upper bound of ``max_seq_len``:
            vLLM's ``max_model_len`` less the token it generates.

    Raises:
        ConfigError: An option has a value it cannot have.
        ModelError: ``path`` names a folder that does not exist.
    """

    def __init__(
        self,
        path: str,
        model_kwargs: Mapping[str, Any] | None = None,
        tokenizer_path: str | None = None,
        tokenizer_kwargs: Mapping[str, Any] | None = None,
        batch_prompts: int = 256,
        **text_options: Any,
    ) -> None:
        super().__init__(**text_options)
        check_positive(batch_prompts=batch_prompts)
        check_source(path, "path")
        check_source(tokenizer_path, "tokenizer_path")
        self.path = path
        self.model_kwargs = dict(model_kwargs or {})
        self.tokenizer_path = tokenizer_path
        self.tokenizer_kwargs = dict(tokenizer_kwargs or {})
        self.batch_prompts = batch_prompts

    def identity(self) -> Mapping[str, Any]:
        """Return all that decides the scores. Batch sizes and placement do not."""
        decisive = {k: v for k, v in self.model_kwargs.items() if k not in _PLACEMENT_KEYS}
        return {
            "type": type(self).__name__,
            "weights": source_identity(self.path, self.model_kwargs),
            "tokenizer": self.tokenizer_path
            and source_identity(self.tokenizer_path, self.tokenizer_kwargs),
            "model_kwargs": as_plain_json(decisive),
            "tokenizer_kwargs": as_plain_json(self.tokenizer_kwargs),
            **self.text_options(),
        }

    def provenance(self) -> Mapping[str, Any]:
        """Return how vLLM computes: dtype, prefix, versions."""
        import vllm

        from opencompass_ext.models.loading import library_versions

        return {
            "dtype": str(self._llm.llm_engine.model_config.dtype),
            "prefix_ids": list(self.text_side.prefix_ids),
            "max_seq_len": self.text_side.max_seq_len,
            "versions": {**library_versions(), "vllm": vllm.__version__},
        }

    @cached_property
    def text_side(self) -> TextSide:
        """How texts become token ids; loads tokenizer and weights."""
        from opencompass_ext.models.tokenizer import load_tokenizer, text_side_of

        source = local_source(self.tokenizer_path or self.path)
        tokenizer = load_tokenizer(source, self.tokenizer_kwargs)
        longest = self._llm.llm_engine.model_config.max_model_len - 1
        return text_side_of(
            tokenizer,
            prefix_token=self.prefix_token,
            max_seq_len=min(longest, self.max_seq_len or longest),
        )

    def make_backend(self, *, batch_rows: int | None, token_details: bool) -> Backend:
        """Return what hands pieces to vLLM."""
        from opencompass_ext.models.vllm_backend import VLLMBackend

        return VLLMBackend(
            self._read,
            batch_prompts=min(self.batch_prompts, batch_rows or self.batch_prompts),
            top_k=TOP_K if token_details else 0,
        )

    def _read(self, prompts: list[list[int]], top_k: int) -> list[Any]:
        """Return vLLM's ``prompt_logprobs`` of each prompt."""
        from vllm import SamplingParams

        sampling = SamplingParams(
            max_tokens=1, temperature=0.0, prompt_logprobs=top_k, detokenize=False
        )
        inputs = [{"prompt_token_ids": ids} for ids in prompts]
        try:
            outputs = self._llm.generate(inputs, sampling, use_tqdm=False)
        except ValueError as error:
            raise ModelError(f"vLLM refuses the prompts: {_shorten(error)}") from error
        return [output.prompt_logprobs for output in outputs]

    @cached_property
    def _llm(self) -> Any:
        try:
            from vllm import LLM
        except ModuleNotFoundError as error:
            if error.name != "vllm":
                raise
            raise MissingDependencyError(
                "vllm", needed_for=type(self).__name__, extra="vllm"
            ) from error
        arguments = {
            "tokenizer": local_source(self.tokenizer_path or self.path),
            **self.model_kwargs,
        }
        try:
            return LLM(model=local_source(self.path), **arguments)
        except (OSError, ValueError, TypeError, RuntimeError) as error:
            raise ModelLoadError(f"vLLM cannot load {self.path!r}: {_shorten(error)}") from error


def _shorten(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:500]}"
