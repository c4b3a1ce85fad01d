"""One run from start to end: inference, evaluation, summary, exit code."""

from __future__ import annotations

import dataclasses
import logging
import shlex
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from rich.console import Console

from opencompass_ext.errors import ConfigError, OpenCompassExtError
from opencompass_ext.logs import log_to_console
from opencompass_ext.outputs import TIME_FORMAT, RunFolder
from opencompass_ext.predictions.merging import merge_finished
from opencompass_ext.records import TaskOutcome, TaskSpec
from opencompass_ext.registry import SUMMARIZERS
from opencompass_ext.runners.pairs import split_pairs
from opencompass_ext.running.displays import stage_progress
from opencompass_ext.running.plan import Stage, describe, plan_stage
from opencompass_ext.running.signals import terminated_like_ctrl_c
from opencompass_ext.running.status import StatusFile
from opencompass_ext.schema.keys import DEFAULT_SUMMARIZER
from opencompass_ext.writing import atomic_writer

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
    debug: bool = False,
    dry_run: bool = False,
    fail_fast: bool = False,
) -> int:
    """Run an evaluation and return the exit code of the program.

    Args:
        config: The loaded config, with ``work_dir``, the folder that run folders are in.
        config_text: The config as it is to be kept in the run folder.
        mode: ``"infer"``, ``"eval"`` (evaluate and summarize), ``"viz"`` (summarize) or ``"all"``.
        reuse: Go on with an earlier run: the name of its folder, or ``"latest"``.
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
    work_dir = config["work_dir"]
    earlier = None if reuse is None else RunFolder.reopen(work_dir, reuse)
    planned_folder = earlier or RunFolder(f"{work_dir}/<time>")
    stages = [
        plan_stage(config, name, planned_folder, debug=debug, dry_run=dry_run)
        for name in _STAGES[mode]
    ]
    if dry_run:
        print(describe(stages, planned_folder, with_summary=mode in _WITH_SUMMARY))
    for stage in stages:
        stage.runner.check(stage.tasks)
    if dry_run:
        return EXIT_OK
    console = Console(stderr=True)
    log_to_console(console)
    folder = earlier or RunFolder.create(work_dir)
    logger.info("run folder: %s", folder.root)
    with atomic_writer(folder.config_dump(datetime.now().strftime(TIME_FORMAT))) as file:
        file.write(config_text.encode())
    run = _Run(config, folder, console, debug=debug, fail_fast=fail_fast)
    state = "failed"
    try:
        with terminated_like_ctrl_c():
            for stage in stages:
                run.do_stage(stage)
            if mode in _WITH_SUMMARY:
                run.summarize()
        code = run.report()
        state = "done" if code == EXIT_OK else "failed"
        return code
    except (KeyboardInterrupt, _Interrupted):
        state = "interrupted"
        print(f"\ninterrupted; finished rows are kept: go on with {run.how_to_go_on()}")
        return EXIT_INTERRUPTED
    finally:
        run.status.end(state)


class _Run:
    """State of one run: its folder and what has failed so far."""

    def __init__(
        self,
        config: Mapping[str, Any],
        folder: RunFolder,
        console: Console,
        *,
        debug: bool,
        fail_fast: bool,
    ) -> None:
        self.config = config
        self.folder = folder
        self.console = console
        self.debug = debug
        self.fail_fast = fail_fast
        self.status = StatusFile(folder.status)
        self.failures: list[TaskOutcome] = []
        self.skipped: list[TaskOutcome] = []
        self.other_errors: list[str] = []

    def do_stage(self, stage: Stage) -> None:
        """Run one stage for all pairs that have not failed before."""
        root = str(self.folder.root)
        planned = [dataclasses.replace(task, run_folder=root) for task in stage.tasks]
        tasks = _without(planned, [o.task for o in self.failures + self.skipped])
        pairs = split_pairs(tasks)
        if self.fail_fast and self.failures:
            self.skipped += [TaskOutcome(pair, "skipped") for pair in pairs]
            return
        if not tasks:
            return
        with stage_progress(
            stage.name, pairs, self.console, is_live=not self.debug, status=self.status
        ) as shown:
            outcomes = stage.runner.run(tasks, shown, fail_fast=self.fail_fast)
            self.status.keep(shown.as_json())
        self.failures += [o for o in outcomes if o.status == "failed"]
        self.skipped += [o for o in outcomes if o.status == "skipped"]
        if any(o.status == "interrupted" for o in outcomes):
            raise _Interrupted
        unmerged = merge_finished(self.folder, outcomes)
        for failure in unmerged:
            logger.error("%s: %s", failure.task.name, failure.error)
            self.status.add_failure(failure)
        self.failures += unmerged

    def summarize(self) -> None:
        """Write and print the table; a failure here is one more failure of the run."""
        try:
            summarizer = SUMMARIZERS.build(
                self.config.get("summarizer") or {}, type=DEFAULT_SUMMARIZER
            )
            summarizer.summarize(
                self.folder,
                list(self.config["models"]),
                list(self.config["datasets"]),
                self.failures + self.skipped,
            )
        except OpenCompassExtError as error:
            self.other_errors.append(f"summary: {error}")

    def report(self) -> int:
        """Print what went wrong, if anything did, and return the exit code."""
        if self.skipped:
            print(f"\n{len(self.skipped)} tasks were not started after a failure (--fail-fast)")
        if not self.failures and not self.other_errors:
            return EXIT_OK
        print(f"\n{len(self.failures) + len(self.other_errors)} failed:")
        for first, *alike in _alike(self.failures):
            print(f"  {first.task.name}")
            if alike:
                others = ", ".join(failure.task.name for failure in alike)
                print(f"  and alike {others}")
            print(f"    {first.error}")
            if first.log is not None:
                print(f"    log: {first.log}")
                if any(failure.log != first.log for failure in alike):
                    print("    the logs of the others: status.json in the run folder names them")
        for error in self.other_errors:
            print(f"  {error}")
        print(f"fix this and resume with {self.how_to_go_on()}")
        return EXIT_FAILED

    def how_to_go_on(self) -> str:
        """Return the flags that go on with this run."""
        root = self.folder.root
        return f"-r {root.name} -w {shlex.quote(str(root.parent))}"


def _alike(failures: Sequence[TaskOutcome]) -> list[list[TaskOutcome]]:
    """Return failures in groups of one model, one stage and one error, in order."""
    groups: dict[tuple[str, str, str | None], list[TaskOutcome]] = {}
    for failure in failures:
        key = (failure.task.type, failure.task.model["abbr"], failure.error)
        groups.setdefault(key, []).append(failure)
    return list(groups.values())


def _pair(task: TaskSpec) -> tuple[str, str]:
    return task.model["abbr"], task.datasets[0]["abbr"]


def _without(tasks: Sequence[TaskSpec], pairs: Sequence[TaskSpec]) -> list[TaskSpec]:
    """Return the tasks without the pairs of model and dataset that ``pairs`` are about."""
    left_out = {_pair(pair) for pair in pairs}
    kept = []
    for task in tasks:
        pieces = [
            (dataset, rows)
            for dataset, rows in task.pieces
            if (task.model["abbr"], dataset["abbr"]) not in left_out
        ]
        if pieces:
            datasets, rows = zip(*pieces, strict=True)
            kept.append(
                dataclasses.replace(task, datasets=datasets, rows=rows if any(rows) else ())
            )
    return kept
