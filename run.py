"""Run an evaluation: ``python run.py examples/eval_inference_ppl.py``."""

import sys

from opencompass_ext.cli import main

if __name__ == "__main__":
    sys.exit(main())
