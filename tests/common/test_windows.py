"""The package where modules of POSIX are missing."""

import importlib
import pkgutil
import sys
import warnings

from commands import forget_library
from forked import call_forked

POSIX = ("curses", "fcntl", "grp", "posix", "pty", "pwd", "readline", "resource", "syslog", "termios", "tty")


def import_everything():
    import cophenet

    for module in pkgutil.walk_packages(cophenet.__path__, "cophenet."):
        if module.name != "cophenet.__main__":
            importlib.import_module(module.name)


def import_without_posix():
    warnings.simplefilter("ignore")
    import_everything()  # so that all other packages are there
    forget_library()
    sys.modules.update(dict.fromkeys(POSIX))
    sys.platform = "win32"
    import_everything()
    return "cophenet._common.locks" in sys.modules


def test_every_module_imports_without_those_of_posix():
    assert call_forked(import_without_posix)
