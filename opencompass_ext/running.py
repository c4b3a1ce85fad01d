"""One run from start to end: inference, evaluation, summary, exit code."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from rich.console import Console

from opencompass_ext.errors import ConfigError, OpenCompassExtError
from opencompass_ext.logs import log_to_console
from opencompass_ext.outputs import TIME_FORMAT, RunFolder, atomic_writer
from opencompass_ext.plan import Stage, check_case, describe, plan_stage
from opencompass_ext.progress import stage_progress
from opencompass_ext.records import TaskOutcome, TaskSpec
from opencompass_ext.registry import SUMMARIZERS
from opencompass_ext.runners.base import split_pairs

logger = logging.getLogger(__name__)

EXIT_OK = 0
EXIT_FAILED = 1
EXIT_INTERRUPTED = 130

_STAGES = {"all": ("infer", "eval"), "infer": ("infer",), "eval": ("eval",), "viz": ()}
_WITH_SUMMARY = ("all", "eval", "viz")


class _Interrupted(Exception):
    """A Ctrl-C has ended a stage early."""


def execute(
    config: Mapping[str, Any],
    *,
    config_text: str,
    mode: str = "all",
    reuse: str | None = None,
    work_dir: str | None = None,
    debug: bool = False,
    dry_run: bool = False,
    fail_fast: bool = False,
) -> int:
    """Run an evaluation and return the exit code of the program.

    Args:
        config: The loaded config.
        config_text: The config as it is to be kept in the run folder.
        mode: ``"infer"``, ``"eval"`` (evaluate and summarize), ``"viz"`` (summarize) or ``"all"``.
        reuse: Go on with an earlier run: the name of its folder, or ``"latest"``.
        work_dir: Where run folders are; None takes the config's ``work_dir``.
        debug: Run all tasks in this process, with their output on the terminal.
        dry_run: Print what would be done and write nothing.
        fail_fast: Start nothing more once a task has failed.

    Returns:
        0 when all went well, 1 when a task failed, 130 after Ctrl-C.

    Raises:
        ConfigError: Something in the config or the arguments is wrong; no task has been started.
        OutputError: The run folder cannot be written.
    """
    if mode not in _STAGES:
        raise ConfigError(f"unknown mode {mode!r}: expected one of {', '.join(_STAGES)}")
    if mode in ("eval", "viz") and reuse is None:
        raise ConfigError(f"mode {mode!r} works on an earlier run: say which with -r [TIME|latest]")
    work_dir = work_dir or config.get("work_dir") or "outputs/default"
    run = _Run(config, debug=debug, fail_fast=fail_fast)
    if dry_run:
        run.print_plan(work_dir, reuse, mode)
        return EXIT_OK
    log_to_console(run.console)
    try:
        run.open(work_dir, reuse, config_text, mode)
        for stage in _STAGES[mode]:
            run.do_stage(stage)
        if mode in _WITH_SUMMARY:
            run.summarize()
    except (KeyboardInterrupt, _Interrupted):
        run.say_how_to_go_on(work_dir)
        return EXIT_INTERRUPTED
    return run.report()


class _Run:
    """State of one run: its folder and what has failed so far."""

    def __init__(self, config: Mapping[str, Any], *, debug: bool, fail_fast: bool) -> None:
        self.config = config
        self.debug = debug
        self.fail_fast = fail_fast
        self.console = Console(stderr=True)
        self.folder = RunFolder("")
        self.failures: list[TaskOutcome] = []
        self.skipped: list[TaskSpec] = []
        self.other_errors: list[str] = []

    def plan(self, stage: str, folder: RunFolder) -> Stage:
        return plan_stage(self.config, stage, folder, debug=self.debug)

    def print_plan(self, work_dir: str, reuse: str | None, mode: str) -> None:
        """Print the plan of all stages of ``mode``; raise what a real run would raise."""
        if reuse is not None:
            folder = RunFolder.reopen(work_dir, reuse)
        else:
            folder = RunFolder(f"{work_dir}/<{TIME_FORMAT.replace('%', '')}>")
        stages = [self.plan(stage, folder) for stage in _STAGES[mode]]
        print(describe(stages, folder, with_summary=mode in _WITH_SUMMARY))
        for stage in stages:
            stage.runner.check(stage.tasks)

    def open(self, work_dir: str, reuse: str | None, config_text: str, mode: str) -> None:
        """Find or make the run folder, once it is clear that every task can run."""
        unmade = RunFolder(work_dir)
        for stage in (self.plan(name, unmade) for name in _STAGES[mode]):
            stage.runner.check(stage.tasks)
        if reuse is not None:
            self.folder = RunFolder.reopen(work_dir, reuse)
        else:
            self.folder = RunFolder.create(work_dir)
        logger.info("run folder: %s", self.folder.root)
        with atomic_writer(self.folder.config_dump(datetime.now().strftime(TIME_FORMAT))) as file:
            file.write(config_text.encode())
        check_case(self.config, self.folder)

    def do_stage(self, name: str) -> None:
        """Run one stage for all pairs that have not failed before."""
        stage = self.plan(name, self.folder)
        tasks = _without(stage.tasks, [f.task for f in self.failures] + self.skipped)
        if not tasks:
            return
        with stage_progress(
            name, split_pairs(tasks), self.console, is_live=not self.debug
        ) as shown:
            outcomes = stage.runner.run(tasks, shown, fail_fast=self.fail_fast)
        self.failures += [o for o in outcomes if o.status == "failed"]
        self.skipped += [o.task for o in outcomes if o.status == "skipped"]
        if any(o.status == "interrupted" for o in outcomes):
            raise _Interrupted

    def summarize(self) -> None:
        """Write and print the table; a failure here is one more failure of the run."""
        try:
            summarizer = SUMMARIZERS.build(self.config.get("summarizer") or {}, type=_SUMMARIZER)
            summarizer.summarize(
                self.folder,
                list(self.config["models"]),
                list(self.config["datasets"]),
                self.failures,
            )
        except OpenCompassExtError as error:
            self.other_errors.append(f"summary: {error}")

    def report(self) -> int:
        """Print what went wrong, if anything did, and return the exit code."""
        if self.skipped:
            pairs = len({_pair(task) for task in self.skipped})
            print(f"\n{pairs} tasks were not started, because an earlier one failed (--fail-fast)")
        if not self.failures and not self.other_errors:
            return EXIT_OK
        print(f"\n{len(self.failures) + len(self.other_errors)} failed:")
        for failure in self.failures:
            print(f"  {failure.task.name}\n    {failure.error}")
            if failure.log is not None:
                print(f"    log: {failure.log}")
        for error in self.other_errors:
            print(f"  {error}")
        print(f"mend this and go on with: -r {self.folder.root.name}")
        return EXIT_FAILED

    def say_how_to_go_on(self, work_dir: str) -> None:
        """Say that nothing finished is lost."""
        name = self.folder.root.name
        if name:
            print(f"\ninterrupted; finished rows are kept: go on with -r {name} -w {work_dir}")


_SUMMARIZER = "DefaultSummarizer"


def _pair(task: TaskSpec) -> tuple[str, str]:
    return task.model["abbr"], task.datasets[0]["abbr"]


def _without(tasks: Sequence[TaskSpec], pairs: Sequence[TaskSpec]) -> list[TaskSpec]:
    """Return the tasks without the pairs of model and dataset that ``pairs`` are about."""
    left_out = {_pair(pair) for pair in pairs}
    kept = []
    for task in tasks:
        datasets = tuple(
            d for d in task.datasets if (task.model["abbr"], d["abbr"]) not in left_out
        )
        if datasets:
            kept.append(dataclasses.replace(task, datasets=datasets))
    return kept
