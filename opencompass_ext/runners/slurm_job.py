"""What runs in an allocation of Slurm: a worker that takes its assignments from a mailbox.

Started by ``sbatch`` as ``python -m opencompass_ext.runners.slurm_job FOLDER NUM_GPUS``, as an
element of a job array: the mailbox is the folder ``FOLDER/<index in the array>``. The worker keeps
its model for all tasks that the runner gives it, and ends, rows in hand safe on disk, when the
runner says so or has been silent for some minutes.
"""

from __future__ import annotations

import argparse
import faulthandler
import os
import sys
from pathlib import Path

from opencompass_ext.logs import log_to_stderr
from opencompass_ext.runners.devices import allocation_environment
from opencompass_ext.runners.mailbox import Mailbox, Writer, follow_assignments
from opencompass_ext.tasks.worker import Worker

# Runner and file server may be slow now and then: what is lost by waiting is some idle minutes.
PATIENCE_SECONDS = 180.0
# Last line of a worker that has ended by itself; followed by its exit code.
ENDED = b"ended "


def main(argv: list[str] | None = None) -> int:
    """Serve the mailbox of this job and return the exit code of the process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("num_gpus", type=int)
    args = parser.parse_args(argv)
    # Nothing so far has loaded torch, which reads these once.
    os.environ.update(allocation_environment(args.num_gpus))
    faulthandler.enable()
    log_to_stderr()
    mailbox = Mailbox(args.folder / os.environ["SLURM_ARRAY_TASK_ID"])
    events = Writer(mailbox.events)
    assignments = follow_assignments(mailbox.assignments, PATIENCE_SECONDS)
    code = Worker(assignments, events.write).run()
    events.write(ENDED + b"%d\n" % code)
    return code


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    # Without waiting for threads that a task has left behind, or for native code to tidy up.
    os._exit(code)
