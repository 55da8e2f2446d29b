"""`python -m tests.fuzz`: see `tests/fuzz/campaign.py`."""

from __future__ import annotations

import sys

from .campaign import main

sys.exit(main())
