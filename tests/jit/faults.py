"""What goes wrong around a process, for forked children to do to themselves: system calls that
fail, other users, mounts. Linux only, without helpers: seccomp, namespaces and prctl by ctypes.
"""

import ctypes
import errno
import os
import platform
import struct
from pathlib import Path

LIBC = ctypes.CDLL(None, use_errno=True)
NOBODY = 65534
MS_RDONLY, MS_NOEXEC, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 8, 32, 4096, 16384, 1 << 18

# ------------------------------------------------------------------ system calls
_ARCH, _NUMBERS = {
    "x86_64": (
        0xC000003E,
        dict(mmap=9, fcntl=72, fsync=74, fchmod=91, openat=257, renameat2=316, memfd_create=319),
    ),
    "aarch64": (
        0xC00000B7,
        dict(mmap=222, fcntl=25, fsync=82, fchmod=52, openat=56, renameat2=276, memfd_create=279),
    ),
}.get(platform.machine(), (0, {}))
_HERE = 0xFFFFFF9C  # AT_FDCWD
KILL = -1  # in place of an errno: the process ends there and then

# Calls of jit/folder.c and jit/cache.c, told from others by their flags, and by the folder that
# they are relative to: (call, argument, mask, value).
NO_FOLLOW, NON_BLOCK, CREATE = os.O_NOFOLLOW, os.O_NONBLOCK, os.O_CREAT
OPEN_ENTRY = ("openat", 2, NO_FOLLOW | NON_BLOCK | CREATE, NO_FOLLOW | NON_BLOCK)
OPEN_TEMPORARY = ("openat", 2, NO_FOLLOW | NON_BLOCK | CREATE, NO_FOLLOW | CREATE)
OPEN_LOCKS = ("openat", 2, NO_FOLLOW | NON_BLOCK | CREATE, NO_FOLLOW | NON_BLOCK | CREATE)
LOCK = ("fcntl", 1, 0xFFFFFFFF, 37)  # F_OFD_SETLK
MODE, SYNC, RENAME = ("fchmod", 0, 0, 0), ("fsync", 0, 0, 0), ("renameat2", 0, 0, 0)
MEMORY_FILE = ("memfd_create", 0, 0, 0)
MAP_CODE = ("mmap", 2, 4, 4)  # PROT_EXEC


def refuse(*faults: tuple[tuple, int]) -> None:
    """From here on each (call, errno) of this process and its children fails so."""
    instruction = struct.Struct("HBBI").pack
    load, equal, masked, end = 0x20, 0x15, 0x54, 0x06
    program = [instruction(load, 0, 0, 4), instruction(equal, 1, 0, _ARCH)]
    program += [instruction(end, 0, 0, 0x7FFF0000)]  # allow
    for (call, argument, mask, value), error in faults:
        result = 0x80000000 if error == KILL else 0x00050000 | error
        body = [
            instruction(load, 0, 0, 16 + 8 * argument),
            instruction(masked, 0, 0, mask),
            instruction(equal, 0, 1, value),
            instruction(end, 0, 0, result),
        ]
        if call == "openat":
            body = [instruction(load, 0, 0, 16), instruction(equal, 4, 0, _HERE), *body]
        head = [instruction(load, 0, 0, 0), instruction(equal, 0, len(body), _NUMBERS[call])]
        program += head + body
    program += [instruction(end, 0, 0, 0x7FFF0000)]
    text = ctypes.create_string_buffer(b"".join(program))
    filters = struct.pack("HxxxxxxQ", len(program), ctypes.addressof(text))
    for call in ((38, 1, 0, 0, 0), (22, 2, filters, 0, 0)):  # no new privileges, then the filter
        if LIBC.prctl(*(ctypes.c_ulong(a) if isinstance(a, int) else a for a in call)) != 0:
            raise OSError(ctypes.get_errno(), "seccomp")


def can_refuse() -> bool:
    """In a child: a filter would stay."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            refuse((MEMORY_FILE, errno.ENOSYS))
            os.memfd_create("x")
        except OSError as error:
            status = 0 if error.errno == errno.ENOSYS else 1
        finally:
            os._exit(status)
    return os.waitpid(pid, 0)[1] == 0


# ------------------------------------------------------------------ users
def become_another_user() -> None:
    """Root cannot be refused by permissions. Keeps /proc/self open, as exec would."""
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
        LIBC.prctl(4, 1, 0, 0, 0)  # PR_SET_DUMPABLE


# ------------------------------------------------------------------ mounts
def mount(source: str, target: str | Path, kind: str | None, flags: int, options: str = "") -> None:
    encoded = (source.encode(), os.fsencode(target), kind.encode() if kind else None)
    if LIBC.mount(*encoded, ctypes.c_ulong(flags), options.encode() or None) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"mount {kind} {target}: {os.strerror(number)}")


def own_mounts() -> None:
    """Mounts of this process are nobody else's."""
    user, group = os.geteuid(), os.getegid()
    new_mounts, new_user = 0x20000, 0x10000000
    if LIBC.unshare(new_mounts | (0 if user == 0 else new_user)) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    if user != 0:  # root of a namespace of its own, in which files of `user` are root's
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {user} 1")
        Path("/proc/self/gid_map").write_text(f"0 {group} 1")
    mount("none", "/", None, MS_REC | MS_PRIVATE)


def mount_memory(folder: str | Path, options: str, flags: int = 0) -> None:
    mount("none", folder, "tmpfs", flags, options)


def make_read_only(folder: Path) -> None:
    mount(str(folder), folder, None, MS_BIND)
    mount("none", folder, None, MS_BIND | MS_REMOUNT | MS_RDONLY)


def can_mount() -> bool:
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            own_mounts()
            mount_memory("/tmp", "size=64k")
            status = 0
        finally:
            os._exit(status)
    return os.waitpid(pid, 0)[1] == 0
