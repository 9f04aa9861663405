"""Checks of the source tree that linters do not make; each returns one line per problem.

Every check takes the root of a tree, so that tests can show it a planted problem.
`python -m tests.support.tidy --lower` lowers the numbers of tests/support/allowances.py to what the tree still needs.
"""

from tests.support.tidy.counted import (
    COUNTED,
    Counted,
    allowance_problems,
    folder_sizes,
    format_counts,
    inheritance_counts,
    unused_allowances,
    word_counts,
)
from tests.support.tidy.rules import (
    file_size_problems,
    function_size_problems,
    init_problems,
    link_problems,
    machine_path_problems,
    mirror_problems,
    parameter_problems,
    registry_problems,
    test_import_problems,
    unfinished_problems,
)
from tests.support.tidy.tree import tracked_files

__all__ = [
    "COUNTED",
    "Counted",
    "allowance_problems",
    "file_size_problems",
    "folder_sizes",
    "format_counts",
    "function_size_problems",
    "inheritance_counts",
    "init_problems",
    "link_problems",
    "machine_path_problems",
    "mirror_problems",
    "parameter_problems",
    "registry_problems",
    "test_import_problems",
    "tracked_files",
    "unfinished_problems",
    "unused_allowances",
    "word_counts",
]
