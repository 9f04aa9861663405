"""`python -m crabka.cli.story` gives the tour.

SIGTERM ends it as Ctrl-C does: the node is stopped, nothing is left. Both signals are set, because a shell that
starts commands in the background lets them ignore Ctrl-C.
"""

import signal
import sys

from crabka.cli.story.story import run

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(run(sys.argv[1:]))
