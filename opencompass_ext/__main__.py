"""``python -m opencompass_ext`` is the console script ``opencompass-ext``."""

import sys

from opencompass_ext.cli import main

if __name__ == "__main__":
    sys.exit(main())
