"""`python -m bench.tier`: tiered storage beside Apache Kafka's and beside plain transfers, and the table.

All of it takes about a quarter of an hour. Sections can be measured one by one into the same result files:
`--only copy --merge`, then `--only read --merge`, `--only latency --merge` and `--only metadata --merge`.
"""

from __future__ import annotations

import sys

from bench.suite import Suite, run_suite
from bench.tier_experiments import QUICK_TIER, TIER_EXPERIMENTS, TierWork, draw_latency
from bench.tier_rows import TIER_ROWS

TIER = Suite(
    program="bench.tier",
    rows=TIER_ROWS,
    experiments=TIER_EXPERIMENTS,
    full=TierWork(),
    quick=QUICK_TIER,
    setting="each on empty directories, Kafka with 1 GiB heap, warm and with LocalTieredStorage, S3 is versitygw",
    name="tier-latest",
    subject="Tiered storage",
    draw=draw_latency,
)

if __name__ == "__main__":
    sys.exit(run_suite(TIER))
