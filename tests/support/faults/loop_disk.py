"""A small ext4 in a file, which turns read-only while a process writes to it, as after an error of a disk."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Self

_FAULTS = Path("/sys/fs/ext4")
# Files of a process that was killed are closed a moment after its end.
_MEND_TRIES = 5
_UNMOUNT_TRIES = 600
_UNMOUNT_PAUSE_S = 0.1


class LoopDiskError(Exception):
    """This machine does not let us mount one."""


class LoopDisk:
    """A mounted file system of its own."""

    def __init__(self, directory: Path, size: int) -> None:
        self.point = directory / "disk"
        self.point.mkdir()
        self._image = directory / "disk.img"
        with self._image.open("wb") as file:
            file.truncate(size)

    def __enter__(self) -> Self:
        """Raises LoopDiskError."""
        _run("mkfs.ext4", "-q", str(self._image))
        self.mount()
        if not self._fault().exists():
            self.unmount()
            raise LoopDiskError("this kernel's ext4 has no trigger_fs_error")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.unmount()

    def mount(self) -> None:
        """Mount it, to be written to until the first error. Raises LoopDiskError."""
        _run("mount", "-o", "loop,errors=remount-ro", str(self._image), str(self.point))

    def unmount(self) -> None:
        """Take it away; who has files open there keeps them."""
        _run("umount", "-l", str(self.point))

    def turn_read_only(self) -> None:
        """Note an error of the kernel. What was not synced is lost."""
        self._fault().write_text("1")

    def mend(self) -> None:
        """Check it and mount it again, as after a change of the cable. No process has files open there."""
        for _ in range(_MEND_TRIES):
            self._unmount_for_good()
            # 1 says that errors were corrected.
            _run("fsck.ext4", "-f", "-y", str(self._image), good=(0, 1))
            self.mount()
            # The kernel mounts a file system read-only for which it still knows of an error.
            if os.access(self.point, os.W_OK):
                return
        raise LoopDiskError(f"{self.point} stays read-only")

    def _unmount_for_good(self) -> None:
        """Unmount when the last file is closed, and wait until the device is gone.

        A check beside them would change bytes under the mount, or under what the device has cached.
        """
        for _ in range(_UNMOUNT_TRIES):
            try:
                if self.point.is_mount():
                    _run("umount", str(self.point))
                if not _run("losetup", "--associated", str(self._image)):
                    return
            except LoopDiskError as error:
                busy = error
            else:
                busy = LoopDiskError(f"{self._image} is still a device")
            time.sleep(_UNMOUNT_PAUSE_S)
        raise busy

    def _fault(self) -> Path:
        device = _run("findmnt", "--noheadings", "--output", "SOURCE", str(self.point)).strip()
        return _FAULTS / Path(device).name / "trigger_fs_error"


def _run(*command: str, good: tuple[int, ...] = (0,)) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise LoopDiskError(f"there is no {command[0]} here") from error
    if done.returncode not in good:
        raise LoopDiskError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout
