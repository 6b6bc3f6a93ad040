"""``python -m tdsim.cli``: the same as the ``tdsim`` command."""

import sys

from tdsim.cli import main

sys.exit(main())
