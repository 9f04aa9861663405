"""The checked-in schemas are what the generator wrote, and importing the index loads none of them."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import crabka.protocol.generated

ROOT = Path(crabka.protocol.generated.__file__).parent


def test_generated_sources_have_the_digests_the_generator_recorded() -> None:
    recorded = {}
    for line in (ROOT / "SHA256SUMS").read_text().splitlines():
        digest, name = line.split("  ")
        recorded[name] = digest
    found = {
        path.relative_to(ROOT).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in ROOT.rglob("*.py")
    }
    assert found == recorded


def test_the_index_imports_no_schema() -> None:
    code = "import sys, crabka.protocol.generated.index; print(sum('.generated.' in name for name in sys.modules))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "1"
