"""The package where modules of POSIX are missing."""

import subprocess
import sys

WITHOUT = """
import importlib, pkgutil, sys
import cophenet


def import_everything():
    for module in pkgutil.walk_packages(cophenet.__path__, "cophenet."):
        if module.name != "cophenet.__main__":
            importlib.import_module(module.name)


import_everything()  # so that all other packages are there
for name in [name for name in sys.modules if name.startswith("cophenet.")]:
    del sys.modules[name]
for name in "curses fcntl grp posix pty pwd readline resource syslog termios tty".split():
    sys.modules[name] = None
sys.platform = "win32"
import_everything()
print("cophenet._common.locks" in sys.modules)
"""


def test_every_module_imports_without_those_of_posix():
    command = [sys.executable, "-W", "ignore", "-c", WITHOUT]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout == "True\n", done.stderr
